"""The paper's tables: every row can be asked for, and ours stand beside the published figures."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from samples import make_project

from tracoco.cli import main
from tracoco.errors import UserError
from tracoco.methods import METHODS
from tracoco.project.folder import Project
from tracoco.project.splits import Splits
from tracoco.studies.benchmark.grid import RunSpec
from tracoco.studies.benchmark.runner import Runner
from tracoco.studies.paper.case_lists import case_list
from tracoco.studies.paper.contents import Shown, list_paper, paper_content
from tracoco.studies.paper.fill import fill
from tracoco.studies.paper.request import PaperRequest, is_the_papers, parse_projects
from tracoco.studies.paper.result_tables import filled_json, filled_tables
from tracoco.studies.paper.table_rows import MULTISCALE, SETTINGS, TABLES, PaperRow, table_rows

SMALL = (
    "network.filters=4",
    "data.crop=[16, 16, 8]",
    "data.workers=0",
    "training.steps=2",
    "training.validate_every=1",
)
ROWS = [row for table in TABLES for row in table_rows(table)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("paper"), labelled=6, unlabelled=2, test=2)


def request(project: Project, **changes: object) -> PaperRequest:
    settings = {"preset": "demo", "changes": SMALL, "labelled": 2, "device": "cpu"} | changes
    return PaperRequest({"": project.root}, **settings)  # type: ignore[arg-type]  # a stand-in


def test_the_paper_has_ten_tables_of_results_and_every_row_has_one_preset() -> None:
    assert len(TABLES) == 10
    assert {table for table, _ in SETTINGS} <= set(TABLES)
    known = {row.key for row in ROWS}
    assert set(SETTINGS) <= known


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.key}-{row.published.labelled}")
def test_the_settings_of_every_row_are_sound(row: PaperRow) -> None:
    assert row.missing == ""
    assert row.published.method in METHODS
    config = PaperRequest({}).spec(row.preset, row.changes).config(0)
    assert config.method.name == row.published.method or row.key[0] == "component-ablation"
    assert config.data.labelled == row.published.labelled * (2 if row.data == "acdc" else 1)


def test_ablations_change_what_their_rows_say() -> None:
    def settings(table: str, name: str) -> dict[str, object]:
        row = next(each for each in table_rows(table) if each.published.row == name)
        config = PaperRequest({}).spec(row.preset, row.changes).config(0)
        return config.method.settings | {"translated": config.data.overlap}

    baseline = settings("component-ablation", "CPS + CutMix")
    assert (baseline["semi_supervised"], baseline["translation"]) == ("ce", False)
    middle = settings("component-ablation", "TraCo")
    assert (middle["semi_supervised"], middle["translation"]) == ("ce", True)
    full = settings("component-ablation", "TraCo + CRC")
    assert (full["semi_supervised"], full["translation"]) == ("crc", True)
    assert {key: baseline[key] for key in ("rampup_epochs", "noise")} == {
        key: full[key] for key in ("rampup_epochs", "noise")
    }
    losses = {"MSE": "mse", "KL": "kl", "CE": "ce", "CRC": "crc"}
    for name, loss in losses.items():
        assert settings("loss-ablation", name)["semi_supervised"] == loss
    overlaps = {"quarter": "quarter", "half": "half", "full": "full", "random": "random"}
    for name, translation in overlaps.items():
        assert settings("overlap", name)["translated"] == translation


def test_component_ablation_runs_and_its_last_row_is_shared_with_the_loss_ablation(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = fill(table_rows("component-ablation"), request(project, seeds=2))
    # Both data sets are the same stand-in, so the rows of Pancreas share the runs of LA.
    assert [len(row.results) for row in filled] == [2] * 6
    assert len({result.dice for row in filled for result in row.results}) > 1
    assert len(list((project.root / "paper").iterdir())) == 3 * 2
    assert all(row.stand_in == "project" for row in filled)

    values = filled_json("component-ablation", "title", filled, [])["rows"][2]
    assert values["dice"] == 90.94
    assert values["seeds"] == 2
    assert values["our_dice"] == pytest.approx(sum(r.dice or 0 for r in filled[2].results) / 2)
    assert values["dice_difference"] == pytest.approx(values["our_dice"] - 90.94)
    assert (values["our_labelled"], values["our_steps"], len(values["runs"])) == (2, 2, 2)
    assert any("not of the paper's data" in note for note in values["notes"])

    before = sorted(path.name for path in (project.root / "paper").iterdir())
    trained, original = [], Runner.trained

    def counted(self: Runner, spec: RunSpec, seed: int) -> Path:
        trained.append(spec)
        return original(self, spec, seed)

    monkeypatch.setattr(Runner, "trained", counted)
    fill(table_rows("loss-ablation"), request(project, seeds=2))
    after = sorted(path.name for path in (project.root / "paper").iterdir())
    # CE and CRC were there: only MSE and KL are new, for two seeds.
    assert len(set(after) - set(before)) == 4
    assert len(trained) == 4


def test_best_rows_need_validation_cases_or_the_explicit_flag(tmp_path: Path) -> None:
    small = make_project(tmp_path, labelled=4, unlabelled=2, validation=0, test=1)
    rows = [row for row in table_rows("cct") if row.published.best][:1]
    (refused,) = fill(rows, request(small))
    assert "--best-on-test" in refused.reason
    assert not refused.results
    (shown,) = fill(rows, request(small, best_on_test=True))
    assert [result.checkpoint for result in shown.results] == ["best"]
    assert "test cases" in shown.results[0].watermark
    notes = filled_json("cct", "", [shown], [])["rows"][0]["notes"]
    assert shown.results[0].watermark in notes


def test_a_slice_network_needs_a_project_of_slices(project: Project) -> None:
    rows = [row for row in table_rows("backbones") if row.published.row == "TransUNet*"]
    (refused,) = fill(rows, request(project))
    assert "--dimensions 2" in refused.reason


def test_the_papers_own_cases_are_recognised_only_in_the_lists_order(project: Project) -> None:
    assert not is_the_papers(project, "la")
    train, test = tuple(case_list("pancreas", "train")), tuple(case_list("pancreas", "test"))
    own = _Listed(Splits(train, (), (), test))
    assert is_the_papers(own, "pancreas")  # type: ignore[arg-type]  # a stand-in
    assert not is_the_papers(own, "la")  # type: ignore[arg-type]  # a stand-in
    for labelled, kept in ((sorted(train), test), (train[1:], test), (train, test[1:])):
        other = _Listed(Splits(tuple(labelled), (), (), tuple(kept)))
        assert not is_the_papers(other, "pancreas")  # type: ignore[arg-type]  # a stand-in


class _Listed:
    def __init__(self, splits: Splits) -> None:
        self._splits = splits

    def load_splits(self) -> Splits:
        return self._splits


def test_projects_are_named_by_data_set_or_stand_in_for_all(project: Project) -> None:
    root = str(project.root)
    assert parse_projects([f"la={root}", root]) == {"la": project.root, "": project.root}
    for wrong, message in (
        ([f"lla={root}"], "none of la"),
        ([root, root], "twice"),
        (["la=nowhere"], "no project"),
    ):
        with pytest.raises(UserError, match=message):
            parse_projects(wrong)


def test_a_table_without_a_project_shows_what_was_published(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["tracoco", "paper", "cac-comparison"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    shown = capsys.readouterr().out
    assert "88.28" in shown
    assert "tracoco paper cac-comparison --project la=FOLDER --project brats19=FOLDER" in shown


def test_json_is_one_object_of_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["tracoco", "paper", "overlap", "--json"])
    with pytest.raises(SystemExit):
        main()
    values = json.loads(capsys.readouterr().out)
    assert [row["row"] for row in values["rows"]] == ["quarter", "half", "full", "random"]
    assert values["rows"][3]["dice"] == 85.71
    assert values["rows"][3]["our_dice"] is None


def test_a_name_that_does_not_exist_gets_the_nearest_one() -> None:
    with pytest.raises(UserError, match="did you mean 'loss-ablation'"):
        paper_content("los-ablation", PaperRequest({}))
    with pytest.raises(UserError, match="no row 'CRCC'; did you mean 'CRC'"):
        paper_content("loss-ablation", PaperRequest({}), rows=("CRCC",))


def test_contents_name_tables_and_figures_once() -> None:
    names = [entry.name for entry in list_paper()]
    assert len(names) == len(set(names)) == 19


def test_rows_of_methods_that_are_not_here_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: row for name, row in METHODS.items() if name != "urpc"}
    monkeypatch.setattr("tracoco.studies.paper.table_rows.METHODS", kept)
    shown = paper_content("pancreas", PaperRequest({}), rows=("URPC", "UA-MT"))
    rows = {row["row"]: row for row in shown.values["rows"]}
    assert rows["URPC"]["notes"] == ["this version does not have the method"]
    assert (rows["URPC"]["our_parameters_m"], rows["URPC"]["dice"]) == (None, 80.02)
    assert rows["UA-MT"]["notes"] == []
    assert "[1] this version does not have the method" in printed(shown, 100)


def printed(shown: Shown, width: int) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(shown.table)
    return console.export_text()


@pytest.mark.parametrize("labelled", [6, 12])
def test_the_two_rows_of_mc_net_plus_are_two_runs_told_apart_by_their_scales(labelled: int) -> None:
    rows = [row for row in table_rows("pancreas") if row.published.method == "mc-net-plus"]
    single, multi = (row for row in rows if row.published.labelled == labelled)
    assert (single.published.dice, multi.published.dice) in ((70.0, 74.01), (79.37, 80.59))
    assert (single.scales, multi.scales) == ("single", "multi")
    specs = [PaperRequest({}).spec(row.preset, row.changes) for row in (single, multi)]
    assert [spec.config(0).method.settings["scales"] for spec in specs] == [1, "all"]
    assert specs[0].folder(Path(), 0) != specs[1].folder(Path(), 0)


def test_urpc_runs_in_every_table_as_it_is() -> None:
    rows = [row for row in ROWS if row.published.method == "urpc"]
    assert {row.key[0] for row in rows} == {"la", "pancreas", "brats19", "acdc"}
    assert {row.changes for row in rows} == {("method.name=urpc",)}
    assert {row.scales for row in rows if row.key[0] == "pancreas"} == {"multi"}


def test_every_row_that_learns_at_several_scales_says_how() -> None:
    marked = {row.published.method for row in ROWS if row.published.multiscale}
    assert marked == set(MULTISCALE)
    assert {row.key[0] for row in ROWS if row.published.multiscale} == {"pancreas"}


def test_only_the_table_of_the_pancreas_has_a_column_of_scales() -> None:
    shown = paper_content("pancreas", PaperRequest({}), rows=("MC-Net+", "URPC"))
    lines = [line.split() for line in printed(shown, 100).splitlines()]
    assert ["MC-Net+", "single", "70.00"] in [line[:3] for line in lines]
    assert ["MC-Net+", "[1]", "multi", "74.01"] in [line[:4] for line in lines]
    assert [row["scales"] for row in shown.values["rows"]][:3] == ["multi", "single", "multi"]
    other = paper_content("la", PaperRequest({}), rows=("URPC",))
    assert "scales" not in printed(other, 100)
    assert other.values["rows"][0]["scales"] is None


def test_the_multi_scale_row_is_trained_on_any_network(project: Project) -> None:
    rows = [row for row in table_rows("pancreas") if row.published.row == "MC-Net+"][:2]
    single, multi = fill(rows, request(project))
    assert single.results[0].method == multi.results[0].method == "mc-net-plus"
    assert single.folders != multi.folders
    changed = request(project, changes=(*SMALL, "method.scales=2"))
    with pytest.raises(UserError, match=r"row 'MC-Net\+': --set method\.scales would make it"):
        fill(rows[1:], changed)


def test_what_would_make_a_row_another_one_is_refused_before_any_training(
    project: Project,
) -> None:
    rows = table_rows("loss-ablation")
    changed = request(project, changes=(*SMALL, "method.semi_supervised=ce"))
    with pytest.raises(UserError, match=r"row 'MSE': --set method\.semi_supervised would make it"):
        fill(rows, changed)
    with pytest.raises(UserError, match=r"row 'CAC': method cac: 'cutmix' is not a setting"):
        fill(
            table_rows("cac-comparison"),
            request(project, changes=(*SMALL, "method.cutmix=false"), seeds=1),
        )
    with pytest.raises(UserError, match=r"data\.labelled is 50"):
        fill(rows, request(project, labelled=50))


def test_a_project_that_is_called_like_a_data_set_is_still_a_stand_in(tmp_path: Path) -> None:
    named = make_project(tmp_path, labelled=4, unlabelled=2, test=1)
    named.root.rename(tmp_path / "la")
    own = PaperRequest({"la": tmp_path / "la"}, "demo", SMALL, 2, device="cpu")
    rows = [row for row in table_rows("component-ablation") if row.data == "la"][:1]
    (filled,) = fill(rows, own)
    assert filled.stand_in == "la"


def test_every_number_is_whole_at_eighty_columns(project: Project) -> None:
    filled = fill(table_rows("component-ablation"), request(project, seeds=2))
    wild = [
        replace(result, dice=88.88 + index, asd=123.45 * (index + 1), hd95=234.56)
        for index, result in enumerate(filled[0].results)
    ]
    rows = [replace(filled[0], results=tuple(wild)), *filled[1:]]
    console = Console(width=80, record=True, file=StringIO())
    console.print(filled_tables("title", rows, ["a note"]))
    text = console.export_text()
    assert "…" not in text
    for figure in ("89.38", "0.71", "-0.29", "185.18", "87.29", "234.56", "difference", "spread"):
        assert figure in text, figure
    assert "[1] a note" in text


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("la", {"out": Path("x.png")}, "--out is for figures"),
        ("complexity", {"rows": ("la",)}, "--row chooses rows"),
    ],
)
def test_options_without_effect_are_refused(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        paper_content(name, PaperRequest({}), **options)


def test_an_analysis_needs_no_project(project: Project) -> None:
    with pytest.raises(UserError, match="needs no project"):
        paper_content("gradient-analysis", PaperRequest({"": project.root}))
