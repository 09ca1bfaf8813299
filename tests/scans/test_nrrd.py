import gzip
from pathlib import Path

import numpy as np
import pytest
from scans.itk_samples import (
    LPS_AFFINE,
    TURNED,
    VOLUME,
    affine_of,
    stored,
    write_nrrd,
    write_with_simpleitk,
)

from tracoco.errors import UserError
from tracoco.scans import nrrd
from tracoco.scans.scan import Grid, canonical_geometry, to_canonical


def test_lps_is_turned_to_ras(tmp_path: Path) -> None:
    scan = nrrd.read_image(write_nrrd(tmp_path / "a.nrrd"))
    assert np.array_equal(scan.grid.affine, LPS_AFFINE)
    assert np.array_equal(scan.array[0], VOLUME[::-1, ::-1])
    assert scan.spacing_mm == (1.5, 2, 3)
    assert scan.has_geometry


@pytest.mark.parametrize(
    ("space", "signs"),
    [
        ("right-anterior-superior", (1, 1)),
        ("RAS", (1, 1)),
        ("left-anterior-superior", (-1, 1)),
        ("LPS", (-1, -1)),
    ],
)
def test_the_space_says_which_side_is_left(
    tmp_path: Path, space: str, signs: tuple[int, int]
) -> None:
    affine = nrrd.read_header(write_nrrd(tmp_path / "a.nrrd", {"space": space})).grid.affine
    assert affine[:2, :2].tolist() == np.diag([signs[0] * 1.5, signs[1] * 2]).tolist()
    assert affine[:3, 3].tolist() == [signs[0] * 10, signs[1] * 20, 30]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("unsigned short int", "<u2"),
        ("int16_t", "<i2"),
        ("uchar", "u1"),
        ("signed char", "i1"),
        ("unsigned int", "<u4"),
        ("long long int", "<i8"),
        ("double", "<f8"),
    ],
)
def test_types_have_the_names_of_c(tmp_path: Path, name: str, dtype: str) -> None:
    path = write_nrrd(tmp_path / "a.nrrd", {"type": name}, stored(VOLUME.astype(dtype)))
    assert np.array_equal(nrrd.read_label(path).array, VOLUME[::-1, ::-1])


def test_gzip_big_endian_and_skipped_bytes(tmp_path: Path) -> None:
    packed = gzip.compress(b"skip" + stored(VOLUME.astype(">i2")))
    changes: dict[str, str | None] = {"encoding": "gzip", "endian": "big", "byte skip": "4"}
    path = write_nrrd(tmp_path / "a.nrrd", changes, packed)
    assert np.array_equal(nrrd.read_label(path).array, VOLUME[::-1, ::-1])


def test_a_header_of_its_own_names_its_data(tmp_path: Path) -> None:
    path = write_nrrd(tmp_path / "a.nhdr", {"data file": "a.raw", "byteskip": "-1"}, b"")
    with pytest.raises(UserError, match=r"a\.nhdr is a header without data: .*a\.raw"):
        nrrd.read_image(path)
    (tmp_path / "a.raw").write_bytes(b"whatever" + stored(VOLUME))
    assert np.array_equal(nrrd.read_label(path).array, VOLUME[::-1, ::-1])


@pytest.mark.parametrize("first", [True, False])
def test_a_list_axis_holds_channels(tmp_path: Path, first: bool) -> None:  # noqa: FBT001  # a case
    channels = np.stack([VOLUME, 100 + VOLUME], axis=0 if first else 3)
    steps, kinds = "(1.5,0,0) (0,2,0) (0,0,3)", "domain domain domain"
    changes: dict[str, str | None] = {
        "dimension": "4",
        "sizes": "2 2 3 4" if first else "2 3 4 2",
        "space directions": f"none {steps}" if first else f"{steps} none",
        "kinds": f"vector {kinds}" if first else f"{kinds} list",
    }
    scan = nrrd.read_image(write_nrrd(tmp_path / "a.nrrd", changes, stored(channels)))
    assert np.array_equal(scan.array, np.stack([VOLUME, 100 + VOLUME])[:, ::-1, ::-1])


@pytest.mark.parametrize(
    ("kind", "problem"),
    [("RGB-color", "RGB voxels"), ("complex", "complex voxels"), ("time", "time series of 2")],
)
def test_other_axes_are_no_channels(tmp_path: Path, kind: str, problem: str) -> None:
    changes: dict[str, str | None] = {
        "dimension": "4",
        "sizes": "2 2 3 4",
        "space directions": "none (1,0,0) (0,1,0) (0,0,1)",
        "kinds": f"{kind} domain domain domain",
    }
    with pytest.raises(UserError, match=problem):
        nrrd.read_header(write_nrrd(tmp_path / "a.nrrd", changes))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"space directions": "(1,0,0) (0,1,0) (0.3,0,1)"}, "sheared affine"),
        ({"space directions": "(1,0,0) (1,0,0) (0,0,1)"}, "singular affine"),
        ({"space directions": "(1,0,0) (0,1,0) (0,0,0)"}, "singular affine"),
        ({"space directions": None}, "has no 'space directions'"),
        ({"space": "scanner-xyz"}, "does not say where left and right are"),
        ({"space": None}, "does not say where left and right are"),
        ({"space directions": "(1,0) (0,1) (0,0)"}, "damaged header .*no vector in space"),
        ({"sizes": "2 12", "dimension": "2", "kinds": None}, "damaged header"),
        ({"sizes": "2 3"}, "damaged header"),
        ({"type": "block"}, "damaged header .*block"),
        ({"space units": '"mile" "mile" "mile"'}, "damaged header .*mile"),
        ({"sizes": None}, "damaged header .*sizes"),
    ],
)
def test_what_cannot_be_placed_is_refused(
    tmp_path: Path, changes: dict[str, str | None], problem: str
) -> None:
    with pytest.raises(UserError, match=rf"a\.nrrd .*{problem}"):
        nrrd.read_header(write_nrrd(tmp_path / "a.nrrd", changes))


