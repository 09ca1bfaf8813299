"""New and corrected labels for scans of a project: found, checked, and taken into it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracoco.errors import UserError, collected, raise_all
from tracoco.labelling.next_scans import is_untouched, read_drafts
from tracoco.lock import only_writer
from tracoco.project.cases import ALL_DRAWN, Case
from tracoco.project.create import OnCase, Proposal
from tracoco.project.folder import Project
from tracoco.project.labels import UNDRAWN, as_drawn
from tracoco.project.plan import Plan
from tracoco.project.splits import Splits, check_splits
from tracoco.project.update import Update, apply_update
from tracoco.scans.reader import case_name, read_grid, read_grids, read_label, scans_in, write_label
from tracoco.scans.scan import LabelScan, Structure
from tracoco.text import listed

MOST_LAYERS = 64
"""Volumes of the image's size that a label may have; segments of 3D Slicer can lie in layers."""
TAKEN = "labelling/labels"
"""Folder of a project with the labels that were taken into it, a folder for each time."""


@dataclass(frozen=True, slots=True)
class NewLabels:
    """Labels that differ from those of the project, and those that were left out."""

    added: tuple[str, ...] = ()
    """Scans that had no label."""
    corrected: tuple[str, ...] = ()
    """Scans that had another one."""
    unchanged: tuple[str, ...] = ()
    """Scans whose label the project has already."""
    drafts: tuple[str, ...] = ()
    """Drafts that nobody has changed."""
    empty: tuple[str, ...] = ()
    """Labels without any structure; they are taken."""

    @property
    def taken(self) -> tuple[str, ...]:
        """All that the project did not have."""
        return (*self.added, *self.corrected)


def take_labels(
    project: Project,
    folder: Path,
    *,
    accept_drafts: bool = False,
    workers: int | None = 1,
    on_case: OnCase | None = None,
) -> NewLabels:
    """Take the labels of a folder into the project; all of them, or none if one has a problem.

    Each is written again as NIfTI on the grid of its scan, into a folder of the project, so that
    the files that were given may go. Validation and test cases keep their labels.

    Args:
        project: the project.
        folder: one file for each scan, by the scan's name.
        accept_drafts: take drafts that nobody has changed, too.
        workers: processes that look at the scans of the project.
        on_case: called with each scan that was looked at.
    """
    with only_writer(project.root, "update"):
        files = label_files(folder)
        drafts = read_drafts(folder)
        untouched = {path for path in files if is_untouched(path, drafts)}
        if not accept_drafts:
            files = [path for path in files if path not in untouched]
        splits, cases = project.load_splits(), {case.id: case for case in project.load_cases()}
        by_case = _by_case(files, cases, splits, project)
        labels = _checked(by_case, cases, project.load_plan())
        new = _sorted_out(labels, cases, splits, project.load_plan())
        left = tuple(sorted(case_name(path) for path in untouched)) if not accept_drafts else ()
        new = replace(new, drafts=tuple(case for case in left if case not in by_case))
        if new.taken:
            _apply(project, new, {case: labels[case] for case in new.taken}, workers, on_case)
    return new


