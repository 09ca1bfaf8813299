"""Train, predict, evaluate and report: what the commands of these names call, and `Run`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

from tracoco.api.predictions import CheckpointName, predict
from tracoco.api.projects import ProjectPath, folder_of, opened_project
from tracoco.api.view import View, view
from tracoco.config import Config
from tracoco.console import progress_console
from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.evaluation.scores import Evaluation, chosen_protocol
from tracoco.inference.manifest import PredictedCase
from tracoco.inference.model_choice import Members
from tracoco.inference.prediction import Prediction
from tracoco.inference.predictor import Predictor
from tracoco.presets import load_config, settings_words, with_overrides
from tracoco.project.folder import Project
from tracoco.reporting.comparison import compare_runs
from tracoco.reporting.page import write_report
from tracoco.reporting.pairs import Comparison, compare_with_pairs
from tracoco.reporting.project_page import write_project_report
from tracoco.reporting.run_record import RunRecord, ScoreSet
from tracoco.runs.folder import RunFolder, Weights
from tracoco.text import html_table
from tracoco.training.slurm import join_slurm_tasks
from tracoco.training.train import train as train_run

RecipeName = Literal["common", "released"]


@dataclass(frozen=True, slots=True)
class Run:
    """A trained run: its folder, its settings, its scores, and what can be done with it."""

    folder: Path
    steps: int | None = None
    """Steps that were done and saved when `train` returned."""
    signal: int = 0
    """The signal that stopped the training before its end, or 0."""
    leads: bool = True
    """Whether this process of a distributed training is the one that tells the user."""

    @classmethod
    def load(cls, folder: "Path | str | Run") -> "Run":
        """The run in a folder; a run is returned as it is."""
        if isinstance(folder, Run):
            return folder
        RunFolder(Path(folder)).config()  # an error where there is no run
        return cls(Path(folder))

    @property
    def settings(self) -> Config:
        """The resolved settings."""
        return RunFolder(self.folder).config()

    @property
    def scores(self) -> tuple[ScoreSet, ...]:
        """One set of scores for each evaluated folder of predictions in the run's folder."""
        return tuple(RunRecord.read(self.folder).scores)

    def predictor(
        self,
        *,
        checkpoint: CheckpointName = "last",
        weights: Weights = "averaged",
        members: Members = "first",
        mirror: bool = False,
        device: str = "auto",
    ) -> Predictor:
        """The run as a function from a scan to its labels; options of `tune` are left out."""
        return Predictor.load(
            self.folder,
            checkpoint=checkpoint,
            weights=weights,
            members=members,
            mirror=mirror,
            device=device,
        )

    @overload
    def predict(
        self, source: ProjectPath, out: Path | str, **options: Any
    ) -> list[PredictedCase]: ...

    @overload
    def predict(
        self, source: Any, *, spacing_mm: Sequence[float] | None = None, **options: Any
    ) -> Prediction: ...

    def predict(
        self,
        source: Any,
        out: Path | str | None = None,
        *,
        spacing_mm: Sequence[float] | None = None,
        **options: Any,
    ) -> list[PredictedCase] | Prediction:
        """Segment scans and write their labels, or segment one scan and return its prediction.

        Args:
            source: with `out`, a scan, a folder of scans or a project. Without it, one scan: a
                path, an image of nibabel or SimpleITK, an array or a tensor.
            out: folder of the predictions, or a file for one scan.
            spacing_mm: of an array or a tensor.
            options: with `out`, those of `tracoco.predict`. Without it, of these `checkpoint`,
                `weights`, `members`, `mirror`, `maps`, `cct` and `device`.
        """
        if out is None:
            return self._predict_one(source, spacing_mm, **options)
        if not isinstance(source, Project | Path | str):
            raise UserError(
                f"a {type(source).__name__} is not written by its path; `write` its prediction"
            )
        return predict(self, source, out, **options)

    def _predict_one(
        self,
        scan: Any,
        spacing_mm: Sequence[float] | None,
        *,
        maps: Sequence[str] = (),
        cct: bool = False,
        **options: Any,
    ) -> Prediction:
        found = self.predictor(**options)(scan, spacing_mm, maps=maps)
        return found.without_small_components() if cct else found

    def report(self, scores: Sequence[Path | str] = ()) -> Path:
        """Write one HTML page about the run; its path."""
        return report(self, scores)

    def view(self, **options: Any) -> View:
        """Show scans, labels and predictions in a notebook; options of `tracoco.view`."""
        return view(self, **options)

    def _repr_html_(self) -> str:
        """A small table for a notebook."""
        config = self.settings
        rows: list[tuple[str, object]] = [
            ("folder", self.folder),
            ("method", config.method.name),
            ("recipe", config.recipe),
            ("steps", config.training.length),
            ("labelled", len(RunFolder(self.folder).splits().labelled)),
        ]
        for found in compare_runs([self.folder]):
            if found.dice is not None:
                note = f" ({found.note})" if found.note else ""
                rows.append((f"Dice, {found.test_set or 'test'}", f"{found.dice:.1f} %{note}"))
        return html_table((), rows)


