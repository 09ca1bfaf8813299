"""Segmentations of 3D Slicer, names in NIfTI headers, and labels on a box of their image."""

import bz2
from dataclasses import replace
from pathlib import Path

import nibabel
import nrrd as pynrrd
import numpy as np
import pytest
import SimpleITK
from numpy.typing import NDArray
from scans.itk_samples import TURNED, VOLUME, stored, write_nrrd

from tracoco.errors import UserError
from tracoco.scans import nifti, nrrd
from tracoco.scans.reader import read_grid, read_label, read_structures, write_label
from tracoco.scans.scan import Grid, Structure, canonical_geometry, on_grid_of

STRUCTURES = (Structure(1, "Läsion <1>", (1.0, 0.5, 0.0)), Structure(4, "kidney & ureter"))
GRID = Grid((2, 3, 4), TURNED)
LABELS = np.resize(np.array([0, 1, 4], dtype=np.uint8), canonical_geometry(GRID)[0])


def segments(*rows: tuple[str, int, int]) -> dict[str, str | None]:
    """Header lines of segments: name, layer, value."""
    return {
        f"Segment{index}_{key}": f"= {word}"
        for index, (name, layer, value) in enumerate(rows)
        for key, word in (("Name", name), ("Layer", str(layer)), ("LabelValue", str(value)))
    }


def layered(path: Path, layers: NDArray[np.int16], *rows: tuple[str, int, int]) -> Path:
    changes: dict[str, str | None] = {
        "dimension": "4",
        "sizes": f"{len(layers)} 2 3 4",
        "space directions": "none (1.5,0,0) (0,2,0) (0,0,3)",
        "kinds": "list domain domain domain",
    }
    write_nrrd(path, changes | segments(*rows), stored(layers))
    path.write_bytes(path.read_bytes().replace(b": = ", b":="))
    return path


@pytest.mark.parametrize("suffix", [".seg.nrrd", ".nii.gz"])
def test_names_and_colours_come_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_label(path, LABELS, GRID, STRUCTURES)
    again = read_label(path)
    assert np.array_equal(again.array, LABELS)
    assert [(each.value, each.name) for each in again.structures] == [
        (each.value, each.name) for each in STRUCTURES
    ]
    assert again.structures[0].colour == pytest.approx((1, 0.5, 0))
    assert again.structures[1].colour is not None


def test_other_programs_find_the_names(tmp_path: Path) -> None:
    write_label(tmp_path / "a.seg.nrrd", LABELS, GRID, STRUCTURES)
    header = pynrrd.read_header(str(tmp_path / "a.seg.nrrd"))
    assert header["Segment1_Name"] == "kidney & ureter"
    assert (header["Segment1_LabelValue"], header["Segment1_Layer"]) == ("4", "0")
    image = SimpleITK.ReadImage(str(tmp_path / "a.seg.nrrd"))
    assert image.GetMetaData("Segment0_Color") == "1.000000 0.500000 0.000000"
    assert sorted(np.unique(SimpleITK.GetArrayFromImage(image))) == [0, 1, 4]

    write_label(tmp_path / "a.nii.gz", LABELS, GRID, STRUCTURES)
    (extension,) = nibabel.load(tmp_path / "a.nii.gz").header.extensions
    text = extension.get_content()
    text = text.decode() if isinstance(text, bytes) else text
    assert '<LabelTable><Label Key="1"' in text
    assert "kidney &amp; ureter</Label>" in text
    assert np.array_equal(read_label(tmp_path / "a.nii.gz").array, LABELS)


def test_the_table_that_totalsegmentator_writes_is_read(tmp_path: Path) -> None:
    xml = (
        '<?xml version="1.0" encoding="UTF-8"?> <CaretExtension> <VolumeInformation Index="0">'
        '<LabelTable><Label Key="1" Red="1" Green="0" Blue="0" Alpha="1"><![CDATA[spleen]]></Label>'
        "\n</LabelTable></VolumeInformation></CaretExtension>\n   "
    )
    image = nibabel.Nifti1Image(VOLUME, np.eye(4))
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension(0, xml.encode()))
    nibabel.save(image, tmp_path / "a.nii.gz")
    assert nifti.read_label(tmp_path / "a.nii.gz").structures == (
        Structure(1, "spleen", (1.0, 0.0, 0.0)),
    )


@pytest.mark.parametrize("content", [b"<CaretExtension><Label", b"\xff\xfe", b"<CaretExtension/>"])
def test_an_extension_that_makes_no_sense_names_nothing(tmp_path: Path, content: bytes) -> None:
    image = nibabel.Nifti1Image(VOLUME, np.eye(4))
    image.header.extensions.append(nibabel.nifti1.Nifti1Extension(0, content))
    nibabel.save(image, tmp_path / "a.nii")
    label = nifti.read_label(tmp_path / "a.nii")
    assert label.structures == ()
    assert np.array_equal(label.array, VOLUME)


def test_layers_become_one_map_with_values_of_their_own(tmp_path: Path) -> None:
    layers = np.zeros((2, 2, 3, 4), dtype=np.int16)
    layers[0, 0], layers[1, 1] = 1, 1
    path = layered(tmp_path / "a.seg.nrrd", layers, ("head", 0, 1), ("mass", 1, 1))
    label = read_label(path)
    assert [(each.value, each.name) for each in label.structures] == [(1, "head"), (2, "mass")]
    # The first axis points to the left in the file.
    assert np.unique(label.array[1]).tolist() == [1]
    assert np.unique(label.array[0]).tolist() == [2]
    assert [each.name for each in read_structures(path)] == ["head", "mass"]


