"""How unsure the networks are of a scan: worked out by hand, and measured while predicting."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import make_method
from torch import nn

from tracoco.config import InferenceConfig
from tracoco.inference.manifest import merged_manifest
from tracoco.inference.predict import predict_scans
from tracoco.inference.predictor import Predictor
from tracoco.inference.uncertainty import (
    UncertaintyMeter,
    features_read,
    foreground_entropy,
    label_distance,
)
from tracoco.project.folder import Project


def test_disagreement_of_one_structure_is_one_minus_dice() -> None:
    assert label_distance([10], [10], [10]) == 0
    assert label_distance([0], [10], [10]) == 1
    assert label_distance([5], [10], [10]) == pytest.approx(0.5)  # Dice 2 * 5 / 20
    assert label_distance([0], [0], [7]) == 1  # one network misses it
    assert label_distance([0], [0], [0]) == 0  # neither finds it, so they agree


def test_a_large_structure_counts_no_more_than_a_small_one() -> None:
    # A thousand differing voxels of a large structure, five of a small one that half is wrong of.
    assert label_distance([9000, 5], [10000, 10], [10000 - 2000, 10]) == pytest.approx(
        ((1 - 2 * 9000 / 18000) + (1 - 10 / 20)) / 2
    )
    small = label_distance([5], [10], [10])
    large = label_distance([5000], [10000], [10000])
    assert small == large
    # A structure that neither has is left out of the mean.
    assert label_distance([5, 0], [10, 0], [10, 0]) == pytest.approx(0.5)


def test_entropy_is_that_of_voxels_that_may_be_foreground() -> None:
    # One voxel with probability 1/2 of two classes: the largest entropy there is.
    assert foreground_entropy(0.5 * math.log(2), 0.5, 2) == pytest.approx(1)
    # With another voxel that is foreground for certain: (1/2 ln 2 + 0) / (1/2 + 1) / ln 2.
    assert foreground_entropy(0.5 * math.log(2), 1.5, 2) == pytest.approx(1 / 3)
    assert foreground_entropy(0, 0, 4) == 0


def probabilities(foreground: list[float]) -> torch.Tensor:
    """Two classes of some voxels, [2, N, 1, 1]."""
    values = torch.tensor(foreground)[:, None, None]
    return torch.stack([1 - values, values])


def test_a_meter_adds_up_pieces_and_hands_on_the_prediction() -> None:
    first, second = probabilities([0.9, 0.9, 0.2, 0]), probabilities([0.9, 0.2, 0.2, 0])
    whole = torch.cat([first, first, second])
    found = []
    for pieces in ([whole], list(whole.split(1, dim=1))):
        meter = UncertaintyMeter(2, members=True)
        passed = list(meter.watch(pieces))
        torch.testing.assert_close(torch.cat(passed, dim=1), first)
        found.append(meter.result())
    assert found[0].disagreement == found[1].disagreement == pytest.approx(1 - 2 * 1 / 3)
    entropies = [-p * math.log(p) - (1 - p) * math.log(1 - p) for p in (0.9, 0.9, 0.2)]
    expected = sum(p * h for p, h in zip((0.9, 0.9, 0.2), entropies, strict=True)) / 2
    assert found[0].entropy == pytest.approx(expected / math.log(2), rel=1e-5)
    assert found[1].entropy == pytest.approx(found[0].entropy)
    assert found[0].found


def test_certain_background_has_no_entropy_and_no_structure() -> None:
    meter = UncertaintyMeter(2, members=False)
    list(meter.watch([probabilities([0, 0, 0])]))
    result = meter.result()
    assert (result.disagreement, result.entropy, result.found) == (None, 0, False)


def test_more_background_changes_nothing() -> None:
    def entropy(voxels: list[float]) -> float:
        meter = UncertaintyMeter(2, members=False)
        list(meter.watch([probabilities(voxels)]))
        return meter.result().entropy

    assert entropy([0.7, 0.4] + [0.0] * 1000) == pytest.approx(entropy([0.7, 0.4]))


def test_features_are_means_of_the_coarsest_map() -> None:
    network = make_method("supervised").inference_network().eval()
    meter = UncertaintyMeter(2, members=False)
    crops = torch.randn(2, 1, 16, 16, 16)
    with torch.no_grad(), features_read(network, meter):
        network(crops[:1])
        network(crops[1:])
    with torch.no_grad():
        expected = network.encoder(crops)[-1].mean(dim=(2, 3, 4)).mean(dim=0)  # type: ignore[operator]  # a module of ours
    assert meter.windows == 2
    np.testing.assert_allclose(meter.result().vector, expected, rtol=1e-3, atol=1e-6)
    assert not network.encoder._forward_hooks  # type: ignore[union-attr]  # a module of ours


def test_a_network_without_an_encoder_gives_its_coarsest_map() -> None:
    network = nn.Sequential(nn.Conv3d(1, 3, 2, stride=2), nn.Upsample(scale_factor=2))
    meter = UncertaintyMeter(2, members=False)
    crops = torch.randn(1, 1, 4, 4, 4)
    with torch.no_grad(), features_read(network, meter):
        network(crops)
        expected = network[0](crops).mean(dim=(0, 2, 3, 4))
    np.testing.assert_allclose(meter.result().vector, expected, rtol=1e-3, atol=1e-6)


def test_predictions_keep_it_and_are_not_made_twice(
    project: Project, run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "unlabelled"
    plain = predict_scans(run, project.root, out, part="unlabelled")
    assert {case.case for case in plain} == set(project.load_splits().unlabelled)
    assert all(case.uncertainty is None for case in plain)
    measured = predict_scans(run, project.root, out, part="unlabelled", uncertainty=True)
    for case in measured:
        assert case.uncertainty is not None
        assert case.uncertainty.disagreement is None  # a method with one network
        assert 0 < case.uncertainty.entropy < 1
        assert np.isfinite(case.uncertainty.vector).all()
        assert len(case.uncertainty.vector) > 8
    assert merged_manifest(out).rows == tuple(measured)
    written = {case.case: case.prediction.stat().st_mtime_ns for case in measured}
    again = predict_scans(run, project.root, out, part="unlabelled", uncertainty=True)
    assert again == measured
    assert {case.case: case.prediction.stat().st_mtime_ns for case in again} == written


def test_a_method_of_two_networks_measures_disagreement_and_predicts_as_before(
    project: Project,
) -> None:
    plan = project.load_plan()
    method = make_method("cps", classes=plan.classes)
    predictor = Predictor(method.eval(), plan, (16, 16, 16), InferenceConfig(), torch.device("cpu"))
    image = project.load_cases()[0].images[0]
    plain, measured = predictor(image), predictor(image, uncertainty=True)
    np.testing.assert_array_equal(plain.label, measured.label)
    assert plain.uncertainty is None
    assert measured.uncertainty is not None
    assert measured.uncertainty.disagreement is not None
    assert 0 < measured.uncertainty.disagreement <= 1  # of networks that were never trained
    with_map = predictor(image, maps=["disagreement"], uncertainty=True)
    assert with_map.uncertainty == measured.uncertainty
    np.testing.assert_array_equal(
        with_map.maps["disagreement"].levels,
        predictor(image, maps=["disagreement"]).maps["disagreement"].levels,
    )
