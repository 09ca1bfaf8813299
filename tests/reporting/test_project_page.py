"""The report of a project: its figures, its files, and how a reader uses it."""

import csv
import json
import os
import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from browser import CHROMIUM, Browser, browser
from samples import make_project

import tracoco as tc
from tracoco.evaluation.bootstrap import paired_interval
from tracoco.files import write_json
from tracoco.labelling.rounds import Round, rounds_file, write_round
from tracoco.project.folder import Project
from tracoco.project.plan import write_plan
from tracoco.reporting.project_page import write_project_report
from tracoco.reporting.project_record import ProjectRecord

SETTINGS = {"training.steps": 2, "data.crop": [16, 16, 16], "network.filters": 4, "data.workers": 0}
AXE = os.environ.get("TRACOCO_AXE", "")
"""The file axe.min.js of the npm package axe-core."""
DICE = {
    "supervised-seed0": {"case000": 50.0, "case001": 70.0},
    "supervised-seed1": {"case000": 10.0, "case001": 10.0},
    "tracoco-seed0": {"case000": 60.0, "case001": 90.0},
}


def with_scores(project: Project, run: Path, dice: dict[str, float]) -> None:
    """Predict the test cases, and give them scores that are easy to compare."""
    out = run / "predictions" / "test"
    tc.predict(run, project, out, progress=False)
    tc.evaluate(out, project)
    scores = json.loads((out / "scores.json").read_text(encoding="utf-8"))
    for row, case in zip(scores["rows"], sorted(dice), strict=True):
        row.update({"dice": dice[case], "missed": False})
    write_json(out / "scores.json", scores)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Three runs, scored on two test cases, one without scores, and two rounds."""
    root = tmp_path_factory.mktemp("reported")
    project = make_project(root, labelled=4, unlabelled=3, validation=0, test=2)
    for name, dice in DICE.items():
        method, _, seed = name.partition("-seed")
        run = tc.train(
            project, method=method, seed=int(seed), settings=SETTINGS, progress=False
        ).folder
        with_scores(project, run, dice)
    tc.train(project, settings=SETTINGS, out=project.runs_root / "waiting", progress=False)
    tc.next_scans(project, project.runs_root / "waiting", count=1, progress=False)
    first = project.load_splits().unlabelled[0]
    before, after = {"a": 50.0, "b": 60.0}, {"a": 55.0, "b": 75.0}
    write_round(
        project,
        Round(1, (first,), (), 3, "tracoco-round1", "tracoco-seed0", "validation", before, after),
    )
    write_round(project, Round(2, ("<b>bold</b>",), ("case001",), 4))
    plan = project.load_plan()  # the structure gets its name after the trainings
    names = plan.model_copy(update={"class_names": ("background", "left <atrium>")})
    write_plan(project.plan_file, names)
    return project


def table(project: Project, name: str) -> list[dict[str, str]]:
    path = project.root / "report" / f"{name}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def page(project: Project) -> str:
    path = tc.report(project)
    assert path == project.root / "report" / "index.html"
    return path.read_text(encoding="utf-8")


def test_runs_have_intervals_beside_the_supervised_run_of_their_seed(
    project: Project, page: str
) -> None:
    rows = {row["run"]: row for row in table(project, "runs")}
    assert set(rows) == {*DICE, "waiting"}
    ours = rows["tracoco-seed0"]
    assert float(ours["dice"]) == 75
    assert (float(ours["dice_low"]), float(ours["dice_high"])) == (60, 90)  # of two cases
    assert ours["baseline"] == "supervised-seed0"
    assert float(ours["difference"]) == fmean([10, 20])
    expected = paired_interval(np.array([[10.0, 20.0]]))
    assert float(ours["difference_low"]) == expected.low
    assert rows["supervised-seed0"]["baseline"] == ""
    assert rows["waiting"]["note"] == "not evaluated"
    assert "75.0 [60.0, 90.0]" in page
    assert "+15.0 [+10.0, +20.0]" in page


def test_every_case_is_listed_with_what_is_known_of_it(project: Project, page: str) -> None:
    rows = {row["case"]: row for row in table(project, "cases")}
    splits = project.load_splits()
    assert tuple(rows) == splits.ids
    assert rows[splits.test[0]]["dice tracoco-seed0, test"] == "60.0"
    assert rows[splits.test[0]]["part"] == "test"
    unlabelled = [rows[case] for case in splits.unlabelled]
    assert all(0 <= float(row["disagreement"]) <= 1 for row in unlabelled)
    assert all(row["dice tracoco-seed0, test"] == "" for row in unlabelled)
    assert rows[splits.unlabelled[0]]["round"] == "1"
    assert "Disagreement and entropy are those of waiting" in page


def test_rounds_show_what_they_changed(project: Project, page: str) -> None:
    first, second = table(project, "rounds")
    assert (float(first["before"]), float(first["after"]), float(first["change"])) == (55, 65, 10)
    assert (first["change_low"], first["change_high"]) == ("5.0", "15.0")
    assert (second["run"], second["change"]) == ("", "")
    assert "not trained yet" in page


def test_structures_have_the_names_that_they_have_now(project: Project, page: str) -> None:
    assert {row["structure"] for row in table(project, "structures")} == {"left <atrium>"}
    assert "left &lt;atrium&gt;" in page
    assert "label 1" not in page
    run = tc.report(project.runs_root / "tracoco-seed0").read_text(encoding="utf-8")
    assert "left &lt;atrium&gt;" in run
    assert "label 1" not in re.sub(r"class_names.*", "", run)


def test_text_of_users_is_escaped_and_nothing_is_loaded(page: str) -> None:
    assert "<b>bold" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert page.count("<script") == 1


def test_a_project_without_runs_has_a_page(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=2, unlabelled=1, validation=0)
    page = write_project_report(project).read_text(encoding="utf-8")
    assert page.count("Nothing to show yet.") == 3  # runs, structures and rounds
    assert len(ProjectRecord.read(project).cases) == 3
    with pytest.raises(tc.UserError, match="--scores is for the report of a run"):
        tc.report(project, ["scores.json"])
    assert not rounds_file(project).exists()


def order(page: Browser, column: int) -> list[str]:
    """The cells of a column of the first table, from top to bottom."""
    rows = "[...document.querySelectorAll('#runs tbody tr')]"
    found: list[str] = page.run(f"{rows}.map(row => row.cells[{column}].innerText)")
    return found


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_tables_are_sorted_by_mouse_and_keyboard(project: Project, page: str) -> None:
    assert page
    with browser() as reader:
        reader.open((project.root / "report" / "index.html").as_uri(), height=1400)
        names = order(reader, 0)
        assert names == sorted(names)
        reader.click("#runs thead th:nth-child(9) button")  # Dice
        assert [cell.partition(" ")[0] for cell in order(reader, 8)][:3] == ["10.0", "60.0", "75.0"]
        assert reader.run("document.querySelectorAll('#runs th')[8].ariaSort") == "ascending"
        reader.click("#runs thead th:nth-child(9) button")
        assert [cell.partition(" ")[0] for cell in order(reader, 8)][:3] == ["75.0", "60.0", "10.0"]
        reader.run("document.querySelector('#runs thead button').focus()")
        enter = {"key": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        reader.call("Input.dispatchKeyEvent", type="keyDown", **enter)
        assert order(reader, 0) == names
        reader.key("Tab")  # the next heading is reached without a mouse
        assert reader.run("document.activeElement.innerText").startswith("method")
        assert not reader.complaints
        assert all(address.startswith("file:") for address in reader.requests)


@pytest.mark.slow
@pytest.mark.skipif(not (CHROMIUM and AXE), reason="needs Chromium and TRACOCO_AXE=axe.min.js")
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(project: Project, page: str, dark: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter of the test
    assert page
    run = tc.report(project.runs_root / "tracoco-seed0")
    axe = Path(AXE).read_text(encoding="utf-8")
    with browser() as reader:
        for path in (project.root / "report" / "index.html", run):
            reader.open(path.as_uri(), width=1000, height=1600, dark=dark)
            reader.run(f"{axe};0")
            found = reader.run(
                "axe.run().then(r => r.violations.filter(v => ['serious', 'critical']"
                ".includes(v.impact)).map(v => [v.id, v.help, v.nodes.map(n => n.html)]))"
            )
            pictures = Path(os.environ.get("TRACOCO_SCREENSHOTS", tmp_path))
            reader.screenshot(pictures / f"{path.stem}-{'dark' if dark else 'light'}.png")
            assert found == [], path