def test_four_axes_without_kinds_are_not_guessed(tmp_path: Path) -> None:
    changes: dict[str, str | None] = {"dimension": "4", "sizes": "2 3 4 1", "kinds": None}
    changes |= dict.fromkeys(("space", "space directions", "space origin"))
    with pytest.raises(UserError, match="has 4 axes in space"):
        nrrd.read_header(write_nrrd(tmp_path / "a.nrrd", changes))


def test_two_axes_beside_those_of_space_are_refused(tmp_path: Path) -> None:
    changes: dict[str, str | None] = {
        "dimension": "5",
        "sizes": "2 2 2 3 1",
        "space directions": "none none (1,0,0) (0,1,0) (0,0,1)",
        "kinds": "list vector domain domain domain",
    }
    with pytest.raises(UserError, match="has 2 axes beside those of space"):
        nrrd.read_header(write_nrrd(tmp_path / "a.nrrd", changes))


def test_without_any_space_the_spacing_is_kept_and_the_place_is_not_known(tmp_path: Path) -> None:
    changes: dict[str, str | None] = {"space": None, "space directions": None}
    about = nrrd.read_header(write_nrrd(tmp_path / "a.nrrd", changes | {"spacings": "1 2 nan"}))
    assert about.spacing_mm == (1, 2, 1)
    assert not about.has_geometry
    assert not nrrd.read_header(write_nrrd(tmp_path / "b.nrrd", changes)).has_geometry


def test_other_units_are_turned_to_millimetres(tmp_path: Path) -> None:
    about = nrrd.read_header(write_nrrd(tmp_path / "a.nrrd", {"space units": '"cm" "cm" "cm"'}))
    assert about.spacing_mm == (15, 20, 30)


@pytest.mark.parametrize(
    ("changes", "content", "problem"),
    [
        ({}, stored(VOLUME)[:-1], "cut short: 47 bytes of 48"),
        ({"encoding": "gzip"}, gzip.compress(stored(VOLUME), mtime=0)[:-9], "damaged or cut short"),
        ({"encoding": "gzip"}, stored(VOLUME), "damaged or cut short"),
        ({"encoding": "hex"}, stored(VOLUME), "encoded as 'hex'; save it again"),
        ({"data file": "LIST"}, b"", "over several files"),
        ({"data file": "a%03d.raw 1 4 1"}, b"", "over several files"),
    ],
)
def test_what_cannot_be_decoded_is_named_and_the_header_still_read(
    tmp_path: Path, changes: dict[str, str | None], content: bytes, problem: str
) -> None:
    path = write_nrrd(tmp_path / "a.nrrd", changes, content)
    assert nrrd.read_header(path).shape == (2, 3, 4)
    with pytest.raises(UserError, match=problem):
        nrrd.read_image(path)


def test_another_file_is_no_nrrd(tmp_path: Path) -> None:
    (tmp_path / "a.nrrd").write_bytes(b"\x00" * 400)
    with pytest.raises(UserError, match="is not an NRRD file"):
        nrrd.read_header(tmp_path / "a.nrrd")
    with pytest.raises(UserError, match="does not exist"):
        nrrd.read_header(tmp_path / "b.nrrd")


@pytest.mark.parametrize("suffix", [".nrrd", ".nhdr"])
def test_simpleitk_and_we_put_a_file_at_the_same_place(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_with_simpleitk(path, TURNED)
    scan = nrrd.read_label(path)
    _, affine, _ = canonical_geometry(Grid((2, 3, 4), TURNED))
    assert np.allclose(scan.affine, affine, atol=1e-12)
    assert np.array_equal(scan.array, to_canonical(VOLUME, Grid((2, 3, 4), TURNED)))


def test_what_is_written_is_read_by_simpleitk_at_the_same_place(tmp_path: Path) -> None:
    grid = Grid((2, 3, 4), TURNED)
    label = np.arange(24).reshape(canonical_geometry(grid)[0])
    nrrd.write_label(tmp_path / "a.nrrd", label, grid)
    assert np.allclose(affine_of(tmp_path / "a.nrrd"), TURNED, atol=1e-12)
    again = nrrd.read_label(tmp_path / "a.nrrd")
    assert np.array_equal(again.grid.affine, TURNED)
    assert np.array_equal(again.array, label)
