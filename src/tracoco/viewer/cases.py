"""What there is to see of a run, a project or a folder of predictions; no voxel is read."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tracoco.errors import UserError, check_choice
from tracoco.evaluation.evaluate import pair_files
from tracoco.evaluation.scores import Evaluation, ScoredCase, read_evaluation
from tracoco.inference.manifest import Manifest, PredictedCase, merged_manifest
from tracoco.inference.prediction import Uncertainty
from tracoco.methods import METHODS
from tracoco.project.cases import Case
from tracoco.project.folder import Project, structure_names
from tracoco.project.plan import Plan
from tracoco.project.splits import PARTS
from tracoco.runs.folder import RunFolder
from tracoco.text import count

SHOWN_MAPS = ("disagreement", "entropy")
"""Maps with one value a voxel; probabilities have one a class."""
ORDER = ("test", "validation", "unlabelled", "labelled", "")


@dataclass(frozen=True, slots=True)
class ViewCase:
    """One scan, and what is known of it: labels, one prediction, maps, scores."""

    id: str
    images: tuple[Path, ...]
    part: str = ""
    """Part of the split; empty for a scan of no project."""
    truth: Path | None = None
    prediction: Path | None = None
    maps: Mapping[str, Path] = field(default_factory=dict)
    source: str = ""
    """Which predictions these are, e.g. `test`, or `tracoco-seed0/test` in a project."""
    scores: ScoredCase | None = None
    uncertainty: Uncertainty | None = None


@dataclass(frozen=True, slots=True)
class ViewSet:
    """All that a page shows."""

    title: str
    cases: tuple[ViewCase, ...]
    labels: Mapping[int, str]
    """Label values, without the background, with the names of their classes."""
    window: tuple[float, float] | None = None
    """Intensities of the first channel between which the scans differ, of a plan that knows."""
    notes: tuple[str, ...] = ()
    """What is missing and which command makes it, and what must be said of the predictions."""
    units: str = "mm"
    """Of distances."""
    ignore_label: int | None = None
    """Value of what nobody has drawn, which is neither right nor wrong."""

    def only(self, part: str | None, ids: Sequence[str] = ()) -> "ViewSet":
        """The cases of one part, or those that are named; an error if there are none."""
        cases = self.cases
        if part is not None:
            check_choice("part", part, PARTS)
            cases = tuple(case for case in cases if case.part == part)
            if not cases:
                raise UserError(f"{self.title} has no {part} cases to show")
        for id_ in ids:
            check_choice("case", id_, {case.id for case in cases})
        return replace(self, cases=tuple(case for case in cases if not ids or case.id in ids))


@dataclass(frozen=True, slots=True)
class _Known:
    """A project's cases by id, and the part that each is in."""

    cases: Mapping[str, Case] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, project: Project) -> "_Known":
        splits = project.load_splits()
        parts = {id_: part for part, ids in splits.parts.items() for id_ in ids}
        return cls({case.id: case for case in project.load_cases()}, parts)

    def truth(self, id_: str) -> Path | None:
        """The label of a case, unless the split takes the case as unlabelled."""
        return None if self.parts.get(id_) in {None, "unlabelled"} else self.cases[id_].label


def find_cases_to_view(source: Path) -> ViewSet:
    """The cases of a run, a project or a folder of predictions.

    Args:
        source: a run's folder, whose predictions lie in RUN/predictions; a project; or a folder
            that `predict` has written.
    """
    if not source.exists():
        raise UserError(f"{source} does not exist; give a run, a project, or predictions")
    if RunFolder(source).begun:
        return _of_run(source)
    if Project(source).exists:
        return _of_project(Project(source))
    if source.is_dir() and merged_manifest(source).rows:
        return _of_predictions(source)
    raise UserError(
        f"{source} is no run (it has no config.yaml), no project (no cases.json) and no folder of "
        "predictions (no predictions.json); `tracoco predict RUN SCANS OUT` makes such a folder"
    )


def _of_run(run: Path) -> ViewSet:
    project = _project_of(run)
    known = _Known.of(project) if project else _Known()
    folders = _prediction_folders(run)
    if not folders:
        raise UserError(
            f"{run} has no predictions yet; make them with `{_command(run, project, 'test')}`"
        )
    found = _collect(folders, {folder: folder.name for folder in folders}, known)
    missing = _missing(run, project, found.cases) if project else ()
    notes = (*found.notes, *missing)
    return replace(found, title=run.resolve().name, notes=notes, **_of_plan(run))


def _of_project(project: Project) -> ViewSet:
    folders = [folder for run in _runs(project) for folder in _prediction_folders(run)]
    names = {folder: f"{folder.parents[1].name}/{folder.name}" for folder in folders}
    found = _collect(folders, names, _Known.of(project))
    plan = project.load_plan()
    runs, notes = _runs(project), found.notes
    if not folders:
        train = f"tracoco train {shlex.quote(str(project.root))}"
        way = _command(runs[-1], project, "test") if runs else train
        notes = (*notes, f"No run of this project has predictions yet. Next: {way}")
    labels = dict(zip(plan.label_values[1:], plan.class_names[1:], strict=True))
    return replace(
        found,
        title=project.root.resolve().name,
        labels=labels,
        notes=notes,
        **_planned(plan),
    )


def _of_predictions(folder: Path) -> ViewSet:
    run = Path(merged_manifest(folder).run)
    begun = RunFolder(run).begun
    project = _project_of(run) if begun else None
    known = _Known.of(project) if project else _Known()
    found = _collect([folder], {folder: folder.resolve().name}, known, others=False)
    planned = _of_plan(run) if begun else {}
    return replace(found, title=folder.resolve().name, **planned)


