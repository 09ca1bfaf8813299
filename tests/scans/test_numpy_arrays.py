import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.lib import format as npy

from tracoco.errors import UserError
from tracoco.scans import arrays as numpy_arrays

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
    with pytest.raises(UserError, match=f"{name} .*damaged"):
        numpy_arrays.read_image(path)
