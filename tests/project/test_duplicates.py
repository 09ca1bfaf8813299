"""The same image under two names."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.project import splits as duplicates
from tracoco.project.cases import Case, image_hashes, source_hashes
from tracoco.project.splits import Splits, check_duplicates, identical_images


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    contents = {"a": b"one", "b": b"two", "c": b"one", "d": b"three"}
    for name, content in contents.items():
        (tmp_path / f"{name}.nii").write_bytes(content)
    return [Case(name, (tmp_path / f"{name}.nii",), tmp_path / "label") for name in contents]


def test_a_copy_in_another_part_is_an_error_that_names_both(cases: list[Case]) -> None:
    with pytest.raises(UserError) as error:
        check_duplicates(cases, Splits(("a", "b"), ("d",), (), ("c",)))
    text = str(error.value)
    assert text.startswith("case 'a' (labelled) and case 'c' (test) have the same image: ")
    assert "a.nii and " in text
    assert text.endswith("c.nii. Remove one of them, or put both into one part")


def test_a_copy_in_the_same_part_is_only_told(cases: list[Case]) -> None:
    notes = check_duplicates(cases, Splits(("a", "b", "c"), ("d",), (), ()))
    assert notes == ["cases 'a' and 'c' have the same image"]


def test_a_labelled_and_an_unlabelled_copy_are_an_error(cases: list[Case]) -> None:
    with pytest.raises(UserError, match=r"'a' \(labelled\) and case 'c' \(unlabelled\)"):
        check_duplicates(cases, Splits(("a", "b"), ("c", "d"), (), ()))


def test_a_copy_whose_label_is_hidden_for_a_simulation_is_only_told(cases: list[Case]) -> None:
    notes = check_duplicates(cases, Splits(("a", "b"), ("c", "d"), (), (), hidden=("c",)))
    assert notes == ["cases 'a' and 'c' have the same image"]


def test_cases_of_no_part_do_not_count(cases: list[Case]) -> None:
    assert check_duplicates(cases, Splits(("a", "b"), ("d",), (), ())) == []


def test_only_images_of_one_size_are_read(
    cases: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counted(case: Case) -> tuple[str, ...]:
        read.append(case.id)
        return image_hashes(case)

    monkeypatch.setattr(duplicates, "image_hashes", counted)
    assert [[case.id for case in same] for same in identical_images(cases)] == [["a", "c"]]
    assert read == ["a", "b", "c"]


def test_a_series_is_compared_by_its_files(tmp_path: Path) -> None:
    for series, last in (("x", b"2"), ("y", b"2"), ("z", b"3")):
        (tmp_path / series).mkdir()
        (tmp_path / series / "1.dcm").write_bytes(b"1")
        (tmp_path / series / "2.dcm").write_bytes(last)
    cases = [Case(series, (tmp_path / series,), None) for series in "xyz"]
    assert [[case.id for case in same] for same in identical_images(cases)] == [["x", "y"]]


def test_all_channels_must_be_alike(cases: list[Case]) -> None:
    a, b, c, _ = (case.images[0] for case in cases)
    two = [Case("p", (a, b), None), Case("q", (c, b), None), Case("r", (b, a), None)]
    assert [[case.id for case in same] for same in identical_images(two)] == [["p", "q"]]


def write_both(path: Path, image: NDArray[Any], label: NDArray[Any]) -> Case:
    """An image and its label in one file."""
    if path.suffix == ".npz":
        np.savez_compressed(path, image=image, label=label)
    else:
        with h5py.File(path, "w") as file:
            for name, array in (("image", image), ("label", label)):
                file.create_dataset(name, data=array, compression="gzip")
    return Case(path.stem, (path,), path)


@pytest.mark.parametrize("suffix", [".h5", ".npz"])
def test_a_label_in_the_same_file_does_not_tell_images_apart(tmp_path: Path, suffix: str) -> None:
    random = np.random.default_rng(0)
    image = random.normal(size=(4, 5, 6)).astype(np.float32)
    other = image.copy()
    other[3, 4, 5] += 1
    label = random.integers(0, 4, image.shape, dtype=np.uint8)
    contents = {
        "a": (image, label),
        "b": (other, label),
        "c": (image, np.zeros_like(label)),
        "d": (image.reshape(5, 4, 6), label.reshape(5, 4, 6)),
    }
    cases = [write_both(tmp_path / f"{id_}{suffix}", *both) for id_, both in contents.items()]
    assert [[case.id for case in same] for same in identical_images(cases)] == [["a", "c"]]
    # What is prepared from a file changes with its label too.
    assert len({source_hashes(case)["images"][0] for case in cases}) == 4
    with pytest.raises(UserError, match=r"case 'a' \(labelled\) and case 'c' \(test\)"):
        check_duplicates(cases, Splits(("a", "b"), ("d",), (), ("c",)))


def test_a_damaged_file_is_left_to_those_who_open_it(tmp_path: Path) -> None:
    for name in ("a.h5", "b.h5", "c.npz"):
        (tmp_path / name).write_bytes(b"no scan")
    cases = [Case(name, (tmp_path / name,), None) for name in ("a.h5", "b.h5", "c.npz")]
    assert [[case.id for case in same] for same in identical_images(cases)] == [
        ["a.h5", "b.h5", "c.npz"]
    ]
