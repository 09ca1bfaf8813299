import zlib
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.errors import UserError
from tracoco.scans import arrays as hdf5

VOLUME = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
LABEL = (VOLUME > 11).astype(np.uint8)


def write(path: Path, **arrays: NDArray[Any]) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip")
    return path


@pytest.mark.parametrize(("image", "label"), [("image", "label"), ("data", "mask")])
def test_one_file_is_the_image_and_the_label(tmp_path: Path, image: str, label: str) -> None:
    arrays: dict[str, NDArray[Any]] = {image: VOLUME, label: LABEL}
    path = write(tmp_path / "a.h5", **arrays)
    scan = hdf5.read_image(path)
    assert scan.array.dtype == np.float32
    assert np.array_equal(scan.array[0], VOLUME)  # axes as stored
    assert np.array_equal(hdf5.read_label(path).array, LABEL)
    assert hdf5.has_label(path)
    assert not hdf5.has_label(write(tmp_path / "b.h5", image=VOLUME))


def test_the_grid_is_assumed_and_says_so(tmp_path: Path) -> None:
    about = hdf5.read_header(write(tmp_path / "a.h5", image=VOLUME))
    assert about.has_geometry is False
    assert about.spacing_mm == (1, 1, 1)
    assert np.array_equal(about.grid.affine, np.eye(4))


def test_a_slice_is_a_volume_one_voxel_thick_along_the_last_axis(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", image=VOLUME[0], label=LABEL[0])
    assert hdf5.read_header(path).shape == (3, 4, 1)
    assert np.array_equal(hdf5.read_image(path).array[0, :, :, 0], VOLUME[0])
    assert np.array_equal(hdf5.read_label(path).array[:, :, 0], LABEL[0])


def test_channels_come_first(tmp_path: Path) -> None:
    channels = np.stack([VOLUME, 100 + VOLUME])
    path = write(tmp_path / "a.h5", image=channels, label=LABEL)
    assert hdf5.read_header(path).channels == 2
    assert np.array_equal(hdf5.read_image(path).array, channels)
    assert np.array_equal(hdf5.read_label(path).array, LABEL)
    with pytest.raises(UserError, match=r"\(3, 4, 5, 2\); the channels of a 4D array come first"):
        hdf5.read_header(write(tmp_path / "b.h5", image=np.zeros((3, 4, 5, 2))))


def test_only_what_is_asked_for_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.h5", image=VOLUME, label=LABEL)
    read = h5py.Dataset.__getitem__
    names = []

    def noted(dataset: Any, *arguments: Any) -> Any:
        names.append(dataset.name)
        return read(dataset, *arguments)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", noted)
    hdf5.read_header(path)
    hdf5.has_label(path)
    assert names == []
    hdf5.read_image(path)
    assert names == ["/image"]
    hdf5.read_label(path)
    assert names == ["/image", "/label"]


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        ({"t1": VOLUME, "seg": LABEL}, "has no array 'image' or 'data'.*; it has seg, t1"),
        ({}, "it has no array"),
        ({"image": VOLUME.astype(np.complex64)}, "complex voxels"),
        ({"image": np.array([[[np.nan]]])}, "1 NaN or infinite"),
        ({"image": np.zeros(4)}, r"shape \(4,\); a scan is a volume"),
        ({"image": np.zeros((1, 1, 2, 2, 2))}, "a scan is a volume"),
    ],
)
def test_unusable_images_are_refused(
    tmp_path: Path, arrays: dict[str, NDArray[Any]], problem: str
) -> None:
    with pytest.raises(UserError, match=rf"a\.h5 .*{problem}"):
        hdf5.read_image(write(tmp_path / "a.h5", **arrays))


def test_unusable_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no array 'label' or 'mask'; it has image"):
        hdf5.read_label(write(tmp_path / "a.h5", image=VOLUME))
    with pytest.raises(UserError, match=r"image of \(2, 3, 4\) and a label of \(2, 3, 3\)"):
        hdf5.read_label(write(tmp_path / "b.h5", image=VOLUME, label=LABEL[:, :, 1:]))
    with pytest.raises(UserError, match="between integers"):
        hdf5.read_label(write(tmp_path / "c.h5", label=VOLUME / 2))


