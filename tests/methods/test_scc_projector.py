import pytest
import torch

from tracoco.methods.scc import ClassProjector


def make(classes: int = 2, dimensions: int = 3) -> ClassProjector:
    torch.manual_seed(0)
    return ClassProjector(classes, dimensions).eval()


@pytest.mark.parametrize(("dimensions", "size"), [(2, (24, 16)), (3, (16, 32, 8)), (3, (4, 4, 4))])
@pytest.mark.parametrize("classes", [2, 4])
def test_each_class_of_each_crop_has_a_vector_that_sums_to_one(
    classes: int, dimensions: int, size: tuple[int, ...]
) -> None:
    logits, valid = torch.randn(3, classes, *size), torch.ones(3, *size, dtype=torch.bool)
    with torch.no_grad():
        vectors = make(classes, dimensions)(logits, valid)
    assert vectors.shape == (3, classes, classes)
    torch.testing.assert_close(vectors.sum(dim=2), torch.ones(3, classes))


def test_a_class_is_looked_at_by_itself_and_by_the_same_network() -> None:
    projector, valid = make(), torch.ones(2, 16, 16, 16, dtype=torch.bool)
    logits = torch.randn(2, 2, 16, 16, 16)
    with torch.no_grad():
        vectors = projector(logits, valid)
        swapped = projector(logits.flip(1), valid)
        changed = logits.clone()
        changed[0, 1] += 1.0
        touched = projector(changed, valid) != vectors
    torch.testing.assert_close(swapped, vectors.flip(1))
    assert touched.any(dim=2).tolist() == [[False, True], [False, False]]


def test_padding_is_not_seen() -> None:
    projector, valid = make(), torch.ones(1, 16, 16, 16, dtype=torch.bool)
    valid[:, :5] = False
    logits = torch.randn(1, 2, 16, 16, 16)
    changed = logits.clone()
    changed[:, :, :5] = 100.0
    with torch.no_grad():
        assert torch.equal(projector(logits, valid), projector(changed, valid))
        changed[:, :, 5] = 100.0
        assert not torch.equal(projector(logits, valid), projector(changed, valid))


def test_its_layers_are_the_releases() -> None:
    # 64 * 64 + 64, then 4^3 * in * out + out, and two linear layers.
    expected = 64 * 1 * 64 + 64
    for narrow, wide in [(64, 128), (128, 256), (256, 512)]:
        expected += 64 * narrow * wide + wide
    expected += 512 * 512 + 512 + 512 * 2 + 2
    assert sum(weight.numel() for weight in make().parameters()) == expected


def test_channels_are_dropped_behind_all_convolutions_but_the_last() -> None:
    kinds = [type(layer).__name__ for layer in make().convolutions]
    assert kinds == [*["Conv3d", "LeakyReLU", "Dropout3d"] * 3, "Conv3d", "LeakyReLU"]
