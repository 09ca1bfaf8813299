import math

import pytest
import torch

from tracoco.losses.weighting import cosine_rampup, log_complement, masked_mean, most_likely


def test_masked_mean_counts_only_the_mask() -> None:
    values = torch.tensor([1.0, 5.0, 9.0])
    assert masked_mean(values, torch.tensor([True, False, True])).item() == 5.0


def test_masked_mean_of_nothing_is_zero_and_still_connected() -> None:
    values = torch.tensor([1.0, 5.0], requires_grad=True)
    mean = masked_mean(values, torch.tensor([False, False]))
    mean.backward()
    assert mean.item() == 0.0
    assert values.grad is not None
    assert values.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("size", [(3, 5), (3, 5, 2)])
def test_log_complement_is_log_of_one_minus_p(classes: int, size: tuple[int, ...]) -> None:
    logits = torch.randn(2, classes, *size, dtype=torch.float64)
    expected = torch.log(1 - logits.softmax(dim=1))
    torch.testing.assert_close(log_complement(logits), expected)


@pytest.mark.parametrize("classes", [2, 4])
def test_log_complement_has_a_gradient_where_a_class_is_certain(classes: int) -> None:
    # p of class 0 is 1 in float32, so log(1 - p) computed from p would be log(0).
    logits = torch.zeros(1, classes, 1)
    logits[:, 0] = 50.0
    logits.requires_grad_()
    value = log_complement(logits)[0, 0, 0]
    value.backward()
    assert value.item() == pytest.approx(math.log(classes - 1) - 50, rel=1e-5)
    assert logits.grad is not None
    assert logits.grad[0, 0, 0].item() == pytest.approx(-1.0, abs=1e-5)


def test_cosine_rampup_starts_at_zero_and_ends_at_one() -> None:
    values = [cosine_rampup(step, 100) for step in (0, 25, 50, 75, 100, 1000)]
    # (1 - cos(pi / 4)) / 2 = 0.14645
    assert values == pytest.approx([0, 0.1464466, 0.5, 0.8535534, 1, 1])


@pytest.mark.parametrize("classes", [2, 4, 14])
@pytest.mark.parametrize("size", [(5, 6), (5, 6, 7)])
def test_most_likely_is_argmax(classes: int, size: tuple[int, ...]) -> None:
    scores = torch.rand(2, classes, *size)
    assert torch.equal(most_likely(scores), scores.argmax(dim=1))


def test_of_equal_classes_the_first_is_most_likely() -> None:
    scores = torch.tensor([[0.2, 0.4, 0.4], [0.5, 0.0, 0.5]])
    assert most_likely(scores[..., None]).flatten().tolist() == [1, 0]


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_log_complement_is_what_the_other_classes_have_in_value_and_gradient(classes: int) -> None:
    logits = (4 * torch.randn(3, classes, 5, dtype=torch.float64)).requires_grad_()
    weight = torch.rand(3, classes, 5, dtype=torch.float64)
    others = [
        torch.cat([logits[:, :k], logits[:, k + 1 :]], dim=1).logsumexp(dim=1)
        for k in range(classes)
    ]
    plain = torch.stack(others, dim=1) - logits.logsumexp(dim=1, keepdim=True)
    found = log_complement(logits)
    torch.testing.assert_close(found, plain)
    expected = torch.autograd.grad((weight * plain).sum(), logits)
    torch.testing.assert_close(torch.autograd.grad((weight * found).sum(), logits), expected)