def test_text_is_no_image(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"] = "words"
    with pytest.raises(UserError, match="text or Python objects"):
        hdf5.read_header(tmp_path / "a.h5")


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.h5", image=VOLUME)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="damaged or cut short"):
        hdf5.read_header(path)
    (tmp_path / "b.h5").write_bytes(b"no hdf5")
    with pytest.raises(UserError, match="damaged or cut short"):
        hdf5.read_header(tmp_path / "b.h5")
    with pytest.raises(UserError, match="does not exist"):
        hdf5.read_header(tmp_path / "c.h5")

    def broken(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("bad object header")

    monkeypatch.setattr(h5py.File, "get", broken)
    with pytest.raises(UserError, match=r"damaged header \(bad object header"):
        hdf5.read_header(write(tmp_path / "d.h5", image=VOLUME))


def test_voxels_that_were_declared_and_never_written_are_no_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", (4, 4, 4), "f4", chunks=(2, 2, 2))
        file.create_dataset("mask", (4, 4, 4), "u1")
    for read in (hdf5.read_image, hdf5.read_label):
        with pytest.raises(UserError, match=r"a\.h5 declares '/.*' and does not hold all of it"):
            read(path)


def test_one_missing_chunk_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("image", (4, 4, 4), "f4", chunks=(2, 2, 2))
        data[:2] = 1
        data[2:, :2] = 1
    with pytest.raises(UserError, match="does not hold all of it"):
        hdf5.read_image(path)


def test_a_chunk_without_its_checksum_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("image", (2, 2, 2), "f4", chunks=(2, 2, 2), fletcher32=True)
        data.id.write_direct_chunk((0, 0, 0), np.ones(8, "f4").tobytes(), filter_mask=1)
    with pytest.raises(UserError, match="without its checksum"):
        hdf5.read_image(path)


def test_every_flip_of_a_voxel_under_a_checksum_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("image", data=VOLUME, chunks=VOLUME.shape, fletcher32=True)
    content = path.read_bytes()
    start = content.index(VOLUME.tobytes())
    for at in range(start, start + VOLUME.nbytes):
        flipped = bytearray(content)
        flipped[at] ^= 4
        path.write_bytes(flipped)
        with pytest.raises(UserError, match="damaged"):
            hdf5.read_image(path)


def test_a_file_reads_no_other_file(tmp_path: Path) -> None:
    write(tmp_path / "secret.h5", image=VOLUME)
    (tmp_path / "secret.raw").write_bytes(VOLUME.tobytes())
    layout = h5py.VirtualLayout(VOLUME.shape, VOLUME.dtype)
    layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "image", VOLUME.shape)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["image"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "image")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_virtual_dataset("image", layout)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        outside = [(str(tmp_path / "secret.raw"), 0, h5py.h5f.UNLIMITED)]
        file.create_dataset("image", VOLUME.shape, VOLUME.dtype, external=outside)
    for name in "abc":
        with pytest.raises(UserError, match=rf"{name}\.h5 has no voxels of .*never followed"):
            hdf5.read_image(tmp_path / f"{name}.h5")


def test_what_no_memory_holds_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("image", (20_000,) * 3, "f4", chunks=(100,) * 3)
    assert path.stat().st_size < 10_000
    with pytest.raises(UserError, match=r"a\.h5: reading it needs 89,407\.\d GiB of memory"):
        hdf5.read_image(path)


def test_a_chunk_that_unpacks_to_more_than_a_chunk_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("image", (2, 2, 2), "f4", chunks=(2, 2, 2), compression="gzip")
        data.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(300 * 2**20)))
    with pytest.raises(UserError, match="holds more than the 36 bytes"):
        hdf5.read_image(path)
