import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tracoco.methods.bcp import largest_components


def test_crops_are_cleaned_one_by_one() -> None:
    first = [[1, 1, 0, 0], [0, 0, 0, 1]]
    second = [[2, 0, 0, 0], [0, 0, 1, 1]]
    labels = torch.tensor([first, second])
    kept = largest_components(labels)
    assert kept.tolist() == [[[1, 1, 0, 0], [0, 0, 0, 0]], second]
    assert kept.dtype == torch.long
    assert labels.tolist() == [first, second]


def test_labels_without_values_have_a_shape() -> None:
    with FakeTensorMode():
        kept = largest_components(torch.zeros(2, 3, 4, 5, dtype=torch.long))
    assert kept.shape == (2, 3, 4, 5)
    assert kept.dtype == torch.long
