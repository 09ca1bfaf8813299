"""The quick-start notebook runs from scans to a prediction, with nothing but the public names."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quick_start.ipynb"
TRAINING = "minutes=2"


def read() -> Any:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    return notebook


def test_the_notebook_has_no_outputs_and_no_deep_import() -> None:
    cells = [cell for cell in read().cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    source = "\n".join(cell.source for cell in cells)
    imports = re.findall(r"^(?:import|from) .*", source, re.MULTILINE)
    assert imports == ["import tracoco as tc"]
    assert TRAINING in source


def shown(cell: Any) -> str:
    """What a cell shows as HTML, of outputs that are updated the newest state."""
    outputs = [output for output in cell.outputs if output.output_type != "stream"]
    return "".join(output.data.get("text/html", "") for output in outputs)


@pytest.mark.slow
def test_the_notebook_goes_from_scans_to_a_report(tmp_path: Path) -> None:
    notebook = read()
    for cell in notebook.cells:
        cell.source = cell.source.replace(TRAINING, "minutes=0.3")
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": tmp_path}}).execute()
    by_source = {cell.source: cell for cell in notebook.cells if cell.cell_type == "code"}

    def found(part: str) -> Any:
        return next(cell for source, cell in by_source.items() if part in source)

    assert ">spacing_mm<" in shown(found("tc.plan"))
    training = shown(found("tc.train"))
    steps = re.findall(r"<progress value='(\d+)' max='(\d+)'></progress>", training)
    assert len(steps) >= 2  # of `prepare` and of `train`
    assert all(done == total for done, total in steps)
    assert "supervised " in training
    assert "crc " in training
    assert ">tracoco<" in training  # the method, in the table of the run
    prediction = shown(found("predictor()"))
    assert "<img src='data:image/png;base64," in prediction
    assert ">Dice %<" in shown(found("tc.evaluate"))
    assert len(list((tmp_path / "quick_start").glob("project/runs/*/report.html"))) == 1
