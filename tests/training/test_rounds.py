"""Self-training: rounds follow each other, and a kill at any point changes nothing."""

import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from samples import make_project, write_balls
from typer.testing import CliRunner

import tracoco as tc
from tracoco.cli import app
from tracoco.config import Config
from tracoco.data import pseudo_label_files
from tracoco.data.batch import IGNORED
from tracoco.data.pseudo_label_files import PseudoLabels
from tracoco.errors import UserError
from tracoco.files import content_hash, read_json
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import predict_volume
from tracoco.methods.method import evaluating
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.prepare import prepare
from tracoco.project.splits import write_splits
from tracoco.project.store import Store
from tracoco.runs.folder import RunFolder, load_checkpoint, method_state
from tracoco.runs.log import read_log
from tracoco.testing.steps import differing
from tracoco.training import rounds as self_training
from tracoco.training import train as training
from tracoco.training.rounds import Reached, Rounds, self_train
from tracoco.training.trainer import Trainer

SHORT = ["network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]", "training.save_every=1"]
STEPS = 3
FOLDERS = ("round-0", "round-1", "round-2")


def config(method: str, *settings: str, steps: int = STEPS) -> Config:
    return load_config(
        None, [*SHORT, f"training.steps={steps}", f"method.name={method}", *settings]
    )


def run(project: Project, out: Path, rounds: Rounds | None = None, **options: Any) -> Reached:
    teacher, student = config("supervised"), config("noisy-student")
    told = {"device": "cpu"} | options
    return self_train(project, teacher, student, out, rounds or Rounds(), **told)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return method_state(load_checkpoint(folder / "last.pt"))


