import errno
import gzip
from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path
from typing import Any, NoReturn

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans import nifti
from tracoco.scans.scan import Grid

Save = Callable[..., Path]
VOLUME = np.arange(24, dtype=np.int16).reshape(2, 3, 4)


def load(path: Path) -> Any:
    return nibabel.load(path)


@pytest.mark.parametrize("axes", list(permutations(range(3))))
@pytest.mark.parametrize("signs", list(product((1, -1), repeat=3)))
def test_all_48_orientations_round_trip(
    save: Save, tmp_path: Path, axes: tuple[int, ...], signs: tuple[int, ...]
) -> None:
    canonical = nibabel.Nifti1Image(VOLUME, np.diag([1.5, 2, 3, 1]))
    turned = canonical.as_reoriented(np.array(list(zip(axes, signs, strict=True))))
    path = save(turned.get_fdata().astype(np.int16), turned.affine)

    scan = nifti.read_image(path)
    assert np.array_equal(scan.array[0], VOLUME)
    assert scan.spacing_mm == pytest.approx((1.5, 2, 3))

    nifti.write_label(tmp_path / "result.nii.gz", scan.array[0].astype(np.uint8), scan.grid)
    source, result = load(path), load(tmp_path / "result.nii.gz")
    assert np.array_equal(result.get_fdata(), source.get_fdata())
    assert np.array_equal(result.affine, source.affine)


def test_the_result_has_the_codes_and_units_of_its_scan(tmp_path: Path) -> None:
    oblique = np.diag([0.7, 0.7, 4, 1])
    turn = np.deg2rad(12)
    oblique[:3, :3] = (
        np.array([[1, 0, 0], [0, np.cos(turn), -np.sin(turn)], [0, np.sin(turn), np.cos(turn)]])
        @ oblique[:3, :3]
    )
    image = nibabel.Nifti1Image(VOLUME, oblique)
    image.header.set_sform(oblique, code=4)
    image.header.set_qform(oblique, code=1)
    image.header.set_xyzt_units("mm", "sec")
    image.header["descrip"] = "a name"
    nibabel.save(image, tmp_path / "a.nii")

    grid = nifti.read_header(tmp_path / "a.nii").grid
    nifti.write_label(tmp_path / "b.nii", np.ones((2, 3, 4)), grid)
    source, result = load(tmp_path / "a.nii").header, load(tmp_path / "b.nii").header
    for field in (*nifti.GEOMETRY, "pixdim"):
        assert np.array_equal(source[field], result[field]), field
    assert result["descrip"] == b""  # nothing else of the scan is passed on


def test_nifti_2_stays_nifti_2(tmp_path: Path) -> None:
    nibabel.save(nibabel.Nifti2Image(VOLUME, np.eye(4)), tmp_path / "a.nii")
    scan = nifti.read_image(tmp_path / "a.nii")
    assert np.array_equal(scan.array[0], VOLUME)
    nifti.write_label(tmp_path / "b.nii", VOLUME, scan.grid)
    assert isinstance(load(tmp_path / "b.nii"), nibabel.Nifti2Image)


def test_a_grid_without_a_header_is_written_in_millimetres(tmp_path: Path) -> None:
    affine = np.array([[0, -2.0, 0, 5], [1, 0, 0, 6], [0, 0, 3, 7], [0, 0, 0, 1]])
    label = np.arange(24).reshape(3, 2, 4)
    nifti.write_label(tmp_path / "a.nii", label, Grid((2, 3, 4), affine))
    assert np.allclose(load(tmp_path / "a.nii").affine, affine)
    assert load(tmp_path / "a.nii").header.get_xyzt_units()[0] == "mm"
    assert np.array_equal(nifti.read_label(tmp_path / "a.nii").array, label)


@pytest.mark.parametrize(
    ("highest", "kind"), [(255, np.uint8), (256, np.int16), (40_000, np.int32)]
)
def test_labels_are_written_in_the_smallest_type(
    tmp_path: Path, highest: int, kind: type[np.integer[Any]]
) -> None:
    label = np.array([0, highest]).reshape(2, 1, 1)
    nifti.write_label(tmp_path / "a.nii.gz", label, Grid((2, 1, 1), np.eye(4)))
    result = load(tmp_path / "a.nii.gz")
    assert result.get_data_dtype() == kind
    assert result.get_fdata().ravel().tolist() == [0, highest]


def test_channels_come_first(save: Save) -> None:
    channels = np.stack([VOLUME, 100 + VOLUME], axis=-1)
    path = save(channels)
    assert nifti.read_header(path).channels == 2
    scan = nifti.read_image(path)
    assert scan.array.dtype == np.float32
    assert np.array_equal(scan.array, np.stack([VOLUME, 100 + VOLUME]))


