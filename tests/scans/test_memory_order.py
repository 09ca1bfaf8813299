"""An array in C order is the same array."""

from itertools import permutations, product

import numpy as np
import pytest

from tracoco.scans import scan as memory_order
from tracoco.scans.scan import c_order


@pytest.mark.parametrize("axes", list(permutations(range(3))))
@pytest.mark.parametrize("flipped", list(product((False, True), repeat=3)))
def test_every_order_and_direction_of_axes_comes_out_the_same(
    axes: tuple[int, ...], flipped: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_order, "SMALL", 0)
    stored = np.arange(130 * 9 * 35, dtype=np.int32).reshape(130, 9, 35)
    array = np.flip(stored.transpose(axes), tuple(axis for axis in range(3) if flipped[axis]))
    turned = c_order(array)
    assert turned.flags.c_contiguous
    assert turned.dtype == array.dtype
    assert (turned == array).all()


@pytest.mark.parametrize("shape", [(3, 64, 65, 66), (1, 70, 1, 90), (2, 0, 5, 5), (600, 700)])
def test_channels_slices_and_empty_arrays_too(shape: tuple[int, ...]) -> None:
    array = np.asfortranarray(np.random.default_rng(0).random(shape))
    turned = c_order(array)
    assert turned.flags.c_contiguous
    assert np.array_equal(turned, array)


def test_what_is_in_order_is_not_copied() -> None:
    array = np.zeros((50, 60, 70))
    assert c_order(array) is array
