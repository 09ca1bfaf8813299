"""What ours predicts with stands beside what the paper says that each method costs."""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from samples import make_project
from torch import nn

from tracoco.evaluation import complexity as counting
from tracoco.evaluation.complexity import Complexity
from tracoco.runs.build import run_method
from tracoco.studies.benchmark.results import RunResult
from tracoco.studies.paper.contents import paper_content
from tracoco.studies.paper.fill import FilledRow
from tracoco.studies.paper.inference_cost import CONVENTION, DIFFERENCES, NOTABLE, with_costs
from tracoco.studies.paper.request import PaperRequest
from tracoco.studies.paper.result_tables import filled_json, filled_tables
from tracoco.studies.paper.table_rows import TABLES, table_rows

COUNTED = ("la", "pancreas", "brats19", "acdc")
"""Tables that the paper has complexities in."""


@pytest.fixture(scope="module")
def rows() -> dict[str, list[FilledRow]]:
    """All rows with what ours costs, at the paper's settings."""
    return {
        table: with_costs([FilledRow(row) for row in table_rows(table)], PaperRequest({}))
        for table in COUNTED
    }


def cost(rows: Sequence[FilledRow], method: str) -> tuple[int, str, str]:
    found = next(row.cost for row in rows if row.row.published.method == method)
    assert found is not None
    return found.parameters, f"{found.counted_macs / 1e9:.2f}", f"{found.macs / 1e9:.2f}"


@pytest.mark.parametrize(
    ("table", "method", "expected"),
    [
        ("la", "tracoco", (9_448_866, "47.02", "40.11")),
        ("la", "caml", (9_448_866, "47.02", "40.11")),
        ("pancreas", "urpc", (9_448_866, "41.45", "35.36")),
        ("brats19", "sassnet", (5_884_050, "61.14", "60.99")),
        ("acdc", "dcnet", (1_813_764, "2.97", "2.95")),
        # Two networks, and two decoders on one encoder.
        ("la", "ps-mt", (2 * 9_448_866, "94.03", "80.22")),
        ("acdc", "mc-net", (2_577_624, "5.36", "4.93")),
    ],
)
def test_the_cost_is_of_the_network_that_predicts(
    rows: dict[str, list[FilledRow]], table: str, method: str, expected: tuple[int, str, str]
) -> None:
    assert cost(rows[table], method) == expected


def test_heads_of_the_multi_scale_variant_are_not_part_of_it(
    rows: dict[str, list[FilledRow]],
) -> None:
    found = [row.cost for row in rows["pancreas"] if row.row.published.row == "MC-Net+"]
    assert len(found) == 4
    assert len(set(found)) == 1


def notable(row: FilledRow) -> bool:
    assert row.cost is not None
    published = row.row.published
    pairs = (
        (published.parameters_m, row.cost.parameters / 1e6),
        (published.macs_g, row.cost.counted_macs / 1e9),
    )
    return any(known is not None and abs(ours - known) > NOTABLE * known for known, ours in pairs)


@pytest.mark.parametrize("table", COUNTED)
def test_a_row_says_why_where_ours_is_not_the_published_cost_and_only_there(
    rows: dict[str, list[FilledRow]], table: str
) -> None:
    shown = filled_json(table, "", rows[table], [])["rows"]
    for row, values in zip(rows[table], shown, strict=True):
        assert bool(values["notes"]) == notable(row), values["row"]


def test_every_reason_belongs_to_a_row(rows: dict[str, list[FilledRow]]) -> None:
    differing = {
        (table, row.row.published.method)
        for table in COUNTED
        for row in rows[table]
        if notable(row)
    }
    assert differing == set(DIFFERENCES)


def test_other_backbones_are_named() -> None:
    for table, name in (("la", "URPC"), ("pancreas", "PS-MT")):
        shown = paper_content(table, PaperRequest({}), rows=(name,)).values["rows"][0]
        assert "3D UNet" in shown["notes"][0]
        assert (shown["parameters_m"], round(shown["our_parameters_m"])) in ((5.88, 9), (5.88, 19))


def test_as_json_both_counts_are_there() -> None:
    (row, *_) = paper_content("la", PaperRequest({}), rows=("SASSNet",)).values["rows"]
    assert (row["parameters_m"], row["macs_g"]) == (9.44, 47.05)
    assert row["our_parameters_m"] == pytest.approx(9.448866)
    assert row["our_macs_g"] == pytest.approx(47.02, abs=0.005)
    assert row["our_true_macs_g"] == pytest.approx(40.11, abs=0.005)


def text(shown: Any, width: int) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(shown)
    return console.export_text()


@pytest.mark.parametrize("table", COUNTED)
@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_listing_has_a_line_for_each_row_with_both_costs(
    rows: dict[str, list[FilledRow]], table: str, width: int
) -> None:
    found = text(filled_tables("title", rows[table], []), width)
    assert "…" not in found
    assert CONVENTION in " ".join(found.split())
    lines = [line for line in found.splitlines() if "%" not in line]
    for values in filled_json(table, "title", rows[table], [])["rows"]:
        name, cells = values["row"], [f"{values['dice']:.2f}", f"{values['parameters_m']:.2f}"]
        cells += [f"{values['our_parameters_m']:.2f}", f"{values['our_macs_g']:.2f}"]
        matching = [line for line in lines if line.startswith(name) and cells[0] in line]
        assert any(set(cells) <= set(line.split()) for line in matching), values["row"]


def test_a_column_of_which_nothing_was_published_is_left_out() -> None:
    heading = text(paper_content("acdc", PaperRequest({}), rows=("DMD",)).table, 100)
    assert heading.count("MACs") == 1 + CONVENTION.count("MACs")
    assert heading.count("Param.") == 2