def train(  # noqa: PLR0913 - each is an option of the command, with the same default
    project: ProjectPath,
    *,
    method: str | None = None,
    preset: str | None = None,
    recipe: RecipeName | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    minutes: float | None = None,
    fold: int | None = None,
    seed: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    init_from: Path | str | None = None,
    init_map: Path | str | None = None,
    select_on_test: bool = False,
    track: str | Sequence[str] = (),
    device: str = "auto",
    progress: bool = True,
) -> Run:
    """Train a run, or resume one.

    Args:
        project: the project, or its folder.
        method: a name of `tracoco methods`; `tracoco` by default.
        preset: a name of `tracoco presets`.
        recipe: `common`, the same for all methods, or `released`, what the authors of the method
            run. The preset's if not given, which is `common` but for presets of the paper.
        settings: changes of single settings, e.g. `{"training.steps": 4000}`.
        minutes: length by time on this machine, in place of steps.
        fold: hold out the cases of this fold of the project, counted from 1: they are validation
            cases of the run, and no scan of their patients is learnt from.
        seed: changes every random choice.
        out: folder of the run; PROJECT/runs/METHOD-seedN by default, with -foldK for a fold.
        resume: continue a run that was stopped.
        init_from: start from the last weights of this run, or from a weights file.
        init_map: file of lines `their.prefix: our.prefix` for the names of a weights file.
        select_on_test: choose the best checkpoint on test cases; all results then say so.
        track: trackers that the run is logged to: `mlflow`, `wandb`, `tensorboard`, or several.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error, or in a notebook.
    """
    given = {"method.name": method, "recipe": recipe, "training.minutes": minutes, "seed": seed}
    given["data.fold"] = fold
    changes = [f"{name}={value}" for name, value in given.items() if value is not None]
    changes += ["training.select_on=test"] if select_on_test else []
    trackers = ",".join([track] if isinstance(track, str) else track)
    changes += [f"tracking.trackers=[{trackers}]"] if trackers else []
    changes += settings_words(settings)
    config = load_config(preset, changes)
    check_length(changes, config.training.minutes)
    join_slurm_tasks()
    opened = opened_project(project)
    released = "-released" * (config.recipe == "released")  # such runs stand beside the others
    held_out = f"-fold{config.data.fold}" if config.data.fold else ""
    name = f"{config.method.name}{released}-seed{config.seed}{held_out}"
    folder = Path(out) if out else opened.runs_root / name
    result = train_run(
        opened,
        config,
        folder,
        resume=resume,
        init_from=None if init_from is None else Path(init_from),
        init_map=None if init_map is None else Path(init_map),
        device=device,
        console=progress_console() if progress else None,
    )
    return Run(folder, result.steps, result.signal, result.leads)


def check_length(changes: list[str], minutes: float | None) -> None:
    """Refuse two lengths in one call; the steps of a preset give way to minutes."""
    given = with_overrides({}, changes).get("training") or {}
    if minutes is not None and {"minutes", "steps"} <= given.keys():
        raise UserError(
            f"{minutes:g} minutes and training.steps={given['steps']} both say how long the run "
            "is; keep one"
        )


def evaluate(
    prediction: Path | str,
    truth: ProjectPath,
    *,
    units: Literal["mm", "voxel"] | None = None,
    empty: Literal["missed", "zero"] | None = None,
    protocol: Literal["paper"] | None = None,
    cct: bool = False,
) -> Evaluation:
    """Score predictions against reference labels; the scores are also kept in scores.json.

    Args:
        prediction: a label file, or a folder of predictions.
        truth: a label file, a folder, or a project, which stands for its test set.
        units: of distances; mm by default.
        empty: what the distance of a missed structure is: undefined by default, or zero.
        protocol: `paper` for distances in voxels, and zero for missed structures.
        cct: remove components below 1/1500 of the scan first.
    """
    conventions = chosen_protocol(protocol, units, empty, cct=cct)
    return evaluate_predictions(Path(prediction), folder_of(truth), conventions)


def compare(
    runs: Run | Path | str | Sequence[Run | Path | str], *, csv: Path | str | None = None
) -> Comparison:
    """One row for each evaluated folder of predictions, and one for every two of these.

    Args:
        runs: the runs, or one of them, or their folders.
        csv: also write the rows to this file, and the pairs to NAME-pairs.csv beside it.
    """
    given = [runs] if isinstance(runs, Run | Path | str) else runs
    folders = [Run.load(run).folder for run in given]
    return compare_with_pairs(folders, None if csv is None else Path(csv))


def report(run: Run | ProjectPath, scores: Sequence[Path | str] = ()) -> Path:
    """Write one HTML page about a run, or about a project with CSV files beside it; its path.

    Args:
        run: the run or the project, or its folder.
        scores: further `scores.json` files, of predictions outside the run's folder.
    """
    if not isinstance(run, Run) and opened_project(run).exists:
        if scores:
            raise UserError("--scores is for the report of a run; leave it out for a project")
        return write_project_report(opened_project(run))
    if isinstance(run, Project):
        raise UserError(f"{run.root} is no project")
    return write_report(Run.load(run).folder, [Path(each) for each in scores])