@pytest.fixture(scope="module")
def whole(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-training of two rounds that nothing has stopped."""
    out = tmp_path_factory.mktemp("self") / "whole"
    reached = run(project, out)
    assert reached == Reached(out / "round-2", STEPS)
    return out


def test_each_round_is_a_run_and_learns_from_the_one_before(whole: Path, project: Project) -> None:
    runs = [RunFolder(whole / name) for name in FOLDERS]
    names = [each.config().method.name for each in runs]
    assert names == ["supervised", "noisy-student", "noisy-student"]
    assert runs[0].facts().pseudo_labels is None
    for before, after in pairwise(runs):
        told = after.facts().pseudo_labels
        assert told is not None
        assert told.class_fractions is not None
        manifest = PseudoLabels(before.root / "pseudo_labels").manifest()
        assert told.folder == str(before.root / "pseudo_labels")
        assert told.hash == manifest.hash()
        assert manifest.weights == content_hash(before.checkpoint("last"))
        assert list(told.class_fractions.values()) == list(manifest.class_fractions)
    assert not (whole / "round-2" / "pseudo_labels").exists()
    for record in read_log(runs[1].log_file):
        assert record.terms.keys() == {"supervised", "pseudo_labels"}
        assert record.terms["pseudo_labels"] > 0
        assert len(record.health.class_fractions) == project.load_plan().classes
    assert runs[2].checkpoint("best").exists()  # validated like any other run


def test_only_unlabelled_scans_are_predicted(whole: Path, project: Project) -> None:
    unlabelled = set(project.load_splits().unlabelled)
    for name in FOLDERS[:2]:
        folder = whole / name / "pseudo_labels"
        assert set(PseudoLabels(folder).manifest().cases) == unlabelled
        assert {file.stem for file in folder.glob("*.npz")} == unlabelled
        assert len(list(folder.iterdir())) == len(unlabelled) + 1


def test_pseudo_labels_are_what_the_averaged_weights_predict(whole: Path, project: Project) -> None:
    predictor = Predictor.load(whole / "round-0", device="cpu")
    assert predictor.averaged
    case = Store(project.store_root).case(project.load_splits().unlabelled[0])
    volume = torch.from_numpy(np.array(case.image()))
    with evaluating(predictor.method):
        expected = predict_volume(predictor.method.predict, volume, *predictor.cover(case.shape))
    found = PseudoLabels(whole / "round-0" / "pseudo_labels").label(case)
    assert (found == expected.argmax(dim=0).numpy()).mean() > 0.9999  # folding rounds otherwise
    sure = self_training.predicted_label(predictor, predictor.method, case, 0.6)
    ignored = (expected.amax(dim=0) < 0.6).numpy()
    assert 0 < ignored.sum() < ignored.size
    np.testing.assert_array_equal(sure == IGNORED, ignored)


class Killed(BaseException):
    """What no part of the package catches."""


def killing(owner: Any, name: str, at: int, *, before: bool) -> Callable[..., Any]:
    """A function in place of another one that dies at its n-th call."""
    true, calls = getattr(owner, name), iter(range(1000))

    def called(*arguments: Any, **options: Any) -> Any:
        now = next(calls) == at
        if now and before:
            raise Killed
        result = true(*arguments, **options)
        if now:
            raise Killed
        return result

    return called


@pytest.mark.parametrize(
    "kill",
    [
        (Trainer, "save", 1, False),  # in the teacher's training
        (self_training._Record, "write", 1, True),  # between training and its record
        (self_training, "predicted_label", 2, True),  # some scans are labelled
        (pseudo_label_files, "write_json", 1, True),  # a label is there, not its entry
        (training, "open_folder", 1, True),  # all are labelled, the student has not begun
        (Trainer, "save", STEPS + 2, True),  # before the student's first checkpoint
        (Trainer, "save", STEPS + 4, False),  # in its training
        (self_training, "predicted_label", 5, True),  # the student labels
    ],
)
def test_killed_anywhere_it_ends_as_if_it_had_not_been(
    project: Project,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kill: tuple[Any, str, int, bool],
) -> None:
    owner, name, at, before = kill
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, killing(owner, name, at, before=before))
        with pytest.raises(Killed):
            run(project, out)
    with pytest.raises(UserError, match="already exists; add --resume"):
        run(project, out)
    assert run(project, out, resume=True) == Reached(out / "round-2", STEPS)
    for folder in FOLDERS:
        assert differing(weights(out / folder), weights(whole / folder)) == []
        log = read_log(RunFolder(out / folder).log_file)
        assert [record.step for record in log] == list(range(STEPS))
    for folder in FOLDERS[:2]:
        made, known = (PseudoLabels(each / folder / "pseudo_labels") for each in (out, whole))
        assert made.manifest().cases == known.manifest().cases


def test_a_signal_stops_it_between_two_scans(
    project: Project, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, true = tmp_path / "run", self_training.predicted_label

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return true(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(self_training, "predicted_label", interrupted)
        reached = run(project, out)
    assert reached == Reached(out / "round-0", STEPS, signal.SIGINT, labelling=True)
    assert len(PseudoLabels(out / "round-0" / "pseudo_labels").manifest().cases) == 1
    run(project, out, resume=True)
    assert differing(weights(out / "round-2"), weights(whole / "round-2")) == []


def test_more_rounds_go_on_and_other_settings_do_not(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    run(project, out, Rounds(1))
    content = (out / "self-train.json").read_bytes()
    student = config("noisy-student")
    teacher = config("supervised", steps=4)
    with pytest.raises(UserError, match=r"other training settings of the teacher: {'steps': 3}"):
        self_train(project, teacher, student, out, Rounds(1), resume=True, device="cpu")
    with pytest.raises(UserError, match=r"other threshold: 0.0, now 0.7"):
        run(project, out, Rounds(1, 0.7), resume=True)
    with pytest.raises(UserError, match=r"other student start: drawn, now previous"):
        run(project, out, Rounds(1, start="previous"), resume=True)
    assert (out / "self-train.json").read_bytes() == content
    with monkeypatch.context() as patch:  # finished rounds are left alone
        patch.setattr(self_training, "train", lambda *_, **__: pytest.fail("trained again"))
        assert run(project, out, Rounds(1), resume=True).folder == out / "round-1"
    assert run(project, out, Rounds(2), resume=True).folder == out / "round-2"
    assert set(read_json(out / "self-train.json")["rounds"]) == {"0", "1", "2"}
    checkpoint = out / "round-0" / "last.pt"
    checkpoint.write_bytes(checkpoint.read_bytes() + b" ")
    with pytest.raises(UserError, match="is not what this round ended with"):
        run(project, out, Rounds(2), resume=True)


def test_changed_pseudo_labels_do_not_go_into_a_run_that_has_begun(
    project: Project, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    run(project, out, Rounds(1))
    labels = PseudoLabels(out / "round-0" / "pseudo_labels")
    id_ = project.load_splits().unlabelled[0]
    shape = Store(project.store_root).case(id_).shape
    labels.add(labels.manifest(), id_, np.zeros(shape, np.uint8), 2)
    with pytest.raises(UserError, match="was saved with other pseudo-labels"):
        training.train(project, config("noisy-student"), out / "round-1", resume=True, device="cpu")


def test_a_student_can_start_from_the_round_before(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[dict[str, torch.Tensor]] = []
    fit = Trainer.fit

    def noted(trainer: Trainer, *arguments: Any, **more: Any) -> Any:
        first.append({k: v.clone() for k, v in trainer.method.state_dict().items()})
        return fit(trainer, *arguments, **more)

    monkeypatch.setattr(Trainer, "fit", noted)
    out = tmp_path / "run"
    run(project, out, Rounds(1, start="previous"))
    assert differing(first[1], weights(out / "round-0")) == []
    run(project, tmp_path / "drawn", Rounds(1))
    assert differing(first[3], first[0]) == []  # drawn by the same seed
    assert differing(first[3], weights(tmp_path / "drawn" / "round-0")) != []


@pytest.mark.parametrize("teacher", ["masked-autoencoder", "noisy-student"])
def test_a_teacher_must_predict(project: Project, tmp_path: Path, teacher: str) -> None:
    with pytest.raises(UserError, match=f"'{teacher}' cannot be the teacher"):
        self_train(project, config(teacher), config("noisy-student"), tmp_path / "run", Rounds(1))
    assert not (tmp_path / "run").exists()


def test_what_cannot_work_is_refused_before_anything_is_made(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    for students, threshold, named in ((0, 0.0, "has no student"), (1, 1.0, "no probability")):
        with pytest.raises(UserError, match=named):
            Rounds(students, threshold)
    with pytest.raises(UserError, match="is not a run"):
        run(project, out, init_from=tmp_path / "nowhere")
    with monkeypatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        with pytest.raises(UserError, match="runs in one process"):
            run(project, out)
    with pytest.raises(UserError, match=r"use `tracoco self-train PROJECT`"):
        training.train(project, config("noisy-student"), out, device="cpu")
    assert not out.exists()
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="is in use and holds no self-training"):
        run(project, tmp_path / "used", resume=True)
    assert [file.name for file in (tmp_path / "used").iterdir()] == ["notes.txt"]


def test_without_unlabelled_scans_there_is_nothing_to_do(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=3, unlabelled=1)
    splits = project.load_splits()
    write_splits(project.splits_file, replace(splits, unlabelled=()))
    with pytest.raises(UserError, match="has no unlabelled cases"):
        run(project, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_slices_of_a_2d_project_come_with_their_labels(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=2)
    project = init_project(data, tmp_path / "project", validation=1, dimensions=2)
    prepare(project)
    flat = ["data.crop=[16, 16]", "data.labelled_batch=2", "data.unlabelled_batch=3"]
    teacher, student = (config(name, *flat, steps=1) for name in ("supervised", "noisy-student"))
    reached = self_train(project, teacher, student, tmp_path / "run", Rounds(1), device="cpu")
    labels = PseudoLabels(tmp_path / "run" / "round-0" / "pseudo_labels")
    for id_ in project.load_splits().unlabelled:
        case = Store(project.store_root).case(id_)
        assert labels.label(case).shape == case.shape
    (record,) = read_log(RunFolder(reached.folder).log_file)
    assert record.terms["pseudo_labels"] > 0
    assert sum(record.health.class_fractions) == pytest.approx(1)


def test_the_command_ends_with_a_run_that_everything_takes(
    project: Project, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    settings = [part for each in [*SHORT, "training.steps=2"] for part in ("--set", each)]
    line = ["self-train", str(project.root), "--rounds", "1", "--method", "mean-teacher"]
    line += [*settings, "--threshold", "0.55", "--weight", "0.5", "-o", str(out)]
    line += ["--set", "method.noise=0.01", "--device", "cpu"]
    found = CliRunner().invoke(app, line)
    assert found.exit_code == 0, found.output
    final = out / "round-1"
    assert found.stdout.splitlines() == [
        f"trained 2 rounds of 2 steps; the last is {final}",
        f"next: tracoco predict {final} SCANS {final / 'predictions' / 'test'}",
    ]
    assert "pseudo-labels of 4 scans (in brackets, the labelled ones): " in found.stderr
    assert "% of voxels count" in found.stderr
    teacher, student = (RunFolder(out / name).config().method for name in FOLDERS[:2])
    assert (teacher.name, teacher.settings["noise"]) == ("mean-teacher", 0.01)
    assert student.settings["pseudo_weight"] == 0.5
    images = project.root.parent / "data" / "images" / "case000.nii.gz"
    made = tc.predict(final, images, tmp_path / "labels", device="cpu", progress=False)
    assert len(made) == 1
    page = tc.report(final).read_text(encoding="utf-8")
    assert "pseudo_labels.class_fractions" in page
    assert "foreground in the pseudo-labels" in page
    again = CliRunner().invoke(app, [*line, "--resume"])
    assert again.stdout == found.stdout


def test_python_does_the_same_from_features(project: Project, tmp_path: Path) -> None:
    settings = [*SHORT, "training.steps=1"]
    quiet: dict[str, Any] = {"device": "cpu", "progress": False, "settings": settings}
    features = tc.train(project, method="masked-autoencoder", out=tmp_path / "features", **quiet)
    run = tc.self_train(
        project, rounds=1, init_from=features.folder, out=tmp_path / "run", seed=3, **quiet
    )
    assert (run.folder, run.steps, run.signal) == (tmp_path / "run" / "round-1", 1, 0)
    for name in FOLDERS[:2]:
        facts = RunFolder(tmp_path / "run" / name).facts().init_from
        assert facts is not None
        assert (facts.kind, facts.run) == ("features", str(features.folder))
    assert run.settings.seed == 3
    with pytest.raises(UserError, match="both say how long the run is"):
        tc.self_train(project, minutes=1, out=tmp_path / "other", **quiet)