def label_files(folder: Path) -> list[Path]:
    """The label files of a folder."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; give the folder that the corrected labels are in")
    found = [path for path in scans_in(folder) if path.is_file()]
    if not found:
        raise UserError(f"{folder} holds no label; save the corrected labels there")
    return found


def _by_case(
    files: list[Path], cases: Mapping[str, Case], splits: Splits, project: Project
) -> dict[str, Path]:
    problems, found = list[str](), dict[str, Path]()
    for path in files:
        with collected(problems):
            name = case_name(path)
            check_can_be_labelled(name, cases, splits, str(path), project)
            if name in found:
                raise UserError(f"{found[name]} and {path.name} are both '{name}'; keep one")
            found[name] = path
    raise_all(problems)
    return found


def check_can_be_labelled(
    case: str, cases: Mapping[str, Case], splits: Splits, source: str, project: Project
) -> None:
    """Refuse a label of a scan that is not in the project, or that is held out."""
    if case not in cases:
        raise UserError(
            f"{source} is of no scan of {project.root}, which has no '{case}' but "
            f"{listed(sorted(cases))}; name the file like the scan"
        )
    for part in ("test", "validation"):
        if case in splits.parts[part]:
            raise UserError(
                f"{source} is of the {part} case '{case}', whose label stays as it is: scores of "
                "earlier runs hang on it. Take the file out of the folder"
            )


def checked_label(
    path: Path, case: Case, plan: Plan, structures: Sequence[Structure] = ()
) -> LabelScan:
    """Read a label on all voxels of its scan, with the values of the plan, or refuse it.

    Args:
        path: of the label; its header is looked at before any voxel is read.
        case: the scan.
        plan: of the project.
        structures: names of the values, where the file itself has none.
    """
    image, about = read_grids(case.images), read_grid(path)
    if prod(about.shape) * about.channels > MOST_LAYERS * prod(image.shape):
        raise UserError(
            f"{path} has the shape {about.shape}, which is no part of its image {image.source} "
            f"with {image.shape}; save it on the voxels of the image"
        )
    label = read_label(path)
    if structures and not label.structures:
        label = replace(label, structures=tuple(structures))
    label = as_drawn(label, image, plan.label_rule)
    array, undrawn = label.array, label.array == UNDRAWN
    unknown = sorted(set(np.unique(array[~undrawn]).tolist()) - set(plan.label_values))
    if unknown:
        known = zip(plan.label_values, plan.class_names, strict=True)
        raise UserError(
            f"{path} has the label values {listed([*map(str, unknown)])}, which the project "
            f"does not know; it has {', '.join(f'{value} ({name})' for value, name in known)}"
        )
    if not undrawn.any():
        return label
    if plan.ignore_label is None:
        raise UserError(
            f"{path} has voxels that are not drawn, and plan.yaml has no ignore_label to mark them "
            "by; choose a value for it there"
        )
    return replace(label, array=np.where(undrawn, plan.ignore_label, array))


def _checked(by_case: Mapping[str, Path], cases: Mapping[str, Case], plan: Plan) -> dict[str, Path]:
    """The same files, each of which was read once; no more than one is in memory."""
    problems: list[str] = []
    for case, path in by_case.items():
        with collected(problems):
            checked_label(path, cases[case], plan)
    raise_all(problems)
    return dict(by_case)


def _sorted_out(
    labels: Mapping[str, Path], cases: Mapping[str, Case], splits: Splits, plan: Plan
) -> NewLabels:
    added, corrected, unchanged, empty = list[str](), list[str](), list[str](), list[str]()
    for case, path in sorted(labels.items()):
        known, array = cases[case], checked_label(path, cases[case], plan).array
        if case in splits.unlabelled:
            added.append(case)
        elif _is_known(known, array, plan):
            unchanged.append(case)
            continue
        else:
            corrected.append(case)
        empty += [] if np.isin(array, plan.label_values[1:]).any() else [case]
    return NewLabels(tuple(added), tuple(corrected), tuple(unchanged), empty=tuple(empty))


def _is_known(case: Case, array: NDArray[Any], plan: Plan) -> bool:
    """Whether a label is the one that the project has."""
    if case.label is None or case.drawn != ALL_DRAWN or not case.label.is_file():
        return False
    return bool(np.array_equal(checked_label(case.label, case, plan).array, array))


def _apply(
    project: Project,
    new: NewLabels,
    labels: Mapping[str, Path],
    workers: int | None,
    on_case: OnCase | None,
) -> None:
    """Write the labels and the project's files; a failure leaves the project as it was."""
    known, splits, plan = project.load_cases(), project.load_splits(), project.load_plan()
    folder = _free_folder(project.root / TAKEN)
    try:
        written = {
            case.id: _written(labels[case.id], case, folder, plan)
            for case in known
            if case.id in labels
        }
        cases = tuple(
            replace(case, label=written[case.id], drawn=ALL_DRAWN) if case.id in written else case
            for case in known
        )
        changed = _with_labelled(splits, new.added)
        check_splits(changed, cases, "the split")
        proposal = Proposal(cases, changed, project.load_origin())
        apply_update(project, Update(proposal, (), new.taken), workers=workers, on_case=on_case)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise


def _free_folder(root: Path) -> Path:
    """A new folder: labels that are in use are never written over."""
    number = 1
    while (root / f"{number:03d}").exists():
        number += 1
    folder = root / f"{number:03d}"
    folder.mkdir(parents=True)
    return folder


def _written(label: Path, case: Case, folder: Path, plan: Plan) -> Path:
    target = (folder / f"{case.id}.nii.gz").absolute()
    found = checked_label(label, case, plan)
    write_label(target, found.array, read_grids(case.images).grid, plan.structures)
    return target


def _with_labelled(splits: Splits, added: tuple[str, ...]) -> Splits:
    """The split with cases moved from the unlabelled to the labelled ones."""
    return replace(
        splits,
        labelled=(*splits.labelled, *added),
        unlabelled=tuple(id_ for id_ in splits.unlabelled if id_ not in added),
        hidden=tuple(id_ for id_ in splits.hidden if id_ not in added),
    )
