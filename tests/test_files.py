import errno
import os
from pathlib import Path

import pytest

from tracoco.errors import UserError, raise_all
from tracoco.files import atomic_path, content_hash, digest, read_json, write_json, write_text


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "inner" / "a.txt"
    write_text(path, "old")
    write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert list(path.parent.iterdir()) == [path]


def fail_half_way(path: Path, error: BaseException) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("half", encoding="utf-8")
        raise error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line_and_leaves_the_old_file(tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(UserError, match=r"a\.txt: no space left"):
        fail_half_way(path, OSError(number, os.strerror(number)))
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_any_other_error_also_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(KeyboardInterrupt):
        fail_half_way(path, KeyboardInterrupt())
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_file_keeps_the_suffix(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "scan.nii.gz") as temporary:
        assert temporary.name.endswith(".nii.gz")
        temporary.touch()


def test_broken_json_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(UserError, match=r"a\.json does not exist"):
        read_json(path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.json is not valid JSON"):
        read_json(path)
    write_json(path, {"b": [1]})
    assert read_json(path) == {"b": [1]}


def test_the_hash_is_of_the_content(tmp_path: Path) -> None:
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        write_text(tmp_path / name, text)
    first, second, third = (content_hash(tmp_path / name) for name in "abc")
    assert first == second != third


def test_all_problems_are_told_at_once() -> None:
    raise_all([])
    with pytest.raises(UserError, match=r"^one$"):
        raise_all(["one"])
    with pytest.raises(UserError, match=r"2 problems:\n  one\n  two"):
        raise_all(["one", "two"])


def test_the_order_of_keys_does_not_matter_and_that_of_lists_does() -> None:
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])


def test_the_digest_is_the_same_for_ever() -> None:
    # printf '[0, "a"]' | sha256sum
    assert digest([0, "a"]).startswith("4a2978d91c01")
