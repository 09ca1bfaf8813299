"""Context sensitivity on the page and in a terminal."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from tracoco.errors import UserError
from tracoco.evaluation.context_sensitivity import ContextScore, ContextSensitivity, read_context
from tracoco.files import write_json
from tracoco.reporting.page import write_report
from tracoco.reporting.tables import context_remarks, context_table

if TYPE_CHECKING:
    from reporting.conftest import Bench


def measured(*scores: ContextScore) -> ContextSensitivity:
    return ContextSensitivity(
        source="scans<i>", checkpoint="last", crop=(8, 8, 4), shifts=5, seed=0, rows=scores
    )


TWO = measured(
    ContextScore("a<b>", 5, 1, disagreement=12.5, divergence=0.25, differing=3.0),
    ContextScore("[bold]", 5, 0, disagreement=7.5, divergence=0.75, differing=1.0),
    ContextScore("small", 0, 0),
)


def text(result: ContextSensitivity) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(context_table(result))
    return captured.get()


def test_the_table_has_each_scan_and_the_means() -> None:
    lines = [line.split() for line in text(TWO).splitlines()]
    assert ["a<b>", "12.50", "0.2500", "3.00", "5"] in lines
    assert ["[bold]", "7.50", "0.7500", "1.00", "5"] in lines
    mean = next(line for line in lines if line[:3] == ["mean", "of", "2"])
    assert mean[3:] == ["10.00", "±", "3.54", "0.5000", "±", "0.3536", "2.00", "±", "1.41", "10"]


def test_what_is_left_out_of_the_means_is_said() -> None:
    assert "1 pair without foreground" in text(TWO)
    assert "1 scan no larger than the crop" in text(TWO)
    plain = measured(ContextScore("a", 5, 0, disagreement=1.0, divergence=0.1, differing=1.0))
    assert context_remarks(plain) == []


def test_the_watermark_of_a_checkpoint_is_shown(bench: "Bench") -> None:
    result = replace(TWO, checkpoint="best", watermark="best was chosen on the test cases")
    assert "best was chosen on the test cases" in text(result)
    run = bench.run()
    write_json(run / "context.json", result.to_json())
    assert "best was chosen on the test cases" in write_report(run).read_text(encoding="utf-8")


def test_scans_without_room_have_no_meaning_but_a_reason() -> None:
    assert "nothing to compare" in text(measured(ContextScore("small", 0, 0)))


def test_the_page_shows_the_section_and_escapes_names(bench: "Bench") -> None:
    run = bench.run()
    assert "Context sensitivity" not in write_report(run).read_text(encoding="utf-8")
    write_json(run / "context.json", TWO.to_json())
    page = write_report(run).read_text(encoding="utf-8")
    assert "<h2>Context sensitivity</h2>" in page
    assert "changes its label in 2.00 % of the voxels" in page
    assert "10.00 ± 3.54" in page
    assert "a&lt;b&gt;" in page
    assert "scans&lt;i&gt;" in page
    assert "a<b>" not in page


def test_a_damaged_file_is_named(bench: "Bench") -> None:
    run = bench.run()
    assert read_context(run) is None
    write_json(run / "context.json", {"source": "scans"})
    with pytest.raises(UserError, match=r"context\.json: checkpoint"):
        read_context(run)
