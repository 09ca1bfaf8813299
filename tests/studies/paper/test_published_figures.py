"""Every figure without a project: what the paper states of it, and how to draw one's own."""

import json
import re
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tracoco.cli import main
from tracoco.errors import UserError
from tracoco.studies.paper.contents import FIGURES, paper_content
from tracoco.studies.paper.figure import FACTS, QUANTITIES
from tracoco.studies.paper.figures.qualitative import OWN as QUALITATIVE
from tracoco.studies.paper.published import published_figure, published_figures
from tracoco.studies.paper.request import PaperRequest

WITHOUT_NUMBERS = {"context", "confidence", "qualitative"}


def test_all_seven_figures_are_there() -> None:
    assert len(FIGURES) == 7
    assert set(FACTS) == set(FIGURES)
    assert set(FIGURES) - set(published_figures()) == WITHOUT_NUMBERS


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_without_a_project_shows_what_was_published(name: str) -> None:
    shown = paper_content(name, PaperRequest({}))
    assert shown.values["file"] is None
    assert shown.values["figure"] == name
    rows = shown.values["rows"]
    expected = [] if name in WITHOUT_NUMBERS else published_figure(name)
    assert [(row["series"], row["quantity"], row["published"]) for row in rows] == [
        (point.series, point.quantity, point.value) for point in expected
    ]
    assert shown.lines == (
        f"draw yours: tracoco paper {name} --project {FACTS[name].data[0]}=FOLDER"
        + (f" (or {', '.join(FACTS[name].data[1:])})" if FACTS[name].data[1:] else ""),
    )
    says_none = "The paper states no number of it." in shown.values["notes"]
    assert says_none == (name in WITHOUT_NUMBERS)
    json.dumps(shown.values)


@pytest.mark.parametrize("name", FIGURES)
def test_a_sentence_says_what_the_figure_shows_and_lines_fit(name: str) -> None:
    console = Console(width=100, record=True, file=StringIO())
    shown = paper_content(name, PaperRequest({}))
    console.print(shown.table)
    text = console.export_text()
    assert FIGURES[name][1] in text
    sentence = FACTS[name].shows
    assert re.fullmatch(r"It shows .*[^.]\.", sentence)
    assert sentence in " ".join(text.split())
    assert "…" not in text
    # A row of the table is one line.
    lines = [line for line in text.splitlines() if line.startswith(("la ", "pancreas ", "brats19"))]
    assert len(lines) == len(shown.values["rows"])


def test_numbers_stand_as_they_were_printed() -> None:
    def last(name: str) -> list[str]:
        console = Console(width=100, record=True, file=StringIO())
        console.print(paper_content(name, PaperRequest({})).table)
        lines = console.export_text().splitlines()
        return [line.split()[-1] for line in lines if line.startswith(("la ", "brats19"))]

    assert last("thresholds") == ["84.93", "86.69", "85.20", "86.08", "86.69"]
    assert last("divergence") == ["98.8", "3302", "96.6", "5453", "96.0", "5526"]
    assert last("training-time") == ["8", "96", "0.5"]


def test_every_quantity_has_words() -> None:
    used = {
        point.quantity
        for name in FIGURES
        if name not in WITHOUT_NUMBERS
        for point in published_figure(name)
    }
    assert used == set(QUANTITIES)


@pytest.mark.parametrize("name", FIGURES)
def test_the_command_names_the_data_that_the_figure_is_drawn_from(name: str) -> None:
    module = import_module(FIGURES[name][0].partition(":")[0])
    own = next(iter(QUALITATIVE.values())) if name == "qualitative" else module.OWN
    assert own.partition("-")[0] == FACTS[name].data[0]


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("name", ["qualitative", "divergence"])
def test_the_command_ends_well(
    name: str,
    options: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["tracoco", "paper", name, *options])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    out = capsys.readouterr().out
    if options:
        assert len(json.loads(out)["rows"]) == len(
            paper_content(name, PaperRequest({})).values["rows"]
        )
    else:
        assert f"draw yours: tracoco paper {name} --project" in out


def test_a_file_for_what_is_not_drawn_is_refused() -> None:
    with pytest.raises(UserError, match=r"--out .* tracoco paper context --project"):
        paper_content("context", PaperRequest({}), out=Path("figure.png"))
