"""Labelled cases dealt for cross-validation, and the split that a run of one fold sees."""

import json
from pathlib import Path
from typing import Any

import pytest
from samples import write_ball, write_balls
from typer.testing import CliRunner

import tracoco as tc
from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.files import read_json, write_json
from tracoco.project.cases import Case
from tracoco.project.fingerprint import Fingerprint, read_fingerprint
from tracoco.project.folder import Project
from tracoco.project.folds import Folding, deal, fold_splits, with_folds
from tracoco.project.splits import Splits, read_splits, write_splits

UNITS = [(f"c{index:02d}",) for index in range(20)]
VOLUMES = {unit[0]: float(index) for index, unit in enumerate(UNITS)}
NOTHING_READ = Fingerprint((), ())


def cases(*labelled: str, unlabelled: tuple[str, ...] = (), **groups: str) -> list[Case]:
    known = [(id_, Path(f"{id_}-label")) for id_ in labelled] + [(id_, None) for id_ in unlabelled]
    return [Case(id_, (Path(id_),), label, groups.get(id_)) for id_, label in known]


def initialised(root: Path, **options: Any) -> Project:
    data = write_balls(root / "data", labelled=6, unlabelled=1)
    found = tc.init(data, root / "project", progress=False, **options)
    assert found.project
    return found.project


def test_a_deal_hangs_on_the_seed_and_gives_folds_of_one_size() -> None:
    folds = deal(UNITS, Folding(3), VOLUMES)
    assert sorted(map(len, folds)) == [6, 7, 7]
    assert sorted(id_ for fold in folds for id_ in fold) == sorted(VOLUMES)
    assert folds == deal(UNITS[::-1], Folding(3), VOLUMES)
    assert folds != deal(UNITS, Folding(3, seed=1), VOLUMES)


