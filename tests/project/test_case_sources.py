import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tracoco.errors import UserError
from tracoco.project.cases import Case, source_bytes, source_hashes, source_stamps

Save = Callable[..., Path]


@pytest.fixture
def case(tmp_path: Path, save: Save) -> Case:
    image = save(tmp_path / "a.nii", np.zeros((6, 6, 6), dtype=np.uint8))
    return Case(
        "a", (image,), save(tmp_path / "a_label.nii", np.full((6, 6, 6), 2, dtype=np.uint8))
    )


def test_sources_are_known_by_their_content(case: Case, save: Save) -> None:
    before = source_hashes(case)
    assert case.label is not None
    save(case.label, np.ones((6, 6, 6), dtype=np.uint8))
    after = source_hashes(case)
    assert before.images == after.images
    assert before.label != after.label
    assert source_hashes(Case("a", case.images, None)).label is None


def test_a_source_that_is_gone_is_named(case: Case) -> None:
    case.images[0].unlink()
    with pytest.raises(UserError, match=r"a\.nii cannot be read \(No such file"):
        source_hashes(case)


def test_a_file_that_was_written_again_has_another_stamp_but_the_same_content(case: Case) -> None:
    stamps, hashes = source_stamps(case), source_hashes(case)
    content = case.images[0].read_bytes()
    case.images[0].write_bytes(content)
    os.utime(case.images[0], ns=(1, 1))
    assert source_stamps(case).images != stamps.images
    assert source_stamps(case).label == stamps.label
    assert source_hashes(case) == hashes


def test_files_that_were_exchanged_have_other_stamps(case: Case) -> None:
    image, label = case.images[0], case.label
    assert label is not None
    for path in (image, label):  # one size, one time
        os.utime(path, ns=(10**18, 10**18))
    stamps = source_stamps(case)
    image.rename(image.with_name("other"))
    label.rename(image)
    image.with_name("other").rename(label)
    after = source_stamps(case)
    assert after.images != stamps.images
    assert after.label != stamps.label


def test_a_series_is_known_by_all_of_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "series"
    (folder / "deeper").mkdir(parents=True)
    (folder / "1.dcm").write_bytes(b"one")
    (folder / "deeper" / "2.dcm").write_bytes(b"two")
    case = Case("a", (folder,), None)
    hashes, stamps = source_hashes(case), source_stamps(case)
    assert source_bytes(case) == 6
    (folder / "deeper" / "2.dcm").write_bytes(b"zwo")
    assert source_hashes(case) != hashes
    assert source_stamps(case) != stamps


@pytest.mark.parametrize(("header", "voxels"), [("a.mhd", "a.raw"), ("a.hdr", "a.img")])
def test_voxels_beside_a_header_count_too(tmp_path: Path, header: str, voxels: str) -> None:
    (tmp_path / header).write_bytes(b"header")
    (tmp_path / voxels).write_bytes(b"voxels")
    (tmp_path / "ab.raw").write_bytes(b"another scan")
    case = Case("a", (tmp_path / header,), None)
    assert source_bytes(case) == 12
    before = source_hashes(case), source_stamps(case)
    (tmp_path / voxels).write_bytes(b"others")
    assert source_hashes(case) != before[0]
    assert source_stamps(case) != before[1]


def test_an_image_that_holds_its_label_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "a.h5").write_bytes(b"both")
    assert source_bytes(Case("a", (tmp_path / "a.h5",), tmp_path / "a.h5")) == 4
    assert source_bytes(Case("a", (tmp_path / "gone.h5",), None)) == 0
