"""Rounds of labelling: which labels were new, the run that learnt from them, and what it changed.

A round begins with new labels, goes on with a training that starts from the newest run, and ends
when both runs have been scored on the same cases, which no label was ever taken of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tracoco.config import Config, parse_recorded
from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.files import content_hash, read_json, write_json
from tracoco.inference.manifest import merged_manifest
from tracoco.inference.predict import predict_scans
from tracoco.labelling.labels import NewLabels
from tracoco.methods import find_row
from tracoco.presets import load_config, with_overrides
from tracoco.project.folder import Project
from tracoco.runs.folder import RunFolder
from tracoco.settings import checked
from tracoco.training.fit_result import FitResult
from tracoco.training.train import train


@dataclass(frozen=True, slots=True)
class Round:
    """New labels, and what a run learnt from them."""

    number: int
    added: tuple[str, ...] = ()
    """Scans that had no label before."""
    corrected: tuple[str, ...] = ()
    """Scans that had another one."""
    labelled: int = 0
    """Labelled scans of the project since then."""
    run: str = ""
    """Name of the run in the project's `runs`; empty before its training."""
    start: str = ""
    """Name of the run that it started from; empty if from drawn weights."""
    part: str = ""
    """`validation` or `test`: the cases that both runs are scored on."""
    before: Mapping[str, float | None] | None = None
    """Dice in percent of each of these cases, by the earlier run; None if there is none."""
    after: Mapping[str, float | None] | None = None
    """The same by the new run; None until it is trained and scored."""

    @property
    def changes(self) -> list[float]:
        """What the Dice of each case has changed by, in percent points."""
        before, after = self.before or {}, self.after or {}
        pairs = ((before[case], after[case]) for case in sorted(before.keys() & after.keys()))
        return [new - old for old, new in pairs if old is not None and new is not None]

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do in it."""
        return bool(self.run) and (self.after is not None or not self.part)


@dataclass(frozen=True, slots=True)
class _File:
    rounds: tuple[Round, ...] = ()


def rounds_file(project: Project) -> Path:
    """Where the rounds are kept."""
    return project.root / "labelling" / "rounds.json"


def read_rounds(project: Project) -> list[Round]:
    """All rounds of a project, in their order."""
    file = rounds_file(project)
    return list(checked(_File, read_json(file), str(file)).rounds) if file.is_file() else []


def write_round(project: Project, changed: Round) -> Round:
    """Replace the round of its number, or add it."""
    rounds = {each.number: each for each in read_rounds(project)} | {changed.number: changed}
    values = [asdict(rounds[number]) for number in sorted(rounds)]
    write_json(rounds_file(project), {"rounds": values})
    return changed


def open_round(project: Project) -> Round | None:
    """The last round, if something is left to do in it."""
    rounds = read_rounds(project)
    return rounds[-1] if rounds and not rounds[-1].finished else None


def with_new_labels(project: Project, new: NewLabels) -> Round:
    """Enter new labels: into a round that was not trained yet, or into a new one."""
    rounds = read_rounds(project)
    last = rounds[-1] if rounds else None
    waiting = last if last and not has_begun(project, last) else Round(len(rounds) + 1)
    return write_round(
        project,
        replace(
            waiting,
            added=tuple(dict.fromkeys((*waiting.added, *new.added))),
            corrected=tuple(dict.fromkeys((*waiting.corrected, *new.corrected))),
            labelled=len(project.load_splits().labelled),
        ),
    )


def has_begun(project: Project, current: Round) -> bool:
    """Whether the run of a round is there to be resumed or used."""
    return bool(current.run) and RunFolder(project.runs_root / current.run).begun


def newest_run(project: Project) -> Path | None:
    """The run that saved weights last, of those that segment; None if there is none."""
    found = []
    for folder in project.runs_root.iterdir() if project.runs_root.is_dir() else ():
        run = RunFolder(folder)
        if run.begun and run.checkpoint("last").is_file():
            row = find_row(run.config().method.name)
            if row is None or row.segments:
                found.append((run.checkpoint("last").stat().st_mtime_ns, folder))
    return max(found)[1] if found else None


def config_after(start: Path | None, changes: Sequence[str]) -> Config:
    """The settings of the run to start from, with changes; defaults if there is none.

    All labels of the project count, however few the earlier run was given: it may be of a fold.
    """
    if start is None:
        return load_config(None, list(changes))
    values: dict[str, Any] = RunFolder(start).config().model_dump(mode="json")
    given = with_overrides({}, changes)
    if "steps" in (given.get("training") or {}):
        values["training"]["minutes"] = None
    values = with_overrides(values, ["data.labelled=null", "data.fold=null", *changes])
    return parse_recorded(values, "settings")


def scored_part(project: Project) -> str:
    """The part of the split that tells how good a run is: validation cases, or else test cases."""
    splits = project.load_splits()
    return next((part for part in ("validation", "test") if splits.parts[part]), "")


def score(
    project: Project, run: Path, part: str, *, device: str = "auto", console: Console | None = None
) -> dict[str, float | None]:
    """Dice in percent of each case of a part of the split, predicted with the last weights."""
    out = run / "predictions" / part
    others = merged_manifest(out)
    if others.run and (others.checkpoint, others.cct) != ("last", False):
        out = run / "predictions" / f"{part}-last"  # those that are there stay
    # A run may have been trained on since: then they are made again.
    redo = bool(others.weights) and others.weights != content_hash(run / "last.pt")
    predict_scans(run, project.root, out, part=part, redo=redo, device=device, console=console)
    evaluation = evaluate_predictions(out, project.root)
    return {case.case: case.dice for case in evaluation.cases}


def train_round(
    project: Project,
    current: Round,
    changes: Sequence[str] = (),
    *,
    init_from: Path | None = None,
    device: str = "auto",
    console: Console | None = None,
) -> tuple[Round, FitResult]:
    """Train the run of a round, or resume it, and score it beside the run that it started from.

    Args:
        project: with the new labels, and prepared.
        current: the round.
        changes: of settings, as `KEY=VALUE`.
        init_from: the run to start from; the newest one by default.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        console: where progress is shown; nowhere if not given.
    """
    resume = has_begun(project, current)
    if resume:
        config = RunFolder(project.runs_root / current.run).config()
        start = project.runs_root / current.start if current.start else None
        if changes or init_from:
            raise UserError(
                f"the run {current.run} of round {current.number} was stopped and is resumed with "
                "its own settings; leave out --set, --minutes and --init-from"
            )
    else:
        start = init_from or newest_run(project)
        config = config_after(start, changes)
        current = _begun(project, current, config, start, device, console)
    out = project.runs_root / current.run
    result = train(
        project,
        config,
        out,
        resume=resume,
        init_from=None if resume else start,
        device=device,
        console=console,
    )
    if result.signal or not current.part:
        return current, result
    after = score(project, out, current.part, device=device, console=console)
    return write_round(project, replace(current, after=after)), result


def _begun(
    project: Project,
    current: Round,
    config: Config,
    start: Path | None,
    device: str,
    console: Console | None,
) -> Round:
    """The round with the name of its run, and with the scores before it."""
    part = scored_part(project)
    before = None
    if start and part:
        before = score(project, start, part, device=device, console=console)
    name = f"{config.method.name}-round{current.number}"
    if (project.runs_root / name).exists():
        raise UserError(
            f"{project.runs_root / name} exists and is the run of no round; rename or remove it"
        )
    from_run = start.name if start and start.parent.resolve() == project.runs_root.resolve() else ""
    named = from_run or (str(start.absolute()) if start else "")
    begun = replace(current, run=name, start=named, part=part, before=before)
    return write_round(project, begun)