def test_stratified_folds_have_one_case_of_each_stretch_of_volumes() -> None:
    for seed in range(5):
        folds = deal(UNITS, Folding(4, stratify=True, seed=seed), VOLUMES)
        for fold in folds:
            assert sorted(int(VOLUMES[id_]) // 4 for id_ in fold) == [0, 1, 2, 3, 4]
    mixed = deal(UNITS, Folding(4), VOLUMES)
    assert any(len({int(VOLUMES[id_]) // 4 for id_ in fold}) < 5 for fold in mixed)


def test_groups_and_copies_stay_together() -> None:
    known = cases(*"abcdefgh", a="x", b="x", c="x")
    splits = Splits(tuple("abcdefgh"), (), (), ())
    for seed in range(5):
        copies = Fingerprint((), (), copies=(("d", "e"),))
        folds = with_folds(splits, known, copies, Folding(2, seed=seed)).folds
        assert sorted(map(len, folds)) == [4, 4]
        for together in ("abc", "de"):
            assert any(set(together) <= set(fold) for fold in folds)


def test_new_cases_go_to_their_patient_or_to_the_smallest_fold() -> None:
    splits = Splits(tuple("abcdef"), (), (), (), folds=(("a", "b"), ("c",)))
    known = cases(*"abcdef", a="x", d="x")
    grown = with_folds(splits, known, NOTHING_READ, None).folds
    assert grown[0][:2] == ("a", "b")
    assert grown == (("a", "b", "d"), ("c", "e", "f"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "--folds 1 leaves nothing to learn from"),
        ({"folds": 7}, "--folds 7 is more than the 6 groups of the 6 labelled cases"),
        ({"folds": 3, "group_pattern": r"(case00)"}, "--folds 3 is more than the 1 group "),
        ({"stratify": True}, "--stratify says how folds are dealt; add --folds N"),
    ],
)
def test_folds_that_cannot_be_dealt_are_refused(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        initialised(tmp_path, **options)
    assert not (tmp_path / "project").exists()


def test_folds_are_of_labelled_cases_alone_and_are_kept_in_the_split(tmp_path: Path) -> None:
    project = initialised(tmp_path, folds=2, stratify=True, test=1, validation=1)
    splits = project.load_splits()
    assert sorted(id_ for fold in splits.folds for id_ in fold) == sorted(splits.labelled)
    assert len(splits.labelled) == 4
    note = "2 folds of 2, 2 cases, balanced by the volume of their structures"
    assert note in project.load_origin().notes
    volumes = [case.structures_ml for case in read_fingerprint(project.fingerprint_file).cases]
    assert volumes[-1] is None  # of a scan without a label
    assert all(volume == pytest.approx(1.81, rel=0.1) for volume in volumes[:-1])


def test_a_project_without_folds_gets_them_once(tmp_path: Path) -> None:
    project = initialised(tmp_path)
    assert project.load_splits().folds == ()
    assert "folds" not in read_json(project.splits_file)
    found = tc.init(tmp_path / "data", project.root, update=True, folds=3, progress=False)
    dealt = project.load_splits().folds
    assert list(map(len, dealt)) == [2, 2, 2]
    assert found.proposal.splits.folds == dealt
    with pytest.raises(UserError, match="has 3 folds already"):
        tc.init(tmp_path / "data", project.root, update=True, folds=3, progress=False)
    write_ball(tmp_path / "data", "new", 50, labelled=True)
    tc.init(tmp_path / "data", project.root, update=True, progress=False)
    assert project.load_splits().folds == ((*dealt[0], "new"), *dealt[1:])


def test_a_label_that_is_taken_later_goes_to_a_fold(tmp_path: Path) -> None:
    project = initialised(tmp_path, folds=4)
    before = project.load_splits().folds
    write_ball(tmp_path / "drawn", "case006", 6, labelled=True)
    tc.update(project, labels=tmp_path / "drawn" / "labels", progress=False)
    assert list(map(len, before)) == [2, 2, 1, 1]
    assert project.load_splits().folds == (*before[:2], (*before[2], "case006"), before[3])


def test_init_tells_the_fold_of_each_case(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=2, unlabelled=1)
    words = ["init", str(data), "-o", str(tmp_path / "project"), "--folds", "2"]
    dry = CliRunner().invoke(app, [*words, "--dry-run"])
    assert "2 folds are dealt once the scans are read" in dry.stdout
    told = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    folds = {row["id"]: row.get("fold") for row in told["cases"]}
    assert sorted([folds["case000"], folds["case001"]]) == [1, 2]
    assert folds["case002"] is None


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        ([["a"]], "one fold is no cross-validation"),
        ([["a"], []], "fold 2 has no cases"),
        ([["a"], ["a", "b"]], "folds hold cases twice: 'a'"),
        ([["a"], ["t"]], "folds hold test cases: 't'"),
        ([["a"], 5], "folds"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, folds: object, message: str) -> None:
    file = tmp_path / "splits.json"
    write_splits(file, Splits(("a", "b"), (), (), ("t",), folds=(("a",), ("b",))))
    assert read_splits(file).folds == (("a",), ("b",))
    write_json(file, read_json(file) | {"folds": folds})
    with pytest.raises(UserError, match=message):
        read_splits(file)


def test_folds_must_fit_the_cases_of_the_project(tmp_path: Path) -> None:
    project = initialised(tmp_path, folds=2, test=1)
    content = read_json(project.splits_file)
    moved = content["labelled"].pop()
    write_json(project.splits_file, content | {"unlabelled": [*content["unlabelled"], moved]})
    with pytest.raises(UserError, match=f"has case '{moved}' in fold ., but not under labelled"):
        project.load_splits()


def test_a_run_of_a_fold_sees_nothing_of_its_patients(tmp_path: Path) -> None:
    # Of patient 0, two scans are labelled and one is not.
    data = tmp_path / "data"
    for seed, name in enumerate(["p0-a", "p0-b", "p1-a", "p2-a"]):
        write_ball(data, name, seed, labelled=True)
    for seed, name in enumerate(["p0-c", "p9-a"], start=9):
        write_ball(data, name, seed, labelled=False)
    found = tc.init(data, tmp_path / "project", folds=2, group_pattern=r"(p\d)", progress=False)
    assert found.project
    splits = found.project.load_splits()
    first = next(number for number, fold in enumerate(splits.folds, 1) if "p0-a" in fold)
    seen = fold_splits(found.project, first)
    assert seen.validation == ("p0-a", "p0-b")
    assert (seen.labelled, seen.unlabelled) == (("p1-a", "p2-a"), ("p9-a",))
    other = fold_splits(found.project, 3 - first)
    assert (other.labelled, other.validation) == (("p0-a", "p0-b"), ("p1-a", "p2-a"))
    assert other.unlabelled == ("p0-c", "p9-a")
    with pytest.raises(UserError, match=r"fold 3 does not exist: .* has folds 1 to 2"):
        fold_splits(found.project, 3)


def test_validation_cases_of_the_project_stay_what_they_are(tmp_path: Path) -> None:
    project = initialised(tmp_path, folds=2, validation=2)
    whole, seen = project.load_splits(), fold_splits(project, 1)
    assert seen.validation == whole.validation
    assert seen.labelled == tuple(id_ for id_ in whole.labelled if id_ not in whole.folds[0])
    assert not set(whole.folds[0]) & set(seen.ids)
