import torch
from samples import make_batch
from torch import nn

from tracoco.data.batch import Batch
from tracoco.losses.supervised import dice_loss, supervised_loss
from tracoco.methods import build_method
from tracoco.methods.method import Method, RunFacts, StepOutput, evaluating, uniform_noise
from tracoco.networks.statistics import frozen_statistics
from tracoco.settings import LossConfig, MethodChoice


class Plain(Method):
    """A method without anything of its own."""

    def forward(self, batch: Batch, step: int) -> StepOutput:
        raise AssertionError(f"step {step} on {batch.cases}")


def net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Dropout(0.5))


def test_noise_is_uniform_within_its_amount() -> None:
    torch.manual_seed(0)
    noise = uniform_noise(torch.zeros(10_000), 0.2)
    assert -0.2 <= noise.min() < -0.19
    assert 0.19 < noise.max() <= 0.2
    assert abs(noise.mean()) < 0.01


def test_labels_teach_the_labelled_crops_and_no_padding() -> None:
    batch = make_batch(2)
    batch.first.valid[:, 8:] = False
    logits = torch.randn(4, 2, 16, 16)
    expected = supervised_loss(
        logits[:2, :, :8], batch.labels[:, :8], torch.ones(2, 8, 16, dtype=torch.bool)
    )
    torch.testing.assert_close(Plain().labelled_loss(logits, batch), expected)


def test_the_supervised_loss_has_the_form_that_the_run_asks_for() -> None:
    batch, logits = make_batch(2), torch.randn(4, 2, 16, 16)
    dice_alone = RunFacts(2, 1, 2, 10, 1, 2, loss=LossConfig(cross_entropy=0.0, dice=0.5))
    method = build_method(MethodChoice(name="supervised"), lambda: nn.Conv2d(1, 2, 1), dice_alone)
    expected = 0.5 * dice_loss(logits[:2], batch.labels, batch.first.valid[:2])
    torch.testing.assert_close(method.labelled_loss(logits, batch), expected)


def test_evaluating_has_no_gradient_and_restores_each_mode() -> None:
    module = net()
    module[2].eval()  # type: ignore[index]  # a Sequential
    with evaluating(module):
        out = module(torch.ones(2, 1, 3, 3))
        assert not module.training
        assert not out.requires_grad
    assert [part.training for part in module.modules()] == [True, True, True, False]


def test_frozen_statistics_are_not_moved_by_a_pass_but_later_ones_are() -> None:
    module = net()
    before = {name: value.clone() for name, value in module.named_buffers()}
    with frozen_statistics(module):
        module(torch.randn(4, 1, 3, 3))
    assert all(torch.equal(before[name], value) for name, value in module.named_buffers())
    module(torch.randn(4, 1, 3, 3))
    assert not torch.equal(before["1.running_mean"], module.get_buffer("1.running_mean"))


def test_frozen_statistics_still_normalise_by_the_batch() -> None:
    norm = nn.BatchNorm2d(1)
    crops = 5 + 3 * torch.randn(4, 1, 6, 6)
    expected = nn.BatchNorm2d(1)(crops)
    with frozen_statistics(norm):
        torch.testing.assert_close(norm(crops), expected)
