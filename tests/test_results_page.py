"""docs/explanation/results.md is what benchmarks/real/page.py makes of the committed files."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from benchmarks.real.collect import ROOT, committed_file, write_committed
from benchmarks.real.data_sets import PARTIAL, REPORTED
from benchmarks.real.figure import Panel, Point, figure
from benchmarks.real.page import (
    FIGURE,
    PAGE,
    PEERS,
    answers,
    first_table,
    named,
    opening,
    page,
    panels,
    read_peers,
)
from benchmarks.real.rows import read_grids
from benchmarks.real.texts import ABOUT, COLUMNS, DATA
from small_grid import RESULT

from tracoco.errors import UserError
from tracoco.studies.benchmark.grid import grid_runs, read_grid

GRID = """
title: Small | balls
datasets:
  la: {labelled: [2]}
rows:
  supervised: {}
  cps: {}
  tracoco: {}
  tracoco-ce: {method: tracoco, set: {method.semi_supervised: ce}}
  supervised-all: {method: supervised, labelled: all}
seeds: [0, 1]
set: {training.steps: 7}
"""
SHIFTS = {"supervised": 0.0, "cps": 1.5, "tracoco": 3.0, "tracoco-ce": 3.0, "supervised-all": 10.0}
"""By how much each row is above `supervised`, in every case of every seed."""


def write_grid(root: Path, name: str = "la", text: str = GRID) -> None:
    """A grid with the results of all its runs."""
    (root / f"{name}.yaml").write_text(text)
    results = {}
    for run in grid_runs(read_grid(root / f"{name}.yaml")):
        shift = SHIFTS.get(run.row, 0.0) + run.seed
        result = replace(
            RESULT,
            dataset=run.dataset,
            method=run.spec.config(0).method.name,
            labelled=run.labelled or 20,
            unlabelled=0 if "super" in run.spec.config(0).method.name else 18,
            seed=run.seed,
            dice=80.0 + shift,
            case_dice={"a": 75.0 + shift, "b": 85.0 + shift},
            seconds=60.0 + 60.0 * run.seed,
            peak_mb=400.0 if "super" in run.row else 600.0,
            missed=1,
        )
        results[run.name] = {"row": run.row, "run": "any", **asdict(result)}
    write_committed(committed_file(root, name), results)


def change(root: Path, run: str, **changes: object) -> None:
    path = root / "results" / "la.json"
    values = json.loads(path.read_text())
    values["runs"][run] |= changes
    path.write_text(json.dumps(values))


def remove(root: Path, run: str) -> None:
    path = root / "results" / "la.json"
    values = json.loads(path.read_text())
    del values["runs"][run]
    path.write_text(json.dumps(values))


def shown(root: Path) -> str:
    return page(named(read_grids(root)), {})


def test_the_committed_page_and_figure_are_made_of_the_committed_results() -> None:
    grids, peers = named(read_grids(ROOT)), read_peers(PEERS)
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(grids, peers), "run `python -m benchmarks.real.page`"
    assert FIGURE.read_text(encoding="utf-8") == figure(panels(grids, peers))


def test_grids_are_of_data_that_no_setting_is_chosen_on_and_the_page_says_what_it_is() -> None:
    grids = read_grids(ROOT)
    assert {data for grid in grids for data in grid.rows} == (REPORTED | PARTIAL).keys()
    assert REPORTED.keys() == ABOUT.keys() == DATA.keys() == COLUMNS.keys()


def test_the_page_starts_with_the_headline_the_figure_and_a_table_of_ten_lines() -> None:
    grids = named(read_grids(ROOT))
    text = PAGE.read_text(encoding="utf-8")
    table = first_table(grids, read_peers(PEERS))
    assert len(table.splitlines()) == 10
    places = [text.index(part) for part in (opening(grids), "results.svg", table, "<details>")]
    assert places == sorted(places)


def test_the_stand_in_is_never_called_by_the_name_of_the_data_of_the_papers() -> None:
    assert "pancreas-ct" not in PAGE.read_text(encoding="utf-8").lower()


def test_without_results_the_page_says_which_runs_are_missing(tmp_path: Path) -> None:
    (tmp_path / "la.yaml").write_text(GRID)
    text = shown(tmp_path)
    assert "Missing are 10 of 10 runs: supervised (seeds 0, 1); cps (seeds 0, 1);" in text
    assert "| TraCoCo | not run | not run |" in text
    assert "Not measured yet on the Left Atrium" in text
    assert "Not run: the Left Atrium." in text


def test_the_headline_is_absent_while_a_curve_is_not_complete_and_says_why(tmp_path: Path) -> None:
    write_grid(tmp_path, "la-labels", GRID.replace("[2]", "[2, 8]"))
    text = GRID.replace("[2]", "[2, 8]").replace("[0, 1]", "[0, 1, 2]")
    (tmp_path / "la-labels.yaml").write_text(text)
    words = opening(named(read_grids(tmp_path)))
    assert "**" not in words
    assert "supervised with 2, 8 and all labels" in words
    (tmp_path / "la-labels.yaml").write_text(GRID.replace("[2]", "[2, 8]"))
    words = opening(named(read_grids(tmp_path)))
    assert words.startswith("**On the Left Atrium, TraCoCo with 8 labelled and 18 unlabelled scans")


def test_a_row_has_means_and_spreads_over_seeds_and_its_difference(tmp_path: Path) -> None:
    write_grid(tmp_path)
    text = shown(tmp_path)
    # Dice 81.5 and 82.5: mean 82, sd sqrt(0.5); 1 and 2 minutes; a missed structure a seed.
    row = "| cps | 2 / 18 | 2 | 82.0 ± 0.7 | 70.0 ± 0.0 | 2.00 ± 0.00 | 1.00 ± 0.00 | 2 | 1.5 |"
    row += " 600 | 1.0x, 1.5x |"
    assert f"{row} +1.50 [+1.50, +1.50] |" in text
    assert "| supervised-all | 20 / 0 | 2 | 90.5 ± 0.7 |" in text
    assert '- tracoco-ce: method `tracoco`, `method.semi_supervised="ce"`\n' in text
    assert "- supervised-all: method `supervised`, every label\n" in text
    assert "2 cases, 7 steps; checkpoint `last`; distances in mm" in text


def test_times_of_another_machine_are_left_out_and_both_are_named(tmp_path: Path) -> None:
    write_grid(tmp_path)
    runs = {run.name: run.row for run in grid_runs(read_grid(tmp_path / "la.yaml"))}
    for name, row in runs.items():
        change(tmp_path, name, machine="quick, AVX512", precision="bf16")
        if row == "cps" and name.endswith("seed1"):
            change(tmp_path, name, machine="slow, AVX2", precision="fp32", seconds=6000.0)
        if row == "tracoco":
            change(tmp_path, name, machine="slow, AVX2", precision="fp32", seconds=6000.0)
    text = shown(tmp_path)
    # Of cps seed 0 was on the common machine, which took it a minute where supervised took 1.5.
    assert "| 2 | 1.0 | 600 | 0.7x, 1.5x | +1.50" in text
    assert "| 2 |  | 600 | ?, 1.5x | +3.00" in text
    assert "computed in bf16 and fp32; trained on quick, AVX512 and slow, AVX2;" in text
    assert "minutes are those of runs on quick, AVX512." in text
    (panel,) = panels(
        {"la": named(read_grids(tmp_path))["la"], "la-methods": read_grids(tmp_path)[0]}, {}
    )
    assert "tracoco" not in {point.name for point in panel.points}


def test_pairs_say_which_row_is_higher_or_that_they_do_not_differ(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "la-tracoco-2-labels-seed0", case_dice={"a": 70.0, "b": 90.0})
    change(tmp_path, "la-tracoco-2-labels-seed1", case_dice={"a": 71.0, "b": 91.0})
    pairs = [line for line in shown(tmp_path).splitlines() if " − " in line]  # noqa: RUF001 - a minus
    # By case -5 and +5: a quarter of the draws has the first one twice and a quarter the second.
    assert any(
        line.startswith("| tracoco − supervised | +0.00 | [-5.00, +5.00] | 1.0000 | 1.0000 | not")  # noqa: RUF001 - a minus
        for line in pairs
    )
    # No draw is below 0: p = 2 / 10,001, and four comparisons make it 0.0008.
    wanted = "| cps − supervised | +1.50 | [+1.50, +1.50] | 0.0002 | 0.0008 | higher | 0, 1 | 2 |"  # noqa: RUF001 - a minus
    assert wanted in pairs
    names = [line.split(" | ")[0][2:].replace(" − ", "/") for line in pairs]  # noqa: RUF001 - a minus
    assert names[:2] == ["tracoco/supervised", "tracoco/cps"]
    assert names[2:] == ["tracoco/tracoco-ce", "cps/supervised"]


def test_answers_are_sentences_with_figures(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "la-cps-2-labels-seed0", case_dice={"a": 70.0, "b": 90.0})
    change(tmp_path, "la-cps-2-labels-seed1", case_dice={"a": 71.0, "b": 91.0})
    found = answers(named(read_grids(tmp_path)))
    order = "the order TraCoCo above CPS above supervised learning"
    assert found[0] == f"By the means, {order[10:]} holds on the Left Atrium."
    assert found[1] == (
        "TraCoCo is above supervised learning on the Left Atrium by 3.0 points of Dice [3.0, 3.0], "
        "p < 0.001."
    )
    assert found[2].startswith("On the Left Atrium (+3.0 [-2.0, +8.0], p = ")
    assert found[2].endswith("the difference between TraCoCo and CPS is not significant.")
    change(tmp_path, "la-cps-2-labels-seed0", dice=99.0)
    (ordering, *_) = answers(named(read_grids(tmp_path)))
    assert ordering == f"By the means, {order} holds on no data set."


def test_missing_seeds_are_said_and_only_common_ones_are_paired(tmp_path: Path) -> None:
    write_grid(tmp_path)
    remove(tmp_path, "la-cps-2-labels-seed1")
    text = shown(tmp_path)
    assert "| cps | 2 / 18 | 1 of 2 | 81.5 |" in text
    assert "| higher | 0 alone, so only cases are resampled; not in both: 1 | 2 |" in text


def test_a_failed_run_is_told_and_a_note_that_cannot_be_true_is_refused(tmp_path: Path) -> None:
    write_grid(tmp_path)
    remove(tmp_path, "la-cps-2-labels-seed1")
    notes = tmp_path / "failed.yaml"
    notes.write_text("la: {la-cps-2-labels-seed1: <diverged> at step 3}")
    assert "- cps, seed 1: &lt;diverged&gt; at step 3\n" in shown(tmp_path)
    notes.write_text("la: {la-cps-2-labels-seed9: diverged}")
    with pytest.raises(UserError, match="la has no run la-cps-2-labels-seed9"):
        shown(tmp_path)
    notes.write_text("la: {la-cps-2-labels-seed0: diverged}")
    with pytest.raises(UserError, match="la-cps-2-labels-seed0 has a result"):
        shown(tmp_path)
    notes.write_text("bells: {}")
    with pytest.raises(UserError, match=r"no grid bells\.yaml"):
        shown(tmp_path)


def test_a_case_that_one_run_lacks_is_an_error(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "la-cps-2-labels-seed1", case_dice={"a": 70.0})
    with pytest.raises(UserError, match=r"'tracoco' and 'cps' cannot be paired: .*'b'"):
        shown(tmp_path)


def test_results_that_were_scored_otherwise_are_not_put_into_one_table(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "la-cps-2-labels-seed1", units="voxel")
    with pytest.raises(UserError, match="la have units mm and voxel"):
        shown(tmp_path)


@pytest.mark.parametrize("changes", [{"seed": 3}, {"steps": 8}, {"labelled": 3}, {"method": "cps"}])
def test_a_result_of_other_settings_than_the_grid_has_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    write_grid(tmp_path)
    change(tmp_path, "la-tracoco-2-labels-seed1", **changes)
    with pytest.raises(UserError, match="not of the grid as it is now"):
        shown(tmp_path)


def test_a_result_cannot_be_left_out_by_taking_away_its_row_or_its_grid(tmp_path: Path) -> None:
    write_grid(tmp_path)
    (tmp_path / "la.yaml").write_text(GRID.replace("  cps: {}\n", ""))
    with pytest.raises(UserError, match=r"2 problems:\n.*la-cps-2-labels-seed0 is of no run"):
        shown(tmp_path)
    (tmp_path / "la.yaml").unlink()
    with pytest.raises(UserError, match=r"results.la\.json has no grid .*la\.yaml"):
        shown(tmp_path)


def test_a_watermark_stands_over_the_figures_and_titles_cannot_break_tables(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "la-cps-2-labels-seed1", watermark="cropped by <label>")
    text = shown(tmp_path)
    assert "**cropped by &lt;label&gt;**\n\n| row |" in text
    assert "<summary>Small \\| balls</summary>" in text


@pytest.mark.parametrize("kind", ["components", "methods"])
def test_every_kind_of_grid_has_its_table(tmp_path: Path, kind: str) -> None:
    write_grid(tmp_path)
    if kind == "components":
        text = (ROOT / "la-components.yaml").read_text(encoding="utf-8")
        write_grid(tmp_path, "la-components", f"{text}set: {{training.steps: 7}}\n")
        line = "| + CRC | 3 | 81.0 ± 1.0 | 70.0 ± 0.0 | 2.00 ± 0.00 | 1.00 ± 0.00 |"
        assert f"{line} +0.00 [+0.00, +0.00] | p = 1.00 | 90.94 |" in shown(tmp_path)
    else:
        write_grid(tmp_path, "la-methods", GRID.replace("  supervised-all", "  other"))
        text = shown(tmp_path)
        assert (
            "| 1 | tracoco | 2 | 83.5 ± 0.7 | +3.00 [+3.00, +3.00] | p < 0.001 | 1.5 | 600 |"
            in text
        )


def test_a_peer_stands_beside_ours(tmp_path: Path) -> None:
    write_grid(tmp_path)
    peer = replace(RESULT, dataset="la", method="nnunet", dice=70.0, seconds=600.0)
    values = {"row": "nnunet", "run": "x", **asdict(peer)}
    write_committed(tmp_path / "peer.json", {"la-nnunet": values})
    peers = read_peers(tmp_path / "peer.json")
    grids = named(read_grids(tmp_path))
    assert "| nnU-Net for TraCoCo's minutes | 70.0 |" in first_table(grids, peers)
    text = page(grids, peers)
    assert "| tracoco − nnunet |" in text  # noqa: RUF001 - a minus
    assert "Not run: the Left Atrium" not in text
    assert read_peers(tmp_path / "none.json") == {}


def test_the_figure_has_a_point_and_a_line_and_names_that_do_not_touch() -> None:
    points = tuple(Point(f"method{n}", 1.0 + n, 80.0 + n % 5, "other") for n in range(20))
    near = (Point("tracoco", 4.0, 84.0, "ours"), Point("cps", 4.1, 84.0, "known"))
    root = ET.fromstring(figure([Panel("Balls", points + near, 90.0)]))  # noqa: S314 - our own
    assert len(root.findall(".//{*}circle")) == 22
    assert root.find(".//{*}circle/{*}title").text == "tracoco: Dice 84.0, 4.0 minutes"  # type: ignore[union-attr]  # it is there
    assert len([each for each in root.findall(".//{*}path") if "class" in each.attrib]) == 1
    texts = [each for each in root.findall(".//{*}text") if "style" in each.attrib]
    assert {"tracoco", "cps"} <= {each.text for each in texts}
    boxes = [(float(t.attrib["x"]), float(t.attrib["y"]), len(t.text or "")) for t in texts]
    for i, (x, y, length) in enumerate(boxes):
        for other, height, _ in boxes[i + 1 :]:
            assert abs(y - height) >= 11 or other >= x + 5.6 * length or x >= other


def test_without_points_the_figure_is_empty_and_a_failed_row_does_not_press_the_others() -> None:
    assert "circle" not in figure([])
    points = [Point(str(n), 2.0, 84.0 + n) for n in range(6)]
    root = ET.fromstring(figure([Panel("Balls", (*points, Point("failed", 2.0, 3.0)))]))  # noqa: S314 - our own
    heights = sorted(float(each.attrib["cy"]) for each in root.findall(".//{*}circle"))
    assert heights[5] - heights[0] > 100
    assert heights[-1] == pytest.approx(370.0)
