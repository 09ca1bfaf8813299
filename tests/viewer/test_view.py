"""What a run, a project and predictions show, what is refused, and the page as text."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from samples import make_project
from typer.testing import CliRunner

import tracoco as tc
from tracoco.cli import app

if TYPE_CHECKING:
    from viewer.conftest import Folder

SETTINGS = {"training.steps": 1, "data.crop": [16, 16, 16], "network.filters": 4, "data.workers": 0}


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def volumes_of(page: str) -> dict[str, bytes]:
    found = re.findall(r'data-volume="([^"]*)">([^<]*)</script>', page)
    return {name: gzip.decompress(base64.b64decode(text)) for name, text in found}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tc.Run:
    """A run of one step in a project with every part."""
    project = make_project(tmp_path_factory.mktemp("view"), labelled=5, unlabelled=2, test=1)
    return tc.train(project, settings=SETTINGS, progress=False)


def test_predictions_are_shown_with_truth_scores_and_maps(filled: "Folder") -> None:
    shown = tc.view(filled.predictions, progress=False)
    cases = {case.id: case for case in shown.content.cases}
    assert list(cases) == ["right", "shifted", "unlabelled"]
    assert cases["right"].truth == filled.root / "labels" / "right.nii.gz"
    assert cases["unlabelled"].truth is None
    assert set(cases["unlabelled"].maps) == {"disagreement", "entropy"}
    page = shown.page()
    rows = {row["case"]: row for row in data_of(page)["cases"]}
    assert rows["right"]["dice"] == 100.0
    assert rows["shifted"]["dice"] == pytest.approx(200 / 3)
    assert rows["unlabelled"]["dice"] is None
    assert set(rows["unlabelled"]["volumes"]["volumes"]) == {
        "image0", "prediction", "disagreement", "entropy",
    }  # fmt: skip
    assert len(volumes_of(page)["0/truth"]) == 7 * 6 * 5


def test_a_run_shows_all_parts_and_says_which_predictions_are_missing(run: tc.Run) -> None:
    project = run.folder.parents[1]
    with pytest.raises(tc.UserError, match=r"no predictions yet; make them with `tracoco predict"):
        tc.view(run)
    waiting = tc.view(project, progress=False).content
    assert {case.part for case in waiting.cases} == {"labelled", "unlabelled", "validation", "test"}
    assert "No run of this project has predictions yet" in waiting.notes[0]
    out = run.folder / "predictions" / "test"
    run.predict(project, out, maps=["entropy"], uncertainty=True, progress=False)
    tc.evaluate(out, project)
    content = tc.view(run, progress=False).content
    assert len(content.cases) == len(tc.Project(project).load_cases())
    assert [case.part for case in content.cases[:2]] == ["test", "validation"]
    (predicted,) = (case for case in content.cases if case.prediction)
    assert predicted.part == "test"
    assert predicted.scores is not None
    assert set(predicted.maps) == {"entropy"}
    assert predicted.uncertainty is not None
    (row,) = data_of(tc.view(run, part="test", progress=False).page())["cases"]
    assert row["entropy"] == predicted.uncertainty.entropy
    assert all((case.truth is None) == (case.part == "unlabelled") for case in content.cases)
    (validation, unlabelled) = content.notes
    assert validation.startswith("1 validation case without a prediction")
    command = f"tracoco predict {run.folder} {project} {run.folder}/predictions/unlabelled"
    assert f"{command} --part unlabelled --save label,disagreement,entropy" in unlabelled
    both = tc.view(tc.Project(project), progress=False).content
    assert [case.source for case in both.cases if case.prediction] == ["tracoco-seed0/test"]
    assert tc.view(run, part="unlabelled").content.cases[0].part == "unlabelled"
    assert run.view(case=[predicted.id]).content.cases == (predicted,)


def test_labels_of_unlabelled_cases_stay_unread(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=4, unlabelled=0, validation=1)
    splits = json.loads(project.splits_file.read_text())
    moved = splits["labelled"].pop()
    splits["unlabelled"], splits["hidden"] = [moved], [moved]
    project.splits_file.write_text(json.dumps(splits))
    cases = {case.id: case for case in tc.view(project).content.cases}
    assert cases[moved].truth is None
    assert sum(case.truth is not None for case in cases.values()) == 3


def test_what_cannot_be_shown_is_refused(filled: "Folder", tmp_path: Path) -> None:
    for source, options, message in (
        (tmp_path / "none", {}, "does not exist"),
        (tmp_path / "images", {}, "is no run .*no project .*no folder of predictions"),
        (filled.predictions, {"case": ["rigth"]}, "did you mean 'right'"),
        (filled.predictions, {"part": "test"}, "has no test cases to show"),
        (filled.predictions, {"part": "tset"}, "did you mean 'test'"),
        (filled.predictions, {"limit_mb": 0}, "leaves room for nothing"),
        (filled.predictions, {"limit_mb": 1e-5, "out": tmp_path / "a.html"}, "raise --limit-mb"),
        (filled.predictions, {"out": tmp_path}, r"end it with \.html"),
        (filled.predictions, {"out": "a.html", "port": 0}, "leave out either"),
    ):
        with pytest.raises(tc.UserError, match=message):
            tc.view(source, progress=False, **options)
    assert not (tmp_path / "a.html").exists()


def test_names_are_escaped(folder: "Folder") -> None:
    evil = "</script><script>alert(1)</script>"
    folder.labels = {"1": evil}
    image = np.zeros((4, 4, 4), np.float32)
    folder.add("a&b", image, image)
    file = json.loads((folder.predictions / "predictions.json").read_text())
    file["rows"][0]["case"] = evil
    file["watermark"] = evil
    (folder.predictions / "predictions.json").write_text(json.dumps(file))
    shown = tc.view(folder.predictions, progress=False)
    page = shown.page()
    assert "<script>alert" not in page
    assert data_of(page)["cases"][0]["case"] == evil
    assert evil in data_of(page)["notes"]
    frame = shown._repr_html_()
    assert frame.startswith('<iframe title="Viewer of predictions" sandbox="allow-scripts"')
    assert frame.count("<") == 2  # the frame alone: the page in it is one escaped attribute


def test_the_page_may_load_nothing(filled: "Folder") -> None:
    page = tc.view(filled.predictions, progress=False).page()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src &#39;none&#39;" in policy[1]
    assert "connect-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]
    assert "http://" not in page
    assert "https://" not in page
    assert "style=" not in page  # the policy would refuse it


def test_a_small_file_has_lower_resolution_or_fewer_cases_and_says_so(folder: "Folder") -> None:
    noise = np.random.default_rng(0).normal(size=(32, 32, 32)).astype(np.float32)
    for case in ("a", "b"):
        folder.add(case, noise, noise > 3)
    whole = tc.view(folder.predictions, progress=False)
    size = sum(len(text) for text in volume_texts(whole.page()))
    data = data_of(whole.page())
    assert data["notes"] == []
    reduced = tc.view(folder.predictions, limit_mb=size / 4e6, progress=False).page()
    assert sum(len(text) for text in volume_texts(reduced)) <= size / 4
    assert [row["volumes"]["factor"] for row in data_of(reduced)["cases"]] == [[2, 2, 1]] * 2
    assert "2 cases are shown at lower resolution, by the limit" in data_of(reduced)["notes"][0]
    assert len(volumes_of(reduced)["0/prediction"]) == 16 * 16 * 32
    folder.add("c", np.zeros((4, 4, 4), np.float32), np.zeros((4, 4, 4)))
    tiny = data_of(tc.view(folder.predictions, limit_mb=0.001, progress=False).page())
    assert [row["case"] for row in tiny["cases"]] == ["c"]
    assert "2 cases are left out by the limit of 0.001 MB (--limit-mb): a, b" in tiny["notes"]


def volume_texts(page: str) -> list[str]:
    return re.findall(r'data-volume="[^"]*">([^<]*)</script>', page)


def test_a_scan_that_is_gone_is_named_and_the_others_are_shown(filled: "Folder") -> None:
    (filled.root / "images" / "right.nii.gz").unlink()
    data = data_of(tc.view(filled.predictions, progress=False).page())
    assert [row["case"] for row in data["cases"]] == ["shifted", "unlabelled"]
    assert re.search(r"right: .*right\.nii\.gz does not exist", data["notes"][0])


def test_predictions_that_were_moved_are_found(filled: "Folder") -> None:
    moved = filled.predictions.rename(filled.root / "moved")
    cases = tc.view(moved).content.cases
    assert {case.prediction.parent for case in cases if case.prediction} == {moved}
    assert cases[2].maps["entropy"].parent == moved


def test_the_command_writes_a_file(filled: "Folder", tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["view", str(filled.predictions), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert f"{out} (" in result.output
    assert len(data_of(out.read_text(encoding="utf-8"))["cases"]) == 3
