"""The notebooks run with the public names alone, and their pages are made of them as they are."""

import re
from pathlib import Path
from typing import Any

import pytest
from scripts.site.notebooks import cell_text, execute, names, note, page_of, read

SHORT = {
    '"training.steps": 200': '"training.steps": 6',
    '"training.steps": 150': '"training.steps": 6',
    '"training.steps": 120': '"training.steps": 6',
}
"""What tests train in place of what the page shows."""
STEPS = re.compile(r"<progress value='(\d+)' max='(\d+)'></progress>")


def test_there_are_notebooks() -> None:
    wanted = {"quick_start", "comparing_methods", "own_loop", "labelling_rounds"}
    assert wanted <= set(names())


@pytest.mark.parametrize("name", names())
def test_the_page_of_a_notebook_has_its_text_and_code(name: str) -> None:
    text = page_of(name).read_text(encoding="utf-8")
    first, *cells = read(name).cells
    heading, _, rest = first.source.partition("\n")
    place = 0
    for part in (heading, note(name), rest.strip(), *map(cell_text, cells)):
        found = text.find(part, place)
        assert found >= 0, f"run `make notebooks NAMES={name}`; the page lacks:\n{part}"
        place = found + len(part)


@pytest.mark.parametrize("name", names())
def test_a_notebook_imports_no_inner_module(name: str) -> None:
    source = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "code")
    imports = re.findall(r"^(?:import|from) (?:tracoco).*", source, re.MULTILINE)
    assert imports == ["import tracoco as tc"]


def run(name: str, folder: Path) -> dict[str, Any]:
    """The executed code cells by their source."""
    notebook = read(name)
    for cell in notebook.cells:
        for long, short in SHORT.items():
            cell.source = cell.source.replace(long, short)
    execute(notebook, folder)
    return {cell.source: cell for cell in notebook.cells if cell.cell_type == "code"}


def shown(cell: Any) -> str:
    """What a cell shows as HTML, of outputs that are updated the newest state, and its text."""
    outputs = [output for output in cell.outputs if output.output_type != "stream"]
    texts = [output.text for output in cell.outputs if output.output_type == "stream"]
    return "".join([*(output.data.get("text/html", "") for output in outputs), *texts])


def found(cells: dict[str, Any], part: str) -> str:
    """What the first cell with this code shows."""
    return shown(next(cell for source, cell in cells.items() if part in source))


@pytest.mark.slow
def test_the_quick_start_goes_from_scans_to_a_report(tmp_path: Path) -> None:
    cells = run("quick_start", tmp_path)
    assert ">spacing_mm<" in found(cells, "tc.plan")
    training = found(cells, "tc.train")
    steps = STEPS.findall(training)
    assert len(steps) >= 2  # of `prepare` and of `train`
    assert all(done == total for done, total in steps)
    assert "supervised " in training
    assert "crc " not in training  # unlabelled crops do not count within so few steps
    assert ">tracoco<" in training  # the method, in the table of the run
    assert "<img src='data:image/png;base64," in found(cells, "predictor()")
    assert ">Dice %<" in found(cells, "tc.evaluate")
    assert len(list((tmp_path / "quick_start").glob("project/runs/*/report.html"))) == 1


@pytest.mark.slow
def test_methods_are_compared_on_the_same_scans(tmp_path: Path) -> None:
    cells = run("comparing_methods", tmp_path)
    lines = found(cells, "tc.compare").splitlines()
    assert [line.split()[0] for line in lines] == ["supervised", "mean-teacher", "tracoco"]
    assert all(re.search(r"Dice +[\d.]+ %", line) for line in lines)


@pytest.mark.slow
def test_the_own_loop_learns_the_structure(tmp_path: Path) -> None:
    cells = run("own_loop", tmp_path)
    (dice,) = re.findall(r"Dice of 4 test volumes: ([\d.]+) %", found(cells, "scores = "))
    assert float(dice) > 60


@pytest.mark.slow
def test_two_rounds_of_labelling_take_eight_labels(tmp_path: Path) -> None:
    cells = run("labelling_rounds", tmp_path)
    chosen = found(cells, "chosen = ")
    assert chosen.count("the two networks differ by") == 4
    assert (
        len(re.findall(r"new labels: (?:phantom_\d+(?:, )?){4}$", found(cells, "new labels"), re.M))
        == 1
    )
    lines = found(cells, "structures missed").splitlines()
    assert [line.partition(":")[0].strip() for line in lines] == [
        "2 labels",
        "6 labels",
        "10 labels",
    ]
    project = tmp_path / "labelling_rounds" / "project"
    assert (project / "report" / "index.html").is_file()
    runs = {path.name for path in (project / "runs").iterdir()}
    assert runs >= {"tracoco-seed0", "tracoco-round1", "tracoco-round2"}
