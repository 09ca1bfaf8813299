from functools import partial

import pytest
import torch
from samples import make_batch, make_method
from torch import nn

from tracoco.inference.folding import ready_to_predict
from tracoco.methods import build_method
from tracoco.methods.method import RunFacts
from tracoco.methods.parts.decoders import SharedEncoder, released_rampup
from tracoco.networks import build_network
from tracoco.settings import MethodChoice


def facts(dimensions: int, steps: int) -> RunFacts:
    return RunFacts(4, 1, dimensions, steps, steps_per_epoch=1, unlabelled_batch=2)


def make(predict_with: str) -> SharedEncoder:
    """Three decoders with BatchNorm, whose statistics have seen something."""
    torch.manual_seed(0)
    network = partial(build_network, "unet", channels=1, classes=4, dimensions=2, filters=4)
    choice = MethodChoice.model_validate({"name": "mc-net-plus", "predict_with": predict_with})
    method = build_method(choice, network, facts(2, 30))
    assert isinstance(method, SharedEncoder)
    for seed in range(3):
        method(make_batch(2, 4, seed=seed, size=(32, 32)), 0)
    return method


@pytest.mark.parametrize("predict_with", ["mean", "first"])
def test_a_method_that_is_ready_to_predict_says_the_same_without_batch_norm(
    predict_with: str,
) -> None:
    method, crops = make(predict_with), torch.rand(2, 1, 32, 32)
    with torch.no_grad():
        each = [logits.softmax(dim=1) for logits in method.eval().decoders(crops)]
    expected = {"mean": (each[0] + each[1] + each[2]) / 3, "first": each[0]}[predict_with]
    method.train()
    with ready_to_predict(method) as ready:
        assert not any(isinstance(part, nn.BatchNorm2d) for part in ready.decoders.modules())
        torch.testing.assert_close(ready.predict(crops), expected, rtol=1e-4, atol=1e-5)
    assert method.training


@pytest.mark.parametrize("predict_with", ["mean", "first"])
def test_members_are_the_prediction_and_the_two_decoders_that_may_disagree(
    predict_with: str,
) -> None:
    method, crops = make(predict_with).eval(), torch.rand(2, 1, 32, 32)
    with torch.no_grad():
        prediction, *decoders = method.predict_members(crops)
        first, second, _ = (logits.softmax(dim=1) for logits in method.decoders(crops))
        torch.testing.assert_close(prediction, method.predict(crops))
    torch.testing.assert_close(decoders, [first, second])


def test_the_optimizer_has_one_group_for_all_decoders() -> None:
    method = make_method("mc-net-plus", 2)
    (group,) = method.parameter_groups()
    assert len(group["params"]) == len(list(method.parameters()))


@pytest.mark.parametrize(
    ("given", "dimensions", "steps", "expected"),
    [(None, 2, 30_000, 30_000), (None, 3, 15_000, 6_000), (7, 3, 15_000, 7), (None, 3, 1, 1)],
)
def test_ramps_are_the_releases_share_of_the_run(
    given: int | None, dimensions: int, steps: int, expected: int
) -> None:
    assert released_rampup(given, facts(dimensions, steps)) == expected