def test_slope_and_intercept_are_applied(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(VOLUME, np.eye(4))
    image.header.set_slope_inter(2, -10)
    nibabel.save(image, tmp_path / "a.nii")
    expected = 2 * VOLUME - 10
    assert np.array_equal(nifti.read_image(tmp_path / "a.nii").array[0], expected)
    assert np.array_equal(nifti.read_label(tmp_path / "a.nii").array, expected)


def test_big_endian_voxels_are_read(tmp_path: Path) -> None:
    header = nibabel.Nifti1Header(endianness=">")
    header.set_data_dtype(np.int16)
    nibabel.Nifti1Image(VOLUME, np.eye(4), header).to_filename(tmp_path / "a.nii")
    scan = nifti.read_image(tmp_path / "a.nii")
    assert np.array_equal(scan.array[0], VOLUME)
    nifti.write_label(tmp_path / "b.nii", VOLUME, scan.grid)
    assert np.array_equal(load(tmp_path / "b.nii").get_fdata(), VOLUME)


def test_spacing_in_other_units_is_given_in_millimetres(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(VOLUME, np.diag([50, 50, 100, 1]))
    image.header.set_xyzt_units("micron")
    nibabel.save(image, tmp_path / "a.nii")
    about = nifti.read_header(tmp_path / "a.nii")
    assert about.spacing_mm == pytest.approx((0.05, 0.05, 0.1))
    nifti.write_label(tmp_path / "b.nii", VOLUME, about.grid)
    assert np.array_equal(load(tmp_path / "b.nii").affine, image.affine)


def test_the_header_is_read_without_the_voxels(save: Save) -> None:
    path = save(VOLUME, np.diag([1, 2, 3, 1]), "a.nii")
    path.write_bytes(path.read_bytes()[:352])
    about = nifti.read_header(path)
    assert (about.shape, about.spacing_mm, about.channels) == ((2, 3, 4), (1, 2, 3), 1)
    with pytest.raises(UserError, match=r"a\.nii is cut short: 352 bytes of 400"):
        nifti.read_image(path)


@pytest.mark.parametrize("kept", [0.2, 0.6, 0.999])
def test_a_truncated_gzip_file_is_refused(save: Save, kept: float) -> None:
    path = save(np.random.default_rng(0).integers(0, 1000, (20, 20, 20), dtype=np.int16))
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    assert nifti.read_header(path).shape == (20, 20, 20)
    with pytest.raises(UserError, match=r"scan\.nii\.gz cannot be read .*copy it again"):
        nifti.read_image(path)


def test_a_flipped_bit_is_noticed(save: Save) -> None:
    # Stored without compression, so that only gzip's check sum can tell.
    path = save(VOLUME, name="a.nii")
    packed = bytearray(gzip.compress(path.read_bytes(), compresslevel=0))
    packed[-20] ^= 1
    path.write_bytes(bytes(packed))
    with pytest.raises(UserError, match="damaged or cut short"):
        nifti.read_label(path)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 600, b"\x1f\x8bbroken"])
def test_what_is_not_nifti_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.nii").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.nii .*copy"):
        nifti.read_header(tmp_path / "a.nii")


