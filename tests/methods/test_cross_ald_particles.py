import math

import pytest
import torch

from tracoco.methods.cross_ald import median_variances, stein_directions


def test_a_particle_alone_follows_its_score() -> None:
    torch.manual_seed(0)
    place, score = torch.randn(1, 2, 1, 3, 3), torch.randn(1, 2, 1, 3, 3)
    found = stein_directions(place, score, median_variances(place))
    torch.testing.assert_close(found, score)


def test_two_particles_without_scores_push_each_other_away() -> None:
    places = torch.tensor([0.0, 1.0]).reshape(2, 1, 1)
    found = stein_directions(places, torch.zeros(2, 1, 1), torch.ones(1))
    push = math.exp(-0.5) / 2
    torch.testing.assert_close(found.flatten(), torch.tensor([-push, push]))


def test_scores_of_neighbours_are_shared_by_nearness() -> None:
    places = torch.tensor([0.0, 1.0]).reshape(2, 1, 1)
    scores = torch.tensor([3.0, 0.0]).reshape(2, 1, 1)
    found = stein_directions(places, scores, torch.ones(1)).flatten()
    near = math.exp(-0.5)
    torch.testing.assert_close(found, torch.tensor([3.0 - near, 3 * near + near]) / 2)


def test_crops_know_nothing_of_each_other() -> None:
    torch.manual_seed(0)
    places, scores = torch.randn(3, 2, 1, 4), torch.randn(3, 2, 1, 4)
    both = stein_directions(places, scores, torch.tensor([1.0, 2.0]))
    for crop, variance in enumerate([1.0, 2.0]):
        chosen = slice(crop, crop + 1)
        alone = stein_directions(places[:, chosen], scores[:, chosen], torch.tensor([variance]))
        torch.testing.assert_close(both[:, chosen], alone)


def test_the_variance_is_the_median_squared_distance_of_each_crop() -> None:
    # Particles at 0, 1 and 4: squared distances 1, 9 and 16.
    places = torch.tensor([[0.0, 0.0], [1.0, 2.0], [4.0, 8.0]]).unsqueeze(-1)
    found = median_variances(places)
    assert found.tolist() == pytest.approx([9.0, 36.0], rel=1e-5)
