"""The same image under two names."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.project.cases import Case, source_hashes
from tracoco.project.fingerprint import take_fingerprint
from tracoco.project.splits import Splits, check_duplicates

COPIES = [("a", "c")]
"""Cases that have the same voxels."""
Save = Callable[..., Path]


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    return [Case(name, (tmp_path / f"{name}.nii",), tmp_path / "label") for name in "abcd"]


def test_a_copy_in_another_part_is_an_error_that_names_both(cases: list[Case]) -> None:
    with pytest.raises(UserError) as error:
        check_duplicates(COPIES, cases, Splits(("a", "b"), ("d",), (), ("c",)))
    text = str(error.value)
    assert text.startswith("case 'a' (labelled) and case 'c' (test) have the same image: ")
    assert "a.nii and " in text
    assert text.endswith("c.nii. Remove one of them, or put both into one part")


def test_a_copy_in_the_same_part_is_only_told(cases: list[Case]) -> None:
    notes = check_duplicates(COPIES, cases, Splits(("a", "b", "c"), ("d",), (), ()))
    assert notes == ["cases 'a' and 'c' have the same image"]


def test_a_labelled_and_an_unlabelled_copy_are_an_error(cases: list[Case]) -> None:
    with pytest.raises(UserError, match=r"'a' \(labelled\) and case 'c' \(unlabelled\)"):
        check_duplicates(COPIES, cases, Splits(("a", "b"), ("c", "d"), (), ()))


def test_a_copy_whose_label_is_hidden_for_a_simulation_is_only_told(cases: list[Case]) -> None:
    notes = check_duplicates(COPIES, cases, Splits(("a", "b"), ("c", "d"), (), (), hidden=("c",)))
    assert notes == ["cases 'a' and 'c' have the same image"]


def test_cases_of_no_part_do_not_count(cases: list[Case]) -> None:
    assert check_duplicates(COPIES, cases, Splits(("a", "b"), ("d",), (), ())) == []


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
    splits = Splits(("a", "b"), ("d",), (), ("c",))
    copies = take_fingerprint(cases, splits).copies
    assert copies == (("a", "c"),)
    # What is prepared from a file changes with its label too.
    assert len({source_hashes(case).images[0] for case in cases}) == 4
    with pytest.raises(UserError, match=r"case 'a' \(labelled\) and case 'c' \(test\)"):
        check_duplicates(copies, cases, splits)


def test_all_channels_must_be_alike(tmp_path: Path, save: Save) -> None:
    random = np.random.default_rng(0)
    files = {name: save(tmp_path / f"{name}.nii", random.random((4, 5, 6))) for name in "xy"}
    copy = shutil.copy(files["x"], tmp_path / "copy.nii")
    label = save(tmp_path / "label.nii", np.ones((4, 5, 6), dtype=np.uint8))
    cases = [
        Case("p", (files["x"], files["y"]), label),
        Case("q", (Path(copy), files["y"]), label),
        Case("r", (files["y"], files["x"]), label),
    ]
    assert take_fingerprint(cases, Splits(("p", "q", "r"), (), (), ())).copies == (("p", "q"),)


def test_the_same_voxels_in_another_file_are_a_copy(tmp_path: Path, save: Save) -> None:
    image = np.random.default_rng(0).random((4, 5, 6), dtype=np.float32)
    label = save(tmp_path / "label.nii", np.ones((4, 5, 6), dtype=np.uint8))
    packed, plain = (save(tmp_path / f"scan{suffix}", image) for suffix in (".nii.gz", ".nii"))
    cases = [Case("packed", (packed,), label), Case("plain", (plain,), label)]
    found = take_fingerprint(cases, Splits(("packed", "plain"), (), (), ())).copies
    assert found == (("packed", "plain"),)