def test_a_damaged_header_is_refused(save: Save) -> None:
    path = save(VOLUME, name="a.nii")
    content = bytearray(path.read_bytes())
    content[70:72] = (9999).to_bytes(2, "little")  # the code of the voxel type
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match="damaged header"):
        nifti.read_header(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.nii does not exist"):
        nifti.read_image(tmp_path / "a.nii")


@pytest.mark.parametrize(
    ("voxels", "problem"),
    [
        (np.array([0, np.nan], dtype=np.float32).reshape(2, 1, 1), "1 NaN or infinite"),
        (np.array([0, 1e300]).reshape(2, 1, 1), "1 NaN or infinite"),
        (np.zeros((2, 2, 2), dtype=np.complex64), "complex voxels"),
        (np.zeros((2, 2, 2), dtype=[(c, "u1") for c in "RGB"]), "RGB voxels"),
        (np.zeros((2, 2), dtype=np.uint8), "a scan is 3D"),
    ],
)
def test_unusable_images_are_refused(save: Save, voxels: NDArray[Any], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        nifti.read_image(save(voxels))


def test_a_sheared_file_is_refused(save: Save) -> None:
    affine = np.eye(4)
    affine[0, 2] = 0.3
    with pytest.raises(UserError, match="sheared affine"):
        nifti.read_header(save(VOLUME, affine))


def test_label_values_must_be_integers(save: Save) -> None:
    assert nifti.read_label(save(VOLUME.astype(np.float32))).array.tolist() == VOLUME.tolist()
    with pytest.raises(UserError, match="between integers"):
        nifti.read_label(save(VOLUME + np.float32(0.5)))


def test_a_label_has_one_channel(save: Save) -> None:
    with pytest.raises(UserError, match="2 channels"):
        nifti.read_label(save(np.stack([VOLUME, VOLUME], axis=-1)))


def test_a_full_disk_leaves_the_old_file(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(VOLUME)
    before = path.read_bytes()
    grid = nifti.read_header(path).grid

    def full(_image: object, temporary: Path) -> NoReturn:
        temporary.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(nibabel, "save", full)
    with pytest.raises(UserError, match="no space left"):
        nifti.write_label(path, VOLUME, grid)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def pair(folder: Path) -> tuple[Path, Path]:
    nibabel.save(nibabel.Nifti1Pair(VOLUME, np.diag([-1, 2, 3, 1])), folder / "a.hdr")
    return folder / "a.hdr", folder / "a.img"


def test_both_halves_of_a_pair_are_the_same_scan(tmp_path: Path) -> None:
    for half in pair(tmp_path):
        scan = nifti.read_image(half)
        assert np.array_equal(scan.array[0], VOLUME[::-1])
        nifti.write_label(tmp_path / "b.nii.gz", scan.array[0], scan.grid)
        result = load(tmp_path / "b.nii.gz")
        assert np.array_equal(result.get_fdata(), VOLUME)
        assert np.array_equal(result.affine, np.diag([-1, 2, 3, 1]))


@pytest.mark.parametrize(("kept", "lost"), [(0, r"a\.img"), (1, r"a\.hdr")])
def test_half_of_a_pair_names_the_other(tmp_path: Path, kept: int, lost: str) -> None:
    halves = pair(tmp_path)
    halves[1 - kept].unlink()
    with pytest.raises(UserError, match=f"half of a pair, and .*{lost} does not exist"):
        nifti.read_header(halves[kept])


def test_a_pair_whose_voxels_are_cut_short_names_their_file(tmp_path: Path) -> None:
    header, voxels = pair(tmp_path)
    voxels.write_bytes(voxels.read_bytes()[:10])
    with pytest.raises(UserError, match=r"a\.img is cut short: 10 bytes of 48"):
        nifti.read_image(header)


def test_half_of_a_pair_under_another_name_is_not_read_as_voxels(tmp_path: Path) -> None:
    (tmp_path / "b.nii").write_bytes(pair(tmp_path)[0].read_bytes())
    with pytest.raises(UserError, match=r"b\.nii is cut short"):
        nifti.read_image(tmp_path / "b.nii")


def test_analyze_does_not_say_which_side_is_left(tmp_path: Path) -> None:
    nibabel.save(nibabel.AnalyzeImage(VOLUME, np.eye(4)), tmp_path / "a.img")
    with pytest.raises(UserError, match=r"is an Analyze file: .*which side is left"):
        nifti.read_header(tmp_path / "a.hdr")


@pytest.mark.parametrize(
    ("unit", "step", "volumes", "refused"),
    [
        ("sec", 2.0, 2, True),
        ("msec", 2000.0, 4, True),
        ("sec", 1.0, 9, True),  # more than a scan has channels
        ("sec", 1.0, 4, False),  # as the Decathlon has its channels
        ("sec", 0.0, 2, False),
        ("unknown", 2.0, 9, False),
        ("sec", 2.0, 1, False),
    ],
)
def test_a_time_series_is_refused_and_channels_are_not(
    tmp_path: Path,
    unit: str,
    step: float,
    volumes: int,
    refused: bool,  # noqa: FBT001  # a case
) -> None:
    image = nibabel.Nifti1Image(np.stack([VOLUME] * volumes, axis=-1), np.eye(4))
    image.header.set_xyzt_units("mm", unit)
    image.header["pixdim"][4] = step
    nibabel.save(image, tmp_path / "a.nii")
    if refused:
        with pytest.raises(UserError, match=f"time series of {volumes} volumes"):
            nifti.read_header(tmp_path / "a.nii")
    else:
        assert nifti.read_header(tmp_path / "a.nii").channels == volumes


def test_without_an_affine_the_spacing_is_kept_and_the_place_is_not_known(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(VOLUME, None)
    image.header.set_zooms((1, 2, 3))
    image.header.set_qform(None, code=0)
    image.header.set_sform(None, code=0)
    nibabel.save(image, tmp_path / "a.nii")
    scan = nifti.read_image(tmp_path / "a.nii")
    assert not scan.has_geometry
    assert scan.spacing_mm == (1, 2, 3)
    nifti.write_label(tmp_path / "b.nii", scan.array[0], scan.grid)
    assert np.array_equal(load(tmp_path / "b.nii").get_fdata(), VOLUME)
    assert not nifti.read_header(tmp_path / "b.nii").has_geometry  # the result claims no more


@pytest.mark.parametrize("form", ["qform", "sform"])
def test_one_of_the_two_affines_is_enough(tmp_path: Path, form: str) -> None:
    image = nibabel.Nifti1Image(VOLUME, None)
    getattr(image.header, f"set_{form}")(np.diag([1, 2, 3, 1]), code=1)
    nibabel.save(image, tmp_path / "a.nii")
    assert nifti.read_header(tmp_path / "a.nii").has_geometry
