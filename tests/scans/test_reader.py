import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest
from scans.itk_samples import TURNED, VOLUME, write_meta, write_nrrd

from tracoco.errors import UserError
from tracoco.scans import dicom, reader
from tracoco.scans.reader import FORMATS
from tracoco.scans.scan import canonical_geometry

Save = Callable[..., Path]


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("a.nii.gz", "a"),
        ("a.b.nii", "a.b"),
        ("A.NII.GZ", "A"),
        ("x_0000.nii.gz", "x_0000"),
        ("a.hdr", "a"),
        ("a.seg.nrrd", "a"),
        ("a.mhd", "a"),
        ("a.mgz", "a"),
        ("a.h5", "a"),
        ("a.hdf5", "a"),
        ("a.npz", "a"),
    ],
)
def test_the_suffix_tells_the_format(name: str, stem: str) -> None:
    assert reader.is_scan(Path(name))
    assert reader.scan_stem(Path(name)) == stem


@pytest.mark.parametrize(
    "name", ["a.gz", "nii", "a.nii.txt", "dataset.json", "a.raw", "a.dcm", "a.zip"]
)
def test_other_files_are_no_scans(name: str) -> None:
    assert not reader.is_scan(Path(name))


def test_an_unknown_suffix_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"a\.png is of no known format; .*\.nii\.gz, .*DICOM"):
        reader.read_image(Path("a.png"))


def test_one_file_of_a_series_names_the_way_out() -> None:
    with pytest.raises(UserError, match=r"1\.dcm is one file of a DICOM series; give the folder"):
        reader.read_image(Path("1.dcm"))


def test_what_is_written_is_read(save: Save, tmp_path: Path) -> None:
    voxels = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    path = save(voxels, np.diag([-1, 2, -3, 1]))
    about, image = reader.read_grid(path), reader.read_image(path)
    assert about.shape == image.array.shape[1:]
    assert np.array_equal(about.affine, image.affine)
    label = (image.array[0] > 11).astype(np.uint8)
    reader.write_label(tmp_path / "label.nii", label, about.grid)
    assert np.array_equal(reader.read_label(tmp_path / "label.nii").array, label)


def write_source(folder: Path, name: str) -> Path:
    """The volume in any format, turned and oblique where the format can say so."""
    path = folder / name
    if path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["image"] = VOLUME
    elif path.suffix == ".npy":
        np.save(path, VOLUME)
    elif path.suffix == ".nrrd":
        write_nrrd(path)
    elif path.suffix == ".mha":
        write_meta(path)
    else:
        kind = nibabel.MGHImage if path.suffix == ".mgz" else nibabel.Nifti1Image
        nibabel.save(kind(VOLUME.astype(np.float32), TURNED), path)
    return path


@pytest.mark.parametrize("source", ["a.nii", "a.nrrd", "a.mha", "a.mgz", "a.h5", "a.npy"])
@pytest.mark.parametrize("target", ["b.nii.gz", "b.nrrd", "b.mha"])
def test_a_label_lies_where_its_scan_lies(tmp_path: Path, source: str, target: str) -> None:
    scan = reader.read_image(write_source(tmp_path, source))
    reader.write_label(tmp_path / target, scan.array[0].astype(np.int16), scan.grid)
    label = reader.read_label(tmp_path / target)
    assert label.grid.shape == scan.grid.shape  # the file's own axes are those of the scan
    assert np.allclose(label.grid.affine, scan.grid.affine, atol=1e-5)
    assert np.allclose(label.affine, canonical_geometry(scan.grid)[1], atol=1e-5)
    assert np.array_equal(label.array, scan.array[0])


def test_labels_are_not_written_in_other_formats(tmp_path: Path, save: Save) -> None:
    grid = reader.read_grid(save(VOLUME)).grid
    for name in ("a.h5", "a.mgz", "a.hdr", "a.mhd", "a"):
        with pytest.raises(
            UserError, match=r"written as \.nii\.gz, \.nii, \.seg\.nrrd, \.nrrd, \.mha; choose"
        ):
            reader.write_label(tmp_path / name, VOLUME, grid)


def test_channels_are_stacked_from_several_files(save: Save) -> None:
    turned = np.diag([-1.0, 1, 1, 1])
    turned[0, 3] = 1  # the same place, the first axis running the other way
    paths = [save(VOLUME, name="a.nii"), save(100 + VOLUME[::-1], turned, "b.nii")]
    scan = reader.read_images(paths)
    assert np.array_equal(scan.array, np.stack([VOLUME, 100 + VOLUME]))
    assert scan.source == paths[0]


def test_files_on_other_grids_are_not_channels(save: Save) -> None:
    first = save(VOLUME, name="a.nii")
    with pytest.raises(UserError, match=r"a\.nii and .*b\.nii are not channels of one scan"):
        reader.read_images([first, save(VOLUME, np.diag([1, 1, 2, 1]), "b.nii")])


def test_only_files_that_hold_both_have_a_label_inside(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", image=VOLUME, label=VOLUME)
    assert reader.has_label(tmp_path / "a.npz")
    assert not reader.has_label(write_source(tmp_path, "a.npy"))
    assert not reader.has_label(write_source(tmp_path, "a.h5"))
    assert not reader.has_label(Path("a.nii.gz"))


def test_a_folder_lists_a_pair_and_a_series_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.hdr", "a.img", "b.img", "c.mhd", "c.raw", "._d.nii", "e.nii", "notes.txt"):
        (tmp_path / name).touch()
    for name in ("series", "other", ".hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inside.nii").touch()
    (tmp_path / "packed.zip").touch()
    (tmp_path / "else.zip").touch()
    asked = []

    def is_series(path: Path) -> bool:
        asked.append(path.name)
        return path.name in {"series", "packed.zip"}

    monkeypatch.setattr(dicom, "is_series", is_series)
    names = [path.name for path in reader.scans_in(tmp_path)]
    assert names == ["a.hdr", "b.img", "c.mhd", "e.nii", "packed.zip", "series"]
    assert sorted(asked) == ["else.zip", "other", "packed.zip", "series"]  # no file is opened
    assert reader.scan_stem(tmp_path / "series") == "series"
    assert reader.scan_stem(tmp_path / "packed.zip") == "packed"


def test_every_format_has_its_functions() -> None:
    for known in FORMATS:
        needed = ["read_header", "read_image", "read_label"]
        needed += ["write_label"] * bool(known.written) + ["has_label"] * known.label_inside
        needed += ["is_series"] * (not known.suffixes)
        assert [name for name in needed if not hasattr(known.module, name)] == [], known.name


def test_a_library_is_imported_only_for_its_format(save: Save) -> None:
    code = (
        "import sys; from pathlib import Path; from tracoco.scans import reader\n"
        f"reader.read_image(reader.scans_in(Path({str(save(VOLUME).parent)!r}))[0])\n"
        "print([name for name in ('h5py', 'tracoco.scans.dicom') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