@pytest.mark.parametrize("table", [name for name in TABLES if name not in COUNTED])
def test_tables_without_published_costs_have_no_such_columns(table: str) -> None:
    shown = paper_content(table, PaperRequest({}))
    assert "MACs" not in text(shown.table, 100)
    assert {row["our_parameters_m"] for row in shown.values["rows"]} == {None}


def result(**changes: Any) -> RunResult:
    values: dict[str, Any] = {
        **dict.fromkeys(("dataset", "method", "units", "empty", "watermark", "checkpoint"), ""),
        **dict.fromkeys(("labelled", "unlabelled", "seed", "steps", "cases", "missed"), 0),
        **dict.fromkeys(("dice", "jaccard"), 50.0),
        **dict.fromkeys(("asd", "hd95"), 123.45),
        **dict.fromkeys(("seconds_a_step", "seconds_a_case", "seconds"), 1.0),
        "cct": False,
        "versions": {},
        "case_dice": {},
    }
    return RunResult(**values | changes)


def test_with_results_the_cost_stands_below_the_published_one(
    rows: dict[str, list[FilledRow]],
) -> None:
    first, *others = rows["pancreas"][:5]
    filled = [replace(first, results=(result(), result(dice=60.0))), *others]
    found = text(filled_tables("title", filled, []), 80)
    assert "…" not in found
    lines = [line.split() for line in found.splitlines()]
    place = next(index for index, line in enumerate(lines) if line[:1] == ["UA-MT"])
    assert lines[place][1:3] == ["single", "published"]
    assert lines[place][-2:] == ["9.44", "41.45"]
    assert lines[place + 1] == ["ours", "55.00", "50.00", "123.45", "123.45", "9.45", "41.45"]
    assert lines[place + 3][0] == "difference"
    assert lines[place + 3][-2:] == ["+0.01", "+0.00"]
    # A row that was not run has its cost all the same.
    dash = "–"  # noqa: RUF001 - an en dash
    assert lines[place + 5] == ["ours", *[dash] * 4, "9.45", "41.45"]


def test_ours_follows_the_settings_that_are_asked_for() -> None:
    small = PaperRequest({}, changes=("network.filters=8", "data.crop=[32, 32, 32]"))
    (row, *_) = with_costs([FilledRow(table_rows("la")[0])], small)
    assert row.cost is not None
    assert row.cost.parameters < 9_448_866 / 3
    without_crop = PaperRequest({}, preset="demo")
    (row, *_) = with_costs([FilledRow(table_rows("la")[0])], without_crop)
    assert row.cost is None  # the crop is for a project to say


def test_reasons_are_of_the_papers_networks_alone() -> None:
    def notes(*changes: str) -> list[str]:
        asked = PaperRequest({}, changes=changes)
        (row, *_) = paper_content("la", asked, rows=("URPC",)).values["rows"]
        found: list[str] = row["notes"]
        return found

    assert notes() == notes("training.steps=500") == [DIFFERENCES["la", "urpc"]]
    assert notes("network.name=unet") == []


def test_a_network_that_a_method_cannot_have_is_the_reason_in_its_row() -> None:
    pytest.importorskip("monai")
    asked = PaperRequest({}, changes=("network.name=monai:SegResNet",))
    shown = paper_content("la", asked, rows=("UA-MT", "MC-Net+")).values["rows"]
    rows = {row["row"]: row for row in shown}
    assert rows["UA-MT"]["our_parameters_m"] is not None
    assert rows["MC-Net+"]["our_parameters_m"] is None
    assert "needs the feature maps" in rows["MC-Net+"]["notes"][0]


def test_with_a_project_it_is_the_network_of_the_runs(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=4, test=1)
    asked = PaperRequest({"": project.root}, "demo", ("network.filters=4",), 2, device="cpu")
    ran = FilledRow(table_rows("la")[0], results=(result(),))
    (row,) = with_costs([ran], asked)
    assert row.cost is not None
    other = PaperRequest({"": project.root}, "demo", ("network.filters=8",), 2, device="cpu")
    (wider,) = with_costs([ran], other)
    assert wider.cost is not None
    assert 3 < wider.cost.parameters / row.cost.parameters < 4.1


def test_a_listing_draws_no_weights_and_counts_a_network_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[nn.Module] = []
    original = counting.complexity

    def noted(network: nn.Module, crop: Sequence[int], channels: int = 1) -> Complexity:
        counted.append(network)
        return original(network, crop, channels)

    monkeypatch.setattr(counting, "complexity", noted)
    before = torch.get_rng_state()
    with_costs([FilledRow(row) for row in table_rows("la")], PaperRequest({}))
    assert torch.equal(torch.get_rng_state(), before)
    # The plain network once for 12 methods; PS-MT predicts with more, MC-Net and SCC alike.
    found = [type(network).__name__ for network in counted]
    assert found == ["VNet", "TwoTeachers", "MeanOfDecoders"]
    assert {weight.device.type for network in counted for weight in network.parameters()} == {
        "meta"
    }


def test_the_same_settings_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    original = run_method

    def noted(config: Any, plan: Any) -> Any:
        built.append(config.method.name)
        return original(config, plan)

    monkeypatch.setattr(counting, "run_method", noted)
    rows = [FilledRow(row) for row in table_rows("la") if row.published.method in ("cac", "dtc")]
    with_costs(rows, PaperRequest({}))
    assert len(rows) == 4
    assert built == ["cac", "dtc"]
