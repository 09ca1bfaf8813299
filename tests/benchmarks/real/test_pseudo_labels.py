"""Pseudo-labels are measured at every kept checkpoint, from each pass, against hidden labels."""

from pathlib import Path

import torch
from benchmarks.real.measure_pseudo_labels import counted, measure
from benchmarks.real.pseudo_labels import (
    FORMS,
    PseudoLabels,
    pseudo_labels_picture,
    pseudo_labels_section,
)
from benchmarks.real.rows import read_grids
from samples import make_batch, make_method, make_project
from small_grid import TEXT
from torch import Tensor, nn

from tracoco.methods.parts.co_training import CoTraining
from tracoco.studies.benchmark.grid import grid_runs, read_grid
from tracoco.studies.benchmark.runner import Runner


def test_every_kept_checkpoint_of_a_co_training_run_is_measured(tmp_path: Path) -> None:
    project = make_project(tmp_path / "made", labelled=8, unlabelled=2, test=2)
    grid = tmp_path / "balls.yaml"
    grid.write_text(TEXT.replace("STEPS", "2"))
    runner, kept = Runner(project, "balls", project.root / "benchmark"), tmp_path / "kept"
    for run in grid_runs(read_grid(grid)):
        folder = runner.trained(run.spec, run.seed)
        (kept / folder.name).mkdir(parents=True)
        (kept / folder.name / "1.pt").write_bytes((folder / "last.pt").read_bytes())
    measure(tmp_path, "balls", project.root, kept)
    (found,) = read_grids(tmp_path)
    # Supervised learning has no pseudo-labels.
    assert [(each.row, each.step, each.form) for each in found.pseudo_labels] == [
        ("cps", 2, form) for form in FORMS
    ]
    by_form = {each.form: each for each in found.pseudo_labels}
    # Statistics of the batch, running statistics, and noise with dropout each give other labels.
    assert len({each.dice for each in by_form.values()}) == len(FORMS)
    assert all(0 <= each.dice <= 100 and 0 <= each.empty <= 1 for each in found.pseudo_labels)


class Threshold(nn.Module):
    """Class 1 where a voxel is above the mean that BatchNorm knows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm3d(1, affine=False)
        self.norm.get_buffer("running_mean").fill_(9.0)

    def forward(self, crops: Tensor) -> Tensor:
        above = self.norm(crops)
        return torch.cat([-above, above], dim=1)


def test_voxels_are_counted_by_hand_for_each_pass() -> None:
    method = make_method("cps", noise=0.0)
    assert isinstance(method, CoTraining)
    method.networks[0] = Threshold()
    batch = make_batch(unlabelled=0)
    bright = batch.first.values[:, 0] > batch.first.values.mean()
    true = batch.labels == 1
    for form, found in (("batch", bright), ("training", bright), ("clean", bright & False)):
        (row,) = counted(0, 2, [batch], method.train(), form).tolist()
        assert row[1] == [float((found & true).sum()), float(found.sum()), float(true.sum())]
    assert method.networks[0].get_buffer("norm.running_mean").item() == 9.0


def of(row: str, step: int, form: str, dice: float, empty: float = 0.0) -> PseudoLabels:
    return PseudoLabels(row, 8, 0, step, form, 48, dice, empty)


def test_the_table_has_steps_means_and_empty_batches() -> None:
    steps = range(100, 700, 100)
    found = [of("cps", step, "batch", step / 10) for step in steps]
    found += [of("cps", step, "clean", 20.0, 0.25) for step in steps]
    text = pseudo_labels_section(found, "curves.svg")
    rows = [line for line in text.splitlines() if line.startswith("| cps")]
    assert rows == [
        "| cps | `batch` | 10.0 | 20.0 | 30.0 | 40.0 | 50.0 | 60.0 | 35.0 | 0.0 |",
        "| cps | `clean` | 20.0 | 20.0 | 20.0 | 20.0 | 20.0 | 20.0 | 20.0 | 25.0 |",
    ]
    assert "48 crops" in text
    assert "(curves.svg)" in text
    assert pseudo_labels_section([], "curves.svg") == ""


def test_the_picture_has_a_panel_a_row_and_a_curve_a_pass() -> None:
    found = [
        of(row, step, form, 50.0)
        for row in ("cps", "tracoco")
        for form in FORMS
        for step in (100, 200)
    ]
    picture = pseudo_labels_picture(found)
    assert picture.count("<polyline") == 6
    assert picture.count('class="head"') == 2
    # Half of 100 % lies in the middle of a panel of 200 pixels, at the start and in its last step.
    curves = [line for line in picture.splitlines() if line.startswith("<polyline")]
    assert all('points="216.0,134.0 386.0,134.0"' in line for line in curves[:3])
