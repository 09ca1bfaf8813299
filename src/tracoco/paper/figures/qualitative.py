"""The figure of examples: one test scan, segmented by several methods."""

from dataclasses import replace

from tracoco.methods import METHODS
from tracoco.paper import drawings
from tracoco.paper.figure import Drawn, Row
from tracoco.paper.figures.settings import (
    FigureRun,
    figure_notes,
    preset_for,
    runner_of,
    trained_runs,
)
from tracoco.paper.request import PaperRequest
from tracoco.scans.reader import read_images, read_label

OWN = {"pancreas": "pancreas-12", "la": "la-16", "brats19": "brats19-25"}
"""The paper shows one scan of each."""
SHOWN = ("sassnet", "ua-mt", "supervised", "cac", "tracoco")
"""Those of the paper's figure that there are, and `cac` of its first one."""


def qualitative(request: PaperRequest, data: str) -> Drawn:
    """The truth and each method's answer, as a slice and as a surface; seed 0."""
    request = replace(request, seeds=1)
    own = OWN.get(data, OWN["la"])
    preset = preset_for(request, data, own)
    runner = runner_of(request, data)
    case = runner.project.test_cases()[0]
    assert case.label, "a test case has a label: the split is checked"  # noqa: S101 - cannot happen
    image, truth = read_images(case.images), read_label(case.label).array
    columns = [drawings.QualitativeColumn("ground truth", truth)]
    rows: list[Row] = []
    runs = [FigureRun(name, preset, (f"method.name={name}",)) for name in SHOWN if name in METHODS]
    for run, _, folder in trained_runs(request, data, runs):
        label = read_label(runner.predicted(folder, "last") / f"{case.id}.nii.gz").array
        columns.append(drawings.QualitativeColumn(run.title, label))
        score = drawings.mean_dice(label, truth)
        rows.append(
            {"method": run.title, "scan": case.id, "dice": score and 100 * score, "published": None}
        )
    figure = drawings.qualitative(columns, image.array[0], image.spacing_mm)
    notes = (
        f"scan '{case.id}', the first test scan by name, and its slice with the most foreground; "
        "the paper does not say which scans it shows, nor their scores",
        *figure_notes(request, data, own),
    )
    return Drawn(figure, rows, notes)