def _runs(project: Project) -> list[Path]:
    found = sorted(project.runs_root.glob("*/config.yaml"), key=lambda file: file.stat().st_mtime)
    return [file.parent for file in found]


def _prediction_folders(run: Path) -> list[Path]:
    folders = {file.parent for file in run.glob("predictions/*/predictions*.json")}
    return [folder for folder in sorted(folders) if _made(merged_manifest(folder), folder)]


def _project_of(run: Path) -> Project | None:
    """The project that a run lies in, as PROJECT/runs/RUN, with the cases of the run."""
    folder = run.resolve().parents[1]
    if not Project(folder).exists:
        return None
    ids = {case.id for case in Project(folder).load_cases()}
    return Project(folder) if ids.issuperset(RunFolder(run).splits().ids) else None


def _planned(plan: Plan) -> dict[str, Any]:
    """What a plan says of how its scans are shown."""
    return {"window": plan.window[0] if plan.window else None, "ignore_label": plan.ignore_label}


def _of_plan(run: Path) -> dict[str, Any]:
    """The same of a run's plan, and the names that its structures have now."""
    plan = RunFolder(run).plan()
    names = structure_names(run, plan)
    return _planned(plan) | {"labels": {value: names[value] for value in plan.label_values[1:]}}


def _collect(
    folders: Sequence[Path], names: Mapping[Path, str], known: _Known, *, others: bool = True
) -> ViewSet:
    """The predicted cases of folders; with `others`, the known cases without a prediction too."""
    cases: list[ViewCase] = []
    labels: dict[int, str] = {}
    notes: list[str] = []
    units = "mm"
    for folder in folders:
        manifest, evaluation = merged_manifest(folder), _evaluation(folder)
        labels |= manifest.labels
        cases += _predicted(folder, names[folder], manifest, evaluation, known)
        notes += [manifest.watermark] if manifest.watermark else []
        if evaluation:
            units = evaluation.protocol.units
            notes += [f"{names[folder]}: {evaluation.cleaning}"] if evaluation.cleaning else []
    there = {case.id for case in cases}
    if others:
        cases += [
            ViewCase(case.id, case.images, known.parts.get(case.id, ""), known.truth(case.id))
            for case in known.cases.values()
            if case.id not in there and case.id in known.parts
        ]
    cases.sort(key=lambda case: (ORDER.index(case.part), case.id, case.source))
    return ViewSet("", tuple(cases), labels, notes=tuple(dict.fromkeys(notes)), units=units)


def _predicted(
    folder: Path, name: str, manifest: Manifest, evaluation: Evaluation | None, known: _Known
) -> Iterator[ViewCase]:
    scored = {case.case: case for case in evaluation.cases} if evaluation else {}
    truths = _scored_truths(folder, evaluation)
    for row, prediction in _made(manifest, folder):
        case = known.cases.get(row.case)
        same = case is not None and _same_files(row.images, case.images)
        yield ViewCase(
            row.case,
            case.images if case and same else row.images,
            known.parts.get(row.case, "") if same else "",
            truths.get(row.case) or (known.truth(row.case) if same else None),
            prediction,
            {
                kind: found
                for kind in SHOWN_MAPS
                if kind in row.files and (found := _beside(row.files[kind], folder))
            },
            name,
            scored.get(row.case),
            row.uncertainty,
        )


def _same_files(recorded: Sequence[Path], known: Sequence[Path]) -> bool:
    """Whether a scan is a project's; one that is gone from where it was may have been moved."""
    gone = not recorded[0].exists()
    return gone or [path.resolve() for path in recorded] == [path.resolve() for path in known]


def _made(manifest: Manifest, folder: Path) -> list[tuple[PredictedCase, Path]]:
    """The cases whose labels are there, beside the manifest if the folder was moved."""
    found = ((row, _beside(row.prediction, folder)) for row in manifest.rows)
    return [(row, file) for row, file in found if file is not None]


def _beside(file: Path, folder: Path) -> Path | None:
    return next((path for path in (file, folder / file.name) if path.exists()), None)


def _evaluation(folder: Path) -> Evaluation | None:
    file = folder / "scores.json"
    return read_evaluation(file) if file.exists() else None


def _scored_truths(folder: Path, evaluation: Evaluation | None) -> dict[str, Path]:
    """The labels that a folder was scored against, as far as they are still there."""
    if evaluation is None or evaluation.truth is None or not evaluation.truth.is_dir():
        return {}
    try:
        pairs, _ = pair_files(folder, evaluation.truth)
    except UserError:
        return {}
    return {pair.case: pair.truth for pair in pairs}


def _missing(run: Path, project: Project, cases: Sequence[ViewCase]) -> Iterator[str]:
    """A line for each part with cases that have no prediction, and the command that makes them."""
    for part in ("test", "validation", "unlabelled"):
        without = sum(case.part == part and case.prediction is None for case in cases)
        if without:
            command = _command(run, project, part)
            yield f"{count(without, f'{part} case')} without a prediction. To make them: {command}"


def _command(run: Path, project: Project | None, part: str) -> str:
    maps = "label,disagreement,entropy" if _has_two_networks(run) else "label,entropy"
    out = shlex.quote(str(run / "predictions" / part))
    scans = shlex.quote(str(project.root)) if project else "SCANS"
    chosen = f" --part {part}" if part != "test" else ""
    return f"tracoco predict {shlex.quote(str(run))} {scans} {out}{chosen} --save {maps}"


def _has_two_networks(run: Path) -> bool:
    row = METHODS.get(RunFolder(run).config().method.name)
    modules = row.trained_by_unlabelled if row else ()
    return any(module.startswith("networks") for module in modules)
