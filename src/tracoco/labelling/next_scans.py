"""Predict the unlabelled scans, choose the ones to label next, and write a draft label of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from shutil import copyfile
from typing import Any

from rich.console import Console

from tracoco.errors import UserError
from tracoco.files import atomic_path, content_hash, read_json, write_json
from tracoco.inference.manifest import PredictedCase
from tracoco.inference.predict import predict_scans
from tracoco.labelling.choice import Choice, Scores, choose
from tracoco.project.folder import Project
from tracoco.runs.folder import RunFolder
from tracoco.settings import checked
from tracoco.text import html_table

DRAFTS_FILE = "drafts.json"
"""In a folder of drafts: which model made them, and what each of them was."""
ONE_NETWORK = (
    "this run's method has one network, so disagreement is unknown: the scans are ranked by "
    "entropy alone"
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A chosen scan, its files, and the label to correct."""

    choice: Choice
    images: tuple[Path, ...]
    draft: Path
    kept: bool = False
    """Whether a file that somebody has changed was there already, and stays."""

    def to_json(self) -> dict[str, Any]:
        """One row for a program."""
        names = ("disagreement", "entropy", "uncertainty", "novelty", "nearest", "why")
        figures = {name: getattr(self.choice, name) for name in names}
        files = {"images": [str(image) for image in self.images], "draft": str(self.draft)}
        return {"case": self.choice.case, **figures, **files, "kept": self.kept}


@dataclass(frozen=True, slots=True)
class NextScans:
    """The scans to label next, the first of them first."""

    run: Path
    folder: Path
    """Where the drafts are."""
    rows: tuple[Draft, ...]
    unlabelled: int
    """Scans that were chosen from."""
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """For a notebook: a row for each scan, and what must be said of them."""
        cells = [(row.choice.case, row.choice.why) for row in self.rows]
        notes = "".join(f"<div>{escape(note)}</div>" for note in self.notes)
        return html_table(("scan", "why"), cells) + notes


@dataclass(frozen=True, slots=True)
class Drafts:
    """The content of `drafts.json`."""

    run: str
    drafts: Mapping[str, str]
    """SHA-256 of each draft as it was written, by case."""


def next_scans(
    project: Project,
    run: Path,
    count: int,
    out: Path,
    *,
    device: str = "auto",
    console: Console | None = None,
) -> NextScans:
    """Rank the unlabelled scans, and write drafts of the first `count` to `out`.

    Scores of scans that the same weights have measured already are taken from the manifests in
    RUN/predictions/unlabelled and RUN/predictions/labelled.
    """
    if count < 1:
        raise UserError(f"-n {count}: ask for 1 scan or more")
    check_same_classes(project, run)
    rows = {
        part: measured(project, run, part, device=device, console=console)
        for part in ("unlabelled", "labelled")
    }
    unlabelled, labelled = (scores_of(rows[part]) for part in rows)
    chosen = choose(unlabelled, labelled, count)
    files = {row.case: row for row in rows["unlabelled"]}
    notes = [] if chosen[0].disagreement is not None else [ONE_NETWORK]
    if len(chosen) < count:
        notes.append(f"there are no more than {len(chosen)} unlabelled scans")
    drafts = write_drafts([(choice, files[choice.case]) for choice in chosen], run, out)
    return NextScans(run, out, tuple(drafts), len(unlabelled), tuple(notes))


def check_same_classes(project: Project, run: Path) -> None:
    """Refuse a run whose drafts would have other label values than the project."""
    theirs, ours = RunFolder(run).plan().label_values, project.load_plan().label_values
    if theirs != ours:
        raise UserError(
            f"{run} predicts the label values {list(theirs)}, and {project.root} has {list(ours)}; "
            "give a run of this project"
        )


def measured(
    project: Project, run: Path, part: str, *, device: str = "auto", console: Console | None = None
) -> list[PredictedCase]:
    """The scans of a part of the split with their predictions and how unsure the run is of them."""
    out = run / "predictions" / part
    return predict_scans(
        run, project.root, out, part=part, uncertainty=True, device=device, console=console
    )


def scores_of(rows: list[PredictedCase]) -> Scores:
    """What was measured, by case."""
    return {row.case: row.uncertainty for row in rows if row.uncertainty}


def write_drafts(chosen: list[tuple[Choice, PredictedCase]], run: Path, out: Path) -> list[Draft]:
    """Copy the predictions of chosen scans to `out`; files that somebody has changed stay.

    Drafts of earlier calls that nobody has changed, and that are not chosen any more, are removed:
    they would pass for labels.
    """
    earlier = read_drafts(out)
    rows, written = [], dict[str, str]()
    wanted = {choice.case for choice, _ in chosen}
    for case in earlier.keys() - wanted:
        if is_untouched(out / f"{case}.nii.gz", earlier):
            (out / f"{case}.nii.gz").unlink()
    for choice, row in chosen:
        target = out / f"{choice.case}.nii.gz"
        kept = target.exists() and not is_untouched(target, earlier)
        if kept:
            written |= {case: earlier[case] for case in (choice.case,) if case in earlier}
        else:
            with atomic_path(target) as temporary:
                copyfile(row.prediction, temporary)
            written[choice.case] = content_hash(target)
        rows.append(Draft(choice, row.images, target, kept))
    # What others have begun to correct is still known to have been a draft.
    kept_on = {case: known for case, known in earlier.items() if case not in wanted}
    there = {case: known for case, known in kept_on.items() if (out / f"{case}.nii.gz").exists()}
    write_json(out / DRAFTS_FILE, {"run": str(run), "drafts": there | written})
    return rows


def read_drafts(folder: Path) -> Mapping[str, str]:
    """The drafts that were written to a folder, as they were; none where there are none."""
    file = folder / DRAFTS_FILE
    return checked(Drafts, read_json(file), str(file)).drafts if file.is_file() else {}


def is_untouched(file: Path, drafts: Mapping[str, str]) -> bool:
    """Whether a file is a draft that nobody has changed."""
    case = file.name.removesuffix(".nii.gz")
    return file.is_file() and case in drafts and content_hash(file) == drafts[case]
