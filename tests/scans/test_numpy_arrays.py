import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from tracoco.errors import UserError
from tracoco.scans import arrays as numpy_arrays
from tracoco.scans.reader import read_image

VOLUME = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
LABEL = (VOLUME > 11).astype(bool)


def test_npz_holds_the_image_and_the_label(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, image=VOLUME, label=LABEL)
    about = numpy_arrays.read_header(path)
    assert (about.shape, about.has_geometry, about.channels) == ((2, 3, 4), False, 1)
    assert np.array_equal(numpy_arrays.read_image(path).array[0], VOLUME)
    assert np.array_equal(numpy_arrays.read_label(path).array, LABEL)
    assert numpy_arrays.has_label(path)
    np.savez(tmp_path / "b.npz", image=VOLUME)
    assert not numpy_arrays.has_label(tmp_path / "b.npz")


def test_npy_holds_one_array_which_is_what_is_asked_for(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(VOLUME))
    assert np.array_equal(numpy_arrays.read_image(tmp_path / "a.npy").array[0], VOLUME)
    assert np.array_equal(numpy_arrays.read_label(tmp_path / "a.npy").array, VOLUME)
    assert not numpy_arrays.has_label(tmp_path / "a.npy")


def test_the_header_is_read_without_the_voxels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "a.npz", image=np.stack([VOLUME, VOLUME]))
    monkeypatch.delattr(npy, "read_array")
    assert numpy_arrays.read_header(tmp_path / "a.npz").channels == 2


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    np.save(tmp_path / "a.npy", np.array([[[Trap()]]], dtype=object), allow_pickle=True)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Trap()))
    np.savez(tmp_path / "c.npz", image=np.array([[[Trap()]]], dtype=object))
    for name in ("a.npy", "b.npy", "c.npz"):
        with pytest.raises(UserError, match=rf"{name} .* never loaded,? because they could run"):
            numpy_arrays.read_image(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_unusable_files_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", VOLUME)
    with pytest.raises(UserError, match="no array 'image' or 'data'; it has arr_0"):
        numpy_arrays.read_image(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", image=VOLUME, label=LABEL[1:])
    with pytest.raises(UserError, match=r"image of \(2, 3, 4\) and a label of \(1, 3, 4\)"):
        numpy_arrays.read_label(tmp_path / "b.npz")
    with pytest.raises(UserError, match="does not exist"):
        numpy_arrays.read_header(tmp_path / "c.npy")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_a_file_that_is_cut_short_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "a.npy":
        np.save(path, VOLUME)
    else:
        np.savez(path, image=VOLUME)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=f"{name} .*(damaged|cut short)"):
        numpy_arrays.read_image(path)


@pytest.mark.parametrize("shape", [(20_000,) * 3, (2**40,) * 3, (2**62, 4, 4)])
def test_an_absurd_shape_is_refused_before_anything_is_allocated(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    header = io.BytesIO()
    facts = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    (tmp_path / "a.npy").write_bytes(header.getvalue())
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("image.npy", header.getvalue())
    for name in ("a.npy", "a.npz"):
        with pytest.raises(UserError, match=f"{name}: reading it needs .* GiB of memory"):
            read_image(tmp_path / name)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_array_that_is_longer_than_declared_is_told(tmp_path: Path, compression: int) -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros((2, 2, 2), np.float32))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive:
        archive.writestr("image.npy", stream.getvalue() + bytes(2**24))
    with pytest.raises(UserError, match="holds more than the 32 bytes"):
        read_image(tmp_path / "a.npz")


def test_another_compression_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, image=np.zeros((2, 2, 2), np.float32))
    content = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        content[content.index(mark) + at] = 97
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.npz holds no array of numbers, or is damaged"):
        read_image(path)


@pytest.mark.parametrize("cut", range(6, 120, 7))
def test_a_cut_header_is_one_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((2, 2, 2), np.float32))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(UserError, match=r"a\.npy "):
        read_image(path)
