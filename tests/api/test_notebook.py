"""What a notebook shows: progress in place, and results as tables and pictures."""

import io
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console
from samples import has_colour, pixels, step_record

from tracoco import console
from tracoco.console import counted, in_notebook
from tracoco.evaluation.scores import CaseScore, Evaluation, Protocol
from tracoco.inference.manifest import Manifest
from tracoco.inference.prediction import Prediction
from tracoco.reporting.run_record import ScoreSet
from tracoco.runs.log import StepRecord
from tracoco.scans.in_memory import as_scan
from tracoco.slices import PREDICTION
from tracoco.training.logger import shown_progress


class Output:
    """One output of a cell: what it showed, the newest last."""

    def __init__(self, first: str) -> None:
        self.shown = [first]

    def update(self, page: str) -> None:
        self.shown.append(page)


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> list[Output]:
    """Outputs of a kernel that stands in for a real one; each change is shown at once."""
    found: list[Output] = []

    def display(page: str, *, display_id: bool) -> Output:
        assert display_id
        found.append(Output(page))
        return found[-1]

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.__dict__["get_ipython"] = lambda: SimpleNamespace(kernel=True)
    displays.__dict__.update(display=display, HTML=str)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    monkeypatch.setattr(console, "UPDATE_SECONDS", 0)
    return found


def record(step: int) -> StepRecord:
    return step_record(step, terms={"crc": 0.25})


def test_a_training_moves_one_bar_with_its_loss_terms(
    outputs: list[Output], capsys: pytest.CaptureFixture[str]
) -> None:
    with shown_progress("<b>", 2, 10, Console(file=io.StringIO())) as display:
        display.show(record(4))
        display.say("step 4: x < y")
        display.show(record(9))
    (output,) = outputs
    assert len(output.shown) == 4
    assert "&lt;b&gt; <progress value='2' max='10'></progress> 2 of 10<" in output.shown[0]
    assert "<progress value='5' max='10'></progress> 5 of 10, " in output.shown[1]
    assert " left</div><div>crc 0.250</div>" in output.shown[1]
    assert "<div>step 4: x &lt; y</div>" in output.shown[2]
    assert "10 of 10</div><div>crc 0.250</div><div>step 4: x &lt; y</div>" in output.shown[3]
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_not_updated_at_every_step(
    outputs: list[Output], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "UPDATE_SECONDS", 1000)
    with shown_progress("tracoco", 0, 10, Console(file=io.StringIO())) as display:
        for step in range(10):
            display.show(record(step))
    assert [page.count("10 of 10") for page in outputs[0].shown] == [0, 1]


def test_what_is_counted_has_a_bar_too(outputs: list[Output]) -> None:
    with counted("preparing", 3, Console(file=io.StringIO())) as on_case:
        for case in ("a", "b", "c"):
            on_case(case)
    assert [page.split("max='3'></progress> ")[1][:6] for page in outputs[0].shown] == [
        *("0 of 3", "1 of 3", "2 of 3", "3 of 3")
    ]


def test_outside_a_kernel_there_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    terminal = ModuleType("IPython")
    terminal.__dict__["get_ipython"] = SimpleNamespace
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert not in_notebook()


def test_nothing_imports_ipython() -> None:
    program = "import sys, tracoco; tracoco.train; sys.exit('IPython' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def ball(shape: tuple[int, int, int] = (20, 18, 16)) -> NDArray[np.uint8]:
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    inside = np.linalg.norm(grid - np.array((8, 9, 8)), axis=-1) < 4
    return np.where(inside, 1, 0).astype(np.uint8)


def outlined(html: str) -> bool:
    return has_colour(pixels(html.split("<img src='")[1].split("'", maxsplit=1)[0]), PREDICTION)


def test_a_prediction_shows_a_slice_with_the_outline_and_the_volume() -> None:
    label = ball()
    image = nib.Nifti1Image(label.astype(np.float32), np.diag([1, 2, 5, 1]))
    html = Prediction(label * 3, as_scan(image))._repr_html_()
    assert outlined(html)
    # A voxel has 10 cubic millimetres, so 100 voxels are a millilitre.
    voxels = int(label.sum())
    assert f">3</td><td style='text-align:left'>{voxels:,}</td>" in html
    assert f">{voxels / 100:.1f}</td>" in html


def test_a_prediction_of_an_array_has_no_volume_and_an_empty_one_no_outline() -> None:
    of_array = Prediction(ball(), None)._repr_html_()
    assert outlined(of_array)
    assert ">–</td>" in of_array  # noqa: RUF001 - as in a printed table
    empty = Prediction(np.zeros((5, 6, 7), np.uint8), None)._repr_html_()
    assert not outlined(empty)
    assert "no structure found" in empty


@pytest.mark.parametrize("shape", [(300, 200, 1), (300, 1, 2)])
def test_images_and_thin_volumes_have_a_picture(shape: tuple[int, int, int]) -> None:
    label = np.zeros(shape, np.uint8)
    label[100:200] = 1
    assert outlined(Prediction(label, None)._repr_html_())


def scored(name: str, **conventions: Any) -> Evaluation:
    rows = (
        CaseScore("a", 1, name, dice=80.0, jaccard=70.0, asd=1.0, hd95=3.0),
        CaseScore("b", 1, name, dice=90.0, jaccard=80.0, asd=2.0, hd95=4.5),
        CaseScore("b", 2, "wall", dice=0.0, jaccard=0.0, missed=True),
    )
    return Evaluation(rows, Protocol(**conventions), watermark="chosen on <test> cases")


def test_scores_show_their_classes_and_what_must_be_said() -> None:
    html = scored("<left>", empty="zero")._repr_html_()
    for cell in ("&lt;left&gt;", "wall", "all", "HD95 mm", "3.75", "75.0"):
        assert f">{cell}<" in html, cell
    assert ">85.0 ± 7.1<" in html  # of 80 and 90
    assert "<div>chosen on &lt;test&gt; cases</div><div>empty masks count as zero</div>" in html
    assert "<left>" not in html
    named = ScoreSet(Path("runs/<x>"), scored("left"), Manifest())._repr_html_()
    assert named == f"<b>&lt;x&gt;</b>{scored('left')._repr_html_()}"
