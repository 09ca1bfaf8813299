import math

import pytest
import torch
from fixed_predictions import Answering, everywhere
from samples import make_batch, measured

from tracoco.data.batch import Batch
from tracoco.losses.supervised import supervised_loss
from tracoco.methods.method import StepOutput, unlabelled_probabilities
from tracoco.methods.parts.co_training import Peers


class Silent(Peers):
    """Two peers without anything to teach."""

    def forward(self, batch: Batch, step: int) -> StepOutput:
        raise AssertionError(f"step {step} on {batch.cases}")


def make(first: float, second: float) -> Silent:
    """Networks that give the foreground these probabilities."""
    return Silent(*(Answering(everywhere(1 - p, p)) for p in (first, second)))


def test_both_learn_from_labels() -> None:
    method, batch = make(0.75, 0.5), make_batch()
    predictions = method.logits(batch)
    valid = batch.first.valid[:2]
    losses = [supervised_loss(logits[:2], batch.labels, valid) for logits in predictions]
    torch.testing.assert_close(method.labelled_losses(predictions, batch), losses[0] + losses[1])
    batch.labels[:] = 0
    batch.first.valid[:2] = False
    batch.first.valid[0, 0, 0, 0] = True  # one voxel: -log 1/4 - log 1/2, and two Dice of 1
    loss = method.labelled_losses(predictions, batch).item()
    assert loss == pytest.approx(math.log(4) + math.log(2) + 2, rel=1e-4)


def test_the_first_is_the_one_that_is_used_and_both_are_trained() -> None:
    method = make(0.75, 0.5)
    assert method.inference_network() is method.networks[0]
    assert method.trained_networks() == list(method.networks)
    members = method.predict_members(torch.rand(1, 1, 4, 4, 4))
    assert [member[0, 1, 0, 0, 0].item() for member in members] == pytest.approx([0.75, 0.5])


def test_health_is_that_of_the_unlabelled_voxels_inside() -> None:
    method, batch = make(0.75, 0.25), make_batch()
    batch.first.valid[3, :8] = False
    output = StepOutput({}, unlabelled_probabilities(batch, *method.logits(batch)))
    assert measured(method.health(output, batch)) == pytest.approx(
        {
            "class/0": 0.5,
            "class/1": 0.5,
            "agreement": 0.0,
            "distance": 0.5 * (4096 + 2048) / 2,
            "common/1": 0.0,
            "marked/1": 0.5,
        }
    )
