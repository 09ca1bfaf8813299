import zlib
from pathlib import Path

import numpy as np
import pytest
from scans.itk_samples import (
    LPS_AFFINE,
    TURNED,
    VOLUME,
    affine_of,
    stored,
    write_meta,
    write_with_simpleitk,
)

from tracoco.errors import UserError
from tracoco.scans import metaimage
from tracoco.scans.scan import Grid, canonical_geometry, to_canonical


def test_lps_is_turned_to_ras(tmp_path: Path) -> None:
    scan = metaimage.read_image(write_meta(tmp_path / "a.mha"))
    assert np.array_equal(scan.grid.affine, LPS_AFFINE)
    assert np.array_equal(scan.array[0], VOLUME[::-1, ::-1])
    assert scan.has_geometry


@pytest.mark.parametrize("suffix", [".mha", ".mhd"])
def test_simpleitk_and_we_put_a_file_at_the_same_place(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    write_with_simpleitk(path, TURNED)
    scan = metaimage.read_label(path)
    grid = Grid((2, 3, 4), TURNED)
    assert np.allclose(scan.affine, canonical_geometry(grid)[1], atol=1e-12)
    assert np.array_equal(scan.array, to_canonical(VOLUME, grid))


def test_what_is_written_is_read_by_simpleitk_at_the_same_place(tmp_path: Path) -> None:
    grid = Grid((2, 3, 4), TURNED)
    label = np.arange(24).reshape(canonical_geometry(grid)[0])
    metaimage.write_label(tmp_path / "a.mha", label, grid)
    assert np.allclose(affine_of(tmp_path / "a.mha"), TURNED, atol=1e-12)
    again = metaimage.read_label(tmp_path / "a.mha")
    assert np.allclose(again.grid.affine, TURNED, atol=1e-12)
    assert np.array_equal(again.array, label)


@pytest.mark.parametrize("highest", [255, 256, 40_000, 3_000_000_000])
def test_labels_of_any_size_come_back(tmp_path: Path, highest: int) -> None:
    label = np.array([0, highest]).reshape(2, 1, 1)
    metaimage.write_label(tmp_path / "a.mha", label, Grid((2, 1, 1), np.eye(4)))
    assert metaimage.read_label(tmp_path / "a.mha").array.tolist() == label.tolist()


def test_packed_big_endian_and_skipped_bytes(tmp_path: Path) -> None:
    big = stored(VOLUME.astype(">i2"))
    expected = VOLUME[::-1, ::-1]
    msb: dict[str, str | None] = {"BinaryDataByteOrderMSB": "True"}
    packed = write_meta(tmp_path / "a.mha", msb | {"CompressedData": "True"}, zlib.compress(big))
    assert np.array_equal(metaimage.read_label(packed).array, expected)
    (tmp_path / "b.raw").write_bytes(b"some header" + big)
    beside: dict[str, str | None] = {"HeaderSize": "-1", "ElementDataFile": "b.raw"}
    apart = write_meta(tmp_path / "b.mhd", msb | beside, b"")
    assert np.array_equal(metaimage.read_label(apart).array, expected)


def test_channels_lie_beside_each_other(tmp_path: Path) -> None:
    channels = np.stack([VOLUME, 100 + VOLUME])
    changes: dict[str, str | None] = {"ElementNumberOfChannels": "2"}
    scan = metaimage.read_image(write_meta(tmp_path / "a.mha", changes, stored(channels)))
    assert np.array_equal(scan.array, channels[:, ::-1, ::-1])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"TransformMatrix": "1 0 0 0 1 0 0.3 0 1"}, "sheared affine"),
        ({"TransformMatrix": "1 0 0 1 0 0 0 0 1"}, "singular affine"),
        ({"ElementSpacing": "1 0 1"}, "singular affine"),
        ({"TransformMatrix": "1 0 0 1"}, "damaged header"),
        ({"ElementType": "MET_STRING"}, "damaged header .*STRING"),
        ({"DistanceUnits": "mile"}, "damaged header .*mile"),
        ({"BinaryData": "False"}, "damaged header .*text"),
        ({"DimSize": None}, "damaged header .*dimsize"),
        ({"DimSize": "6 4", "NDims": "2"}, "a scan is 3D"),
        ({"DimSize": "2 2 3 2", "NDims": "4"}, "time series of 2 volumes"),
    ],
)
def test_what_cannot_be_placed_is_refused(
    tmp_path: Path, changes: dict[str, str | None], problem: str
) -> None:
    with pytest.raises(UserError, match=rf"a\.mha .*{problem}"):
        metaimage.read_header(write_meta(tmp_path / "a.mha", changes))


def test_without_a_matrix_the_spacing_is_kept_and_the_place_is_not_known(tmp_path: Path) -> None:
    scan = metaimage.read_image(write_meta(tmp_path / "a.mha", {"TransformMatrix": None}))
    assert not scan.has_geometry
    assert scan.spacing_mm == (1.5, 2, 3)
    assert np.array_equal(scan.array[0], VOLUME)


def test_other_units_are_turned_to_millimetres(tmp_path: Path) -> None:
    about = metaimage.read_header(write_meta(tmp_path / "a.mha", {"DistanceUnits": "um"}))
    assert about.spacing_mm == pytest.approx((0.0015, 0.002, 0.003))


@pytest.mark.parametrize(
    ("changes", "content", "problem"),
    [
        ({}, stored(VOLUME)[:-1], "cut short: 47 bytes of 48"),
        ({"CompressedData": "True"}, zlib.compress(stored(VOLUME))[:-5], "damaged or cut short"),
        ({"ElementDataFile": "a.raw"}, b"", "header without data: .*a.raw"),
        ({"ElementDataFile": "LIST"}, b"", "over several files"),
        ({"ElementDataFile": "a%03d.raw 1 4 1"}, b"", "over several files"),
    ],
)
def test_what_cannot_be_decoded_is_named_and_the_header_still_read(
    tmp_path: Path, changes: dict[str, str | None], content: bytes, problem: str
) -> None:
    path = write_meta(tmp_path / "a.mha", changes, content)
    assert metaimage.read_header(path).shape == (2, 3, 4)
    with pytest.raises(UserError, match=problem):
        metaimage.read_image(path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 400, b"NDims = 3\n"])
def test_another_file_is_no_metaimage(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.mha").write_bytes(content)
    with pytest.raises(UserError, match="is not a MetaImage file, or is cut short"):
        metaimage.read_header(tmp_path / "a.mha")
