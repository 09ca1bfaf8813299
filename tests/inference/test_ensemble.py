"""Probabilities averaged over runs, networks and mirrored views."""

from pathlib import Path

import numpy as np
import pytest
import torch
from samples import StandIn
from torch import Tensor

from tracoco.api.predictions import predict
from tracoco.api.runs import Run
from tracoco.errors import UserError
from tracoco.files import read_json
from tracoco.inference.ensemble import averaged
from tracoco.inference.model_choice import Views, mirrored_dimensions
from tracoco.inference.predictor import Predictor
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.scans.reader import read_label
from tracoco.training.train import train

SETTINGS = ["training.steps=4", "data.crop=[16, 16, 16]", "network.filters=4", "data.workers=0"]


class Sided(StandIn):
    """Says the voxel's value times a weight that grows along the last axis, in class 1."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def predict(self, crops: Tensor) -> Tensor:
        weight = torch.linspace(0, self.factor, crops.shape[-1])
        one = crops[:, :1] * weight
        return torch.cat([1 - one, one], dim=1)

    def predict_members(self, crops: Tensor) -> list[Tensor]:
        one = torch.full_like(crops[:, :1], 0.25)
        return [self.predict(crops), torch.cat([1 - one, one], dim=1)]


def plan(*mirror: int, dimensions: int = 3) -> Plan:
    crop = (4, 4, 4) if dimensions == 3 else (1, 4, 4)
    return Plan.model_validate(
        {
            "dimensions": dimensions,
            "channels": 1,
            "label_values": (0, 1),
            "class_names": ("background", "one"),
            "slice_axis": None if dimensions == 3 else 2,
            "spacing_mm": (1.0, 1.0, 1.0) if dimensions == 3 else (None, 1.0, 1.0),
            "crop": crop,
            "mirror_axes": mirror,
        }
    )


def test_the_mean_is_over_runs_networks_and_views() -> None:
    crops = torch.ones(1, 1, 2, 2, 3)
    with averaged([Sided(1.0), Sided(0.5)], Views(), plan()) as mean:
        assert mean(crops)[0, 1, 0, 0].tolist() == pytest.approx([0, 0.375, 0.75])
    with averaged([Sided(1.0)], Views(members="both"), plan()) as mean:
        assert mean(crops)[0, 1, 0, 0].tolist() == pytest.approx([0.125, 0.375, 0.625])
    # 0, 0.5 and 1, and what comes of the mirrored crop turned back: 1, 0.5 and 0.
    with averaged([Sided(1.0)], Views(mirror=True), plan(2)) as mean:
        assert mean(crops)[0, 1, 0, 0].tolist() == pytest.approx([0.5, 0.5, 0.5])
    with averaged([Sided(1.0)], Views(mirror=True), plan(0)) as mean:
        assert mean(crops)[0, 1, 0, 0].tolist() == pytest.approx([0, 0.5, 1])
    with averaged([Sided(1.0), Sided(0.0)], Views("both", mirror=True), plan(0, 2)) as mean:
        found = mean(crops)[0]
    assert found[1, 0, 0].tolist() == pytest.approx([(0.5 + 0.25) / 4 + 0.25 / 4 + 0 / 4] * 3)
    torch.testing.assert_close(found.sum(dim=0), torch.ones(2, 2, 3))


def test_the_view_of_an_asymmetric_scan_is_turned_back() -> None:
    crops = torch.rand(2, 1, 3, 4, 5)
    with averaged([Sided(0.0)], Views(mirror=True), plan(0, 1, 2)) as mean:
        assert (mean(crops)[:, 1] == 0).all()

    class Copy(StandIn):
        def predict(self, crops: Tensor) -> Tensor:
            return torch.cat([1 - crops, crops], dim=1)

    with averaged([Copy()], Views(mirror=True), plan(0, 1, 2)) as mean:
        torch.testing.assert_close(mean(crops)[:, 1:], crops)


def test_axes_of_the_plan_are_dimensions_of_crops() -> None:
    assert mirrored_dimensions(plan(0, 2)) == [2, 4]
    assert mirrored_dimensions(plan(1, 2, dimensions=2)) == [2, 3]
    assert mirrored_dimensions(plan()) == []


@pytest.fixture(scope="module")
def two_runs(project: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("runs")
    for name, words in (("a", []), ("b", ["seed=1"])):
        train(project, load_config(None, ["method.name=cps", *SETTINGS, *words]), root / name)
    return root / "a", root / "b"


def test_several_runs_are_averaged_on_the_grid_of_the_scan(
    two_runs: tuple[Path, Path], project: Project, tmp_path: Path
) -> None:
    first, second = two_runs
    image = project.load_cases()[0].images[0]
    maps = []
    for run in two_runs:
        maps.append(Run.load(run).predict(image, maps=["probability"]).maps["probability"].values)
    (case,) = predict(
        first, image, tmp_path / "out", others=[second], maps=["probability"], progress=False
    )
    found = Predictor.load(first).with_others([Predictor.load(second)])(image, maps=["probability"])
    values = found.maps["probability"].values
    np.testing.assert_allclose(values, np.mean(maps, axis=0), atol=1 / 255)
    assert not np.allclose(maps[0], maps[1], atol=2 / 255)
    assert (read_label(case.prediction).array == found.label).all()
    manifest = read_json(tmp_path / "out" / "predictions.json")
    assert manifest["variant"].startswith(f"mean with {second}")
    with pytest.raises(UserError, match="choose another OUT"):
        predict(first, project.load_cases()[1].images[0], tmp_path / "out", progress=False)


def test_both_networks_are_averaged(two_runs: tuple[Path, Path], project: Project) -> None:
    image = project.load_cases()[0].images[0]
    predictor = Predictor.load(two_runs[0], members="both")
    crops = torch.rand(1, 1, 16, 16, 16)
    with predictor.predicting() as mean, torch.no_grad():
        members = [network(crops).softmax(dim=1) for network in predictor.method.networks]
        torch.testing.assert_close(mean(crops), (members[0] + members[1]) / 2)
    assert Run.load(two_runs[0]).predict(image, members="both").label.shape


def test_what_a_run_cannot_do_is_refused(two_runs: tuple[Path, Path], run: Path) -> None:
    with pytest.raises(UserError, match="of this run has no mirror_axes"):
        Predictor.load(run, mirror=True)
    with pytest.raises(UserError, match="two networks that were trained together"):
        Predictor.load(run, members="both")
    with pytest.raises(UserError, match="members 'bth' does not exist; did you mean 'both'"):
        Predictor.load(run, members="bth")  # type: ignore[arg-type]  # on purpose
    first = Predictor.load(run)
    other = Predictor.load(two_runs[0])
    object.__setattr__(other, "window", (8, 8, 8))
    with pytest.raises(UserError, match="run 2 has other crops than the first"):
        first.with_others([other])