def test_overlapping_segments_are_refused_by_name(tmp_path: Path) -> None:
    layers = np.zeros((2, 2, 3, 4), dtype=np.int16)
    layers[0, 0], layers[1, 0, 0] = 1, 2
    path = layered(tmp_path / "a.seg.nrrd", layers, ("head", 0, 1), ("mass", 1, 2))
    with pytest.raises(UserError, match=r"overlapping segments: 4 voxels of 'mass' .* 'head'"):
        read_label(path)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([("a", 0, 1), ("b", 0, 1)], "two segments of the value 1 in layer 0"),
        ([("a", 5, 1)], "segment 0 has the value '1' in layer '5' of 2"),
        ([("a", 0, 0)], "segment 0 has the value '0'"),
        ([("a", 0, 1)], "voxels of no segment"),
    ],
)
def test_segments_that_make_no_sense_are_refused(
    tmp_path: Path, rows: list[tuple[str, int, int]], problem: str
) -> None:
    layers = np.zeros((2, 2, 3, 4), dtype=np.int16)
    layers[1, 0] = 3
    with pytest.raises(UserError, match=problem):
        read_label(layered(tmp_path / "a.seg.nrrd", layers, *rows))


def test_bzip2_and_text_are_read(tmp_path: Path) -> None:
    packed = write_nrrd(tmp_path / "a.nrrd", {"encoding": "bzip2"}, bz2.compress(stored(VOLUME)))
    words = " ".join(map(str, VOLUME.ravel("F"))).encode()
    text = write_nrrd(tmp_path / "b.nrrd", {"encoding": "ascii"}, words)
    for path in (packed, text):
        assert np.array_equal(nrrd.read_label(path).array, VOLUME[::-1, ::-1])
        data, _ = pynrrd.read(str(path))
        assert np.array_equal(data, VOLUME)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"1 2 3", "holds 3 numbers, its header declares 24"), (b"x " * 24, "damaged header")],
)
def test_text_that_is_no_volume_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        nrrd.read_label(write_nrrd(tmp_path / "a.nrrd", {"encoding": "ascii"}, content))


WHOLE = np.arange(6 * 7 * 8, dtype=np.int16).reshape(6, 7, 8) % 5


def boxed(folder: Path, start: NDArray[np.float64], size: tuple[int, int, int]) -> Path:
    """A label on a box of the image's grid, which runs the other way along the first axis."""
    path = folder / "box.nii.gz"
    affine = TURNED.copy()
    affine[:3, 3] = (TURNED @ [*start, 1])[:3]
    a, b, c = np.rint(start).astype(int)
    part = np.zeros(size, dtype=np.int16)
    inside = WHOLE[max(a, 0) : a + size[0], b : b + size[1], c : c + size[2]]
    part[: inside.shape[0], : inside.shape[1], : inside.shape[2]] = inside
    nibabel.save(nibabel.Nifti1Image(part, affine), path)
    return path


def whole(folder: Path) -> Path:
    nibabel.save(nibabel.Nifti1Image(WHOLE, TURNED), folder / "image.nii.gz")
    return folder / "image.nii.gz"


def test_a_label_may_lie_on_a_box_of_its_image(tmp_path: Path) -> None:
    path = boxed(tmp_path, np.array([1.0, 2, 3]), (4, 3, 5))
    label = on_grid_of(read_grid(whole(tmp_path)), read_label(path))
    expected = np.zeros_like(WHOLE)
    expected[1:5, 2:5, 3:8] = WHOLE[1:5, 2:5, 3:8]
    nibabel.save(nibabel.Nifti1Image(expected, TURNED), tmp_path / "expected.nii")
    assert np.array_equal(label.array, read_label(tmp_path / "expected.nii").array)
    assert label.box is not None
    assert sorted(label.box.size) == [3, 4, 5]


@pytest.mark.parametrize(
    ("start", "size", "problem"),
    [
        ((1.5, 2, 3), (4, 3, 5), "shifted by a fraction of a voxel"),
        ((1.01, 2, 3), (4, 3, 5), "shifted by a fraction of a voxel"),
        ((3, 2, 3), (4, 3, 5), "leaves the grid of the image"),
        ((-1, 2, 3), (4, 3, 5), "leaves the grid of the image"),
    ],
)
def test_a_box_off_the_voxels_or_beyond_the_image_is_refused(
    tmp_path: Path, start: tuple[float, ...], size: tuple[int, int, int], problem: str
) -> None:
    path = boxed(tmp_path, np.array(start), size)
    with pytest.raises(UserError, match=problem):
        on_grid_of(read_grid(whole(tmp_path)), read_label(path))


def test_other_voxels_or_no_geometry_are_no_box(tmp_path: Path) -> None:
    image = read_grid(whole(tmp_path))
    label = read_label(boxed(tmp_path, np.array([1.0, 2, 3]), (4, 3, 5)))
    coarser = label.affine.copy()
    coarser[:3, 0] *= 1.01
    with pytest.raises(UserError, match="other sizes or directions"):
        on_grid_of(image, replace(label, affine=coarser))
    unknown = replace(label, grid=replace(label.grid, has_geometry=False))
    with pytest.raises(UserError, match="does not say where the smaller one lies"):
        on_grid_of(image, unknown)
