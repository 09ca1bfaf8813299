import math

import pytest
import torch

from tracoco.methods.ps_mt import confident_ce_loss


def everywhere(*values: float) -> torch.Tensor:
    return torch.tensor(values).reshape(1, -1, 1, 1).expand(1, -1, 2, 2)


INSIDE = torch.ones(1, 2, 2, dtype=torch.bool)


def test_two_teachers_by_hand() -> None:
    """Logits (2, 0) and (0, 0) have the mean (1, 0): 0.7311 for the first class."""
    peer = everywhere(1.0, 0.0).softmax(dim=1)
    loss = confident_ce_loss(everywhere(0.0, 0.0), peer, INSIDE, threshold=0.6)
    assert loss.item() == pytest.approx(0.7311 * math.log(2), abs=1e-4)
    assert confident_ce_loss(everywhere(0.0, 0.0), peer, INSIDE, threshold=0.75).item() == 0.0


@pytest.mark.parametrize("classes", [2, 4])
def test_the_mean_is_over_the_sure_voxels_inside_alone(classes: int) -> None:
    peer = torch.full((1, classes, 2, 2), 0.1 / (classes - 1))
    peer[:, 1] = 0.9
    peer[..., 0, 0] = 1 / classes  # not sure
    valid = INSIDE.clone()
    valid[..., 1, 1] = False
    logits = torch.zeros(1, classes, 2, 2)
    logits[:, 0, 1, 1] = logits[:, 0, 0, 0] = 50  # far off, where it must not count
    loss = confident_ce_loss(logits, peer, valid, threshold=0.6)
    assert loss.item() == pytest.approx(0.9 * math.log(classes))


def test_a_confidence_at_the_threshold_counts() -> None:
    peer = everywhere(0.75, 0.25)
    assert confident_ce_loss(everywhere(0.0, 0.0), peer, INSIDE, threshold=0.75).item() > 0


def test_the_learner_is_pulled_to_the_label_and_the_peer_is_not() -> None:
    logits = everywhere(0.0, 0.0).clone().requires_grad_()
    peer = everywhere(0.8, 0.2).clone().requires_grad_()
    confident_ce_loss(logits, peer, INSIDE, threshold=0.6).backward()
    assert logits.grad is not None
    assert (logits.grad[:, 0] < 0).all()
    assert (logits.grad[:, 1] > 0).all()
    assert peer.grad is None
