"""docs/benchmarks.md is what benchmarks/real/page.py makes of the committed grids and results."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from benchmarks.real.data_sets import REPORTED
from benchmarks.real.notes import EARLIER, SUMMARY, read_notes
from benchmarks.real.page import ABOUT, HEAD, NOTHING, PAGE, PICTURE, ROOT, RULES, page
from benchmarks.real.picture import picture
from benchmarks.real.rows import read_grids
from small_grid import RESULT

from tracoco.errors import UserError
from tracoco.studies.benchmark.grid import grid_runs, read_grid

GRID = """
title: Small | balls
datasets:
  balls: {labelled: [2]}
rows:
  supervised: {}
  cps: {}
  tracoco: {}
  tracoco-ce: {method: tracoco, set: {method.semi_supervised: ce}}
  upper bound: {method: supervised, labelled: all}
seeds: [0, 1]
set: {training.steps: 7}
"""
SHIFTS = {"supervised": 0.0, "cps": 1.5, "tracoco": 3.0, "tracoco-ce": 3.0, "upper bound": 10.0}
"""By how much each row is above `supervised`, in every case of every seed."""


def write_grid(root: Path, name: str = "balls", text: str = GRID) -> None:
    """A grid with the results of all its runs."""
    (root / f"{name}.yaml").write_text(text)
    folder = root / "results" / name
    folder.mkdir(parents=True)
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
        values = {"row": run.row, "run": "any", **asdict(result)}
        (folder / f"{run.name}.json").write_text(json.dumps(values))


def change(root: Path, run: str, **changes: object) -> None:
    path = root / "results" / "balls" / f"{run}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def shown(root: Path) -> str:
    return page(read_grids(root), {})


def test_the_committed_page_and_picture_are_made_of_the_committed_results() -> None:
    grids = read_grids(ROOT)
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(grids, read_notes(ROOT)), "run `python -m benchmarks.real.page`"
    reported = [grid for grid in grids if grid.tried]
    assert PICTURE.exists() == bool(reported)
    if reported:
        assert PICTURE.read_text(encoding="utf-8") == picture(reported)


def test_grids_are_of_data_that_no_setting_is_chosen_on_and_the_page_says_what_it_is() -> None:
    names = {grid.name for grid in read_grids(ROOT)}
    assert names == ABOUT.keys()
    assert {data for grid in read_grids(ROOT) for data in grid.rows} <= REPORTED.keys()


def test_the_stand_in_is_never_called_by_the_name_of_the_data_of_the_papers() -> None:
    assert "pancreas-ct" not in PAGE.read_text(encoding="utf-8").lower()
    assert "pancreas-ct" not in "".join(ABOUT.values()).lower()


def test_without_results_the_page_says_that_nothing_was_run(tmp_path: Path) -> None:
    assert shown(tmp_path) == HEAD + RULES + NOTHING
    (tmp_path / "balls.yaml").write_text(GRID)
    assert shown(tmp_path) == HEAD + RULES + NOTHING


def test_a_row_has_means_and_spreads_over_seeds_and_its_difference(tmp_path: Path) -> None:
    write_grid(tmp_path)
    text = shown(tmp_path)
    # Dice 81.5 and 82.5: mean 82, sd sqrt(0.5); 1 and 2 minutes; a missed structure a seed.
    row = "| cps | 2 / 18 | 2 | 82.0 ± 0.7 | 70.0 ± 0.0 | 2.00 ± 0.00 | 1.00 ± 0.00 | 2 | 1.5 |"
    row += " 600 | 1.0x, 1.5x |"
    assert f"{row} +1.50 [+1.50, +1.50] |" in text
    assert "| upper bound | 20 / 0 | 2 | 90.5 ± 0.7 |" in text
    assert '- tracoco-ce: method `tracoco`, `method.semi_supervised="ce"`\n' in text
    assert "- upper bound: method `supervised`, every label\n" in text
    assert "2 cases, 7 steps; checkpoint `last`; distances in mm" in text


def test_pairs_say_which_row_is_higher_or_that_they_are_not_separated(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "balls-tracoco-2-labels-seed0", case_dice={"a": 70.0, "b": 90.0})
    change(tmp_path, "balls-tracoco-2-labels-seed1", case_dice={"a": 71.0, "b": 91.0})
    pairs = [line for line in shown(tmp_path).splitlines() if " − " in line]  # noqa: RUF001 - a minus
    # By case -5 and +5: a quarter of the draws has the first one twice and a quarter the second.
    assert "| tracoco − supervised | +0.00 | [-5.00, +5.00] | not separated | 0, 1 | 2 |" in pairs  # noqa: RUF001 - a minus
    assert "| cps − supervised | +1.50 | [+1.50, +1.50] | higher | 0, 1 | 2 |" in pairs  # noqa: RUF001 - a minus
    names = [line.split(" | ")[0][2:].replace(" − ", "/") for line in pairs]  # noqa: RUF001 - a minus
    assert names[:2] == ["tracoco/cps", "cps/supervised"]
    assert names[2:4] == ["tracoco/supervised", "tracoco/tracoco-ce"]
    assert names[4:] == ["tracoco-ce/cps", "tracoco-ce/supervised", "upper bound/supervised"]


def test_missing_seeds_are_said_and_only_common_ones_are_paired(tmp_path: Path) -> None:
    write_grid(tmp_path)
    (tmp_path / "results" / "balls" / "balls-cps-2-labels-seed1.json").unlink()
    text = shown(tmp_path)
    assert "| cps | 2 / 18 | 1 of 2 | 81.5 |" in text
    assert "| higher | 0 alone, so only cases are resampled; not in both: 1 | 2 |" in text


def test_a_failed_run_is_told_and_a_note_that_cannot_be_true_is_refused(tmp_path: Path) -> None:
    write_grid(tmp_path)
    (tmp_path / "results" / "balls" / "balls-cps-2-labels-seed1.json").unlink()
    notes = tmp_path / "failed.yaml"
    notes.write_text("balls: {balls-cps-2-labels-seed1: <diverged> at step 3}")
    assert "- cps, seed 1: &lt;diverged&gt; at step 3\n" in shown(tmp_path)
    notes.write_text("balls: {balls-cps-2-labels-seed9: diverged}")
    with pytest.raises(UserError, match="balls has no run balls-cps-2-labels-seed9"):
        shown(tmp_path)
    notes.write_text("balls: {balls-cps-2-labels-seed0: diverged}")
    with pytest.raises(UserError, match="balls-cps-2-labels-seed0 has a result"):
        shown(tmp_path)
    notes.write_text("bells: {}")
    with pytest.raises(UserError, match=r"no grid bells\.yaml"):
        shown(tmp_path)


def test_a_case_that_one_run_lacks_is_an_error(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "balls-cps-2-labels-seed1", case_dice={"a": 70.0})
    with pytest.raises(UserError, match=r"'cps' and 'supervised' cannot be paired: .*'b'"):
        shown(tmp_path)


def test_results_that_were_scored_otherwise_are_not_put_into_one_table(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "balls-cps-2-labels-seed1", units="voxel")
    with pytest.raises(UserError, match="balls have units mm and voxel"):
        shown(tmp_path)


@pytest.mark.parametrize("changes", [{"seed": 3}, {"steps": 8}, {"labelled": 3}, {"method": "cps"}])
def test_a_result_of_other_settings_than_the_grid_has_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    write_grid(tmp_path)
    change(tmp_path, "balls-tracoco-2-labels-seed1", **changes)
    with pytest.raises(UserError, match="not of the grid as it is now"):
        shown(tmp_path)


def test_a_result_cannot_be_left_out_by_taking_away_its_row_or_its_grid(tmp_path: Path) -> None:
    write_grid(tmp_path)
    (tmp_path / "balls.yaml").write_text(GRID.replace("  cps: {}\n", ""))
    with pytest.raises(UserError, match=r"2 problems:\n.*cps-2-labels-seed0\.json is of no run"):
        shown(tmp_path)
    (tmp_path / "balls.yaml").unlink()
    with pytest.raises(UserError, match=r"results.balls has no grid .*balls\.yaml"):
        shown(tmp_path)


def test_a_watermark_stands_over_the_figures_and_titles_cannot_break_tables(tmp_path: Path) -> None:
    write_grid(tmp_path)
    change(tmp_path, "balls-cps-2-labels-seed1", watermark="cropped by <label>")
    text = shown(tmp_path)
    assert "**cropped by &lt;label&gt;**\n\n| row |" in text
    assert "## Small \\| balls\n" in text


@pytest.mark.parametrize("about", ["balls", SUMMARY])
def test_notes_take_their_figures_from_the_results(tmp_path: Path, about: str) -> None:
    write_grid(tmp_path)
    grids = read_grids(tmp_path)
    assert "CPS has 82.0 ± 0.7." in page(grids, {about: "CPS has {balls/cps}."})
    with pytest.raises(UserError, match=r"asks for \{balls/csp\}, which has no result"):
        page(grids, {about: "CPS has {balls/csp}."})


def test_what_deleted_results_had_shown_ends_the_page(tmp_path: Path) -> None:
    assert page(read_grids(tmp_path), {EARLIER: "It was so."}).endswith("\nIt was so.")


def test_a_note_says_how_many_labels_where_a_grid_has_several_numbers(tmp_path: Path) -> None:
    write_grid(tmp_path, text=GRID.replace("[2]", "[2, 4]"))
    change(tmp_path, "balls-cps-4-labels-seed0", dice=60.0)
    change(tmp_path, "balls-cps-4-labels-seed1", dice=60.0)
    grids = read_grids(tmp_path)
    assert "82.0 ± 0.7, 60.0 ± 0.0." in page(grids, {SUMMARY: "{balls/cps/2}, {balls/cps/4}."})
    with pytest.raises(UserError, match=r"asks for \{balls/cps\}"):
        page(grids, {SUMMARY: "{balls/cps}"})


def test_every_note_is_shown_on_the_page() -> None:
    names = {grid.name for grid in read_grids(ROOT)}
    assert set(read_notes(ROOT)) <= {EARLIER, SUMMARY, *names}


def test_the_picture_has_a_dot_a_seed_and_a_line_a_row(tmp_path: Path) -> None:
    write_grid(tmp_path)
    root = ET.fromstring(picture(read_grids(tmp_path)))  # noqa: S314 - our own
    dots = root.findall("{*}circle")
    assert len(dots) == 10
    # The scale goes from 79, below 80, to 93, above 91: 440 pixels from 250 on.
    assert float(dots[0].attrib["cx"]) == pytest.approx(250 + 440 / 14, abs=0.05)
    assert len([each for each in root.findall("{*}path") if "stroke-width" in each.attrib]) == 5
