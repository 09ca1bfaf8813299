"""Figures that are drawn from scans: how sure networks are, and one scan seen by many."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from samples import StandIn
from torch import Tensor

from tracoco.errors import UserError
from tracoco.evaluation.metrics import dice
from tracoco.geometry import Box
from tracoco.inference.predictor import Predictor
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.store import Store, StoredCase
from tracoco.runs.log import read_log
from tracoco.scans.reader import read_label
from tracoco.studies.paper.contents import paper_content
from tracoco.studies.paper.figures import confidence as figures_confidence
from tracoco.studies.paper.figures.confidence import confidence, confidence_counts, sure_shares
from tracoco.studies.paper.figures.context import choose_pair, context, crop_labels
from tracoco.studies.paper.figures.figure_settings import FigureRun
from tracoco.studies.paper.figures.qualitative import qualitative
from tracoco.studies.paper.request import PaperRequest

Ask = Callable[..., PaperRequest]


def test_voxels_are_counted_by_kind_and_probability_over_all_scans() -> None:
    first = (np.array([0.0, 0.05, 0.5, 0.95]), np.array([0, 1, 0, 2]))
    second = (np.array([1.0, 0.99]), np.array([1, 0]))
    background, foreground = confidence_counts(iter([first, second]))
    assert dict(enumerate(background)) == dict.fromkeys(range(50), 0) | {0: 1, 25: 1, 49: 1}
    assert dict(enumerate(foreground)) == dict.fromkeys(range(50), 0) | {2: 1, 47: 1, 49: 1}
    found, ruled_out = sure_shares(background, foreground)
    assert found == pytest.approx(100 * 2 / 3)
    assert ruled_out == pytest.approx(100 / 3)
    assert sure_shares(background, np.zeros(50, np.int64))[0] is None


class Brightness(StandIn):
    """Gives a voxel the foreground probability of its intensity."""

    def predict(self, crops: Tensor) -> Tensor:
        return torch.cat([1 - crops, crops], dim=1)


def test_the_histogram_is_of_the_probabilities_of_all_test_scans(
    ask: Ask, small: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ask().spec("demo", ()).config(0)
    stub = Predictor(
        Brightness(),
        small.load_plan(),
        (16, 16, 8),
        config.inference,
        torch.device("cpu"),
    )

    def untrained(
        _: PaperRequest, __: str, runs: Sequence[FigureRun]
    ) -> Iterator[tuple[FigureRun, int, Path]]:
        assert [run.changes[1] for run in runs] == [
            "method.semi_supervised=mse",
            "method.semi_supervised=crc",
        ]
        yield from ((run, 0, Path()) for run in runs)

    monkeypatch.setattr(figures_confidence, "trained_runs", untrained)
    monkeypatch.setattr(Predictor, "load", lambda *_, **__: stub)
    found = confidence(ask(seeds=3), "")
    store = Store(small.store_root)
    cases = [store.case(id_) for id_ in small.load_splits().test]
    images = np.concatenate([case.image().ravel() for case in cases])
    labels = np.concatenate([case.label().ravel() for case in cases])
    for row in found.rows:
        assert row["foreground_voxels"] == np.count_nonzero(labels)
        assert row["background_voxels"] == np.count_nonzero(labels == 0)
        bright, dark = images[labels != 0] > 0.9, images[labels == 0] < 0.1
        assert row["sure_foreground"] == pytest.approx(100 * bright.mean(), abs=0.1)
        assert row["sure_background"] == pytest.approx(100 * dark.mean(), abs=0.1)
    assert "seed 0" in found.notes[-1]


def test_confidence_is_drawn_from_trained_networks(ask: Ask) -> None:
    shown = paper_content("confidence", ask())
    mse, crc = shown.values["rows"]
    assert (mse["loss"], crc["loss"]) == ("mse", "crc")
    assert mse["foreground_voxels"] == crc["foreground_voxels"] > 0


def test_methods_are_shown_on_the_first_test_scan_with_their_dice(ask: Ask, small: Project) -> None:
    found = qualitative(ask(seeds=2), "")
    case = small.test_cases()[0]
    assert case.label is not None
    truth = read_label(case.label).array
    assert [row["method"] for row in found.rows] == [
        axes.get_title().partition("\n")[0] for axes in found.figure.axes[1 : 1 + len(found.rows)]
    ]
    assert {"supervised", "cac", "tracoco"} <= {row["method"] for row in found.rows}
    for row in found.rows:
        (file,) = (small.root / "paper").glob(
            f"{row['method']}-2labels-*-seed0/predictions/last/{case.id}.nii.gz"
        )
        score = dice(read_label(file).array == 1, truth == 1)
        assert row["dice"] == pytest.approx(100 * (score or 0))
        assert row["scan"] == case.id
    assert case.id in found.notes[0]


class Block(StoredCase):
    """A case whose foreground is one box."""

    def label(self) -> np.ndarray:
        label = np.zeros(self.shape, np.uint8)
        label[4:10, 4:10, 4:10] = 0 if self.id == "empty" else 1
        return label


def test_two_crops_share_half_of_the_structure_or_as_much_as_they_can() -> None:
    case = Block("case", Path(), (20, 20, 20), (1, 1), (1, 1, 1))
    pair = choose_pair(case, (16, 16, 16))
    assert pair == choose_pair(case, (16, 16, 16))
    assert pair[0] != pair[1]

    def shared(first: Box, second: Box) -> int:
        return int(np.count_nonzero(case.label()[first.intersect(second).slices]))

    assert shared(*pair) >= 6**3 / 2
    assert shared(*choose_pair(case, (4, 4, 4))) > 0  # half of 216 voxels has no room in 64
    with pytest.raises(UserError, match="no room for two crops"):
        choose_pair(case, (20, 20, 20))
    with pytest.raises(UserError, match="no foreground"):
        choose_pair(replace(case, id="empty"), (16, 16, 16))


def test_answers_in_two_crops_are_compared_in_their_overlap(ask: Ask, small: Project) -> None:
    found = context(ask(), "")
    case = Store(small.store_root).case(small.test_cases()[0].id)
    pair = choose_pair(case, (16, 16, 8))
    shared = pair[0].intersect(pair[1])
    for row in found.rows:
        (run,) = (
            log.parent
            for log in (small.root / "paper").glob(f"{row['method']}-2labels-*-seed0/log.jsonl")
            if len(read_log(log)) == 2 and "mse" not in (log.parent / "config.yaml").read_text()
        )
        labels = crop_labels(Predictor.load(run, device="cpu"), case, pair)
        first, second = (
            label[shared.seen_from(box.start).slices]
            for label, box in zip(labels, pair, strict=True)
        )
        score = dice(first == 1, second == 1)
        expected = None if score is None else pytest.approx(100 * (1 - score))
        assert row["disagreement"] == expected
        assert row["differing"] == pytest.approx(100 * (first != second).mean())
    titles = {axes.get_title() for axes in found.figure.axes}
    assert {"supervised", "cac", "tracoco"} <= titles


def test_the_context_figure_refuses_a_project_of_slices(
    ask: Ask, small: Project, tmp_path: Path
) -> None:
    data = small.root.parent / "data"
    flat = init_project(data, tmp_path / "flat", test=1, dimensions=2)
    with pytest.raises(UserError, match="project of slices"):
        context(replace(ask(), projects={"": flat.root}), "")
