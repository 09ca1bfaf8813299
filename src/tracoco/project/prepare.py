"""Bring the scans of a project to the network's grid and fill the store with them."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tracoco.errors import UserError, collected, raise_all
from tracoco.geometry import Box
from tracoco.lock import shard_writer
from tracoco.processes import Shard, shard_of
from tracoco.project.cases import Case, CaseOrigin, source_bytes, source_hashes, source_stamps
from tracoco.project.folder import Project
from tracoco.project.labels import read_drawn
from tracoco.project.plan import Plan
from tracoco.project.preprocess import (
    check_channels,
    class_indices,
    is_drawn,
    is_structure,
    kept_box,
    label_to_network_grid,
    to_network_grid,
)
from tracoco.project.store import (
    PreparedCase,
    array_digests,
    facts_file,
    has_arrays,
    read_facts,
    write_case,
    write_facts,
)
from tracoco.project.survey import death_of
from tracoco.project.workers import in_parallel, suitable_workers
from tracoco.scans.reader import read_images
from tracoco.scans.scan import LabelScan, Scan, Shape, Spacing


@dataclass(frozen=True, slots=True)
class PrepareTask:
    """A case that the store does not have as it is now."""

    case: Case
    plan: Plan
    root: Path


def prepare(
    project: Project,
    on_case: Callable[[str], None] | None = None,
    workers: int | None = 1,
    shard: Shard | None = None,
) -> int:
    """Bring all cases to the store; those that have not changed since are left as they are.

    Args:
        project: its splits say which cases are prepared, and which labels may be opened.
        on_case: called with the id of each case once it is dealt with.
        workers: processes, each with one case in memory; None for as many as suit the machine and
            the data.
        shard: (k, n) for the k-th of n parts of the cases; all of them if not given.

    Returns:
        How many of these cases the store now holds.
    """
    with shard_writer(project.store_root, "prepare", shard):
        return _prepare(project, on_case, workers, shard or (1, 1))


def _prepare(
    project: Project, on_case: Callable[[str], None] | None, workers: int | None, shard: Shard
) -> int:
    plan, root = project.load_plan(), project.store_root
    cases = shard_of(_visible_cases(project), shard)
    plan_hash = plan.hash()
    tasks = []
    for case in cases:
        if not _is_current(root, case, plan_hash):
            tasks.append(PrepareTask(case, plan, root))
        elif on_case:
            on_case(case.id)
    problems = _prepare_all(tasks, on_case, workers)
    raise_all([problem for case in cases for problem in problems.get(case.id, ())])
    return len(cases)


def prepare_one(task: PrepareTask) -> list[str]:
    """Bring one case to the store; say what the user has to change in it."""
    case, plan, root = task.case, task.plan, task.root
    problems: list[str] = []
    prepared = None
    with collected(problems):
        stamps = source_stamps(case)  # before anything is read: a later change must be noticed
        origin = CaseOrigin(case.id, plan.hash(), source_hashes(case), stamps)
        known = _known_facts(root, case)
        before = [known.get(key) for key in ("id", "plan", "sources")]
        if before == [origin.id, origin.plan, origin.sources.to_json()]:  # copied, or touched
            write_facts(facts_file(root, case.id), known | {"stamps": stamps.to_json()})
            return []
        prepared = prepare_case(case, plan)
    if prepared:  # a disk that is full ends the work at once, so this is not collected
        write_case(root, origin, prepared, plan)
    return problems


def _prepare_all(
    tasks: list[PrepareTask], on_case: Callable[[str], None] | None, workers: int | None
) -> dict[str, list[str]]:
    if workers is None:
        workers = suitable_workers(sum(source_bytes(task.case) for task in tasks))
    problems = {}
    results = in_parallel(prepare_one, tasks, workers, died=_lost, begin=_one_thread)
    with closing(results):
        for task, found in results:
            problems[task.case.id] = found
            if on_case:
                on_case(task.case.id)
    return problems


def _visible_cases(project: Project) -> list[Case]:
    """The cases of the splits; from here on an unlabelled one has no label at all."""
    splits = project.load_splits()
    wanted, annotated = set(splits.ids), splits.annotated
    return [
        case if case.id in annotated else replace(case, label=None)
        for case in project.load_cases()
        if case.id in wanted
    ]


def _is_current(root: Path, case: Case, plan_hash: str) -> bool:
    """Whether a case is prepared, by the size and time of its files: no content is read."""
    known = _known_facts(root, case)
    if known.get("plan") != plan_hash:
        return False
    try:
        return bool(known.get("stamps") == source_stamps(case).to_json())
    except UserError:  # it is told with the others, once all are gone through
        return False


def _known_facts(root: Path, case: Case) -> dict[str, Any]:
    """What the store knows of a case, or nothing if a file is missing or not as it was written.

    All arrays are read for this. Those of earlier versions get their digests now.
    """
    file = facts_file(root, case.id)
    if not file.is_file():
        return {}
    try:
        facts = read_facts(file)
        undrawn = facts.get("undrawn_voxels", 0)
        if not has_arrays(root, case.id, labelled=case.label is not None, undrawn=undrawn):
            return {}
        found = array_digests(root, facts)
    except (UserError, KeyError, OSError):
        return {}
    if "arrays" not in facts:
        facts |= {"arrays": found}
        write_facts(file, facts)
    return facts if facts["arrays"] == found else {}


def _lost(task: PrepareTask, how: str) -> list[str]:
    return [death_of(task.case, how)]


def _one_thread() -> None:
    """Processes share the cores; threads in each would only get in one another's way."""
    torch.set_num_threads(1)


VOXELS = {
    "above_background": "its voxels above the constant background",
    "above_air": "its voxels brighter than air",
    "all": "all its voxels",
}
"""`Plan.statistics_over` in words."""


def prepare_case(case: Case, plan: Plan) -> PreparedCase:
    """Read a case and bring it to the network's grid; its label is opened only if it has one."""
    scan = read_images(case.images)
    label = None
    if case.label:
        label = read_drawn(case.label, scan.header, plan.label_rule, case.drawn)
    return prepare_scans(scan, label, plan)


def prepare_scans(scan: Scan, label: LabelScan | None, plan: Plan) -> PreparedCase:
    """Check an image, and bring it and its label to the network's grid.

    The label lies on the voxels of the image, as `read_drawn` gives it.
    """
    about = scan.header
    check_channels(about.channels, plan, about.source)
    box = kept_box(scan.array, plan)
    image = to_network_grid(scan.array, scan.spacing_mm, plan, box, about.source)
    indices, lost = _prepare_label(label, scan.spacing_mm, plan, box) if label else (None, 0)
    a, b, c = (
        box.size[axis] * about.spacing_mm[axis] / length
        for axis, length in zip(plan.stored_axes, image.shape[1:], strict=True)
    )
    steps = (
        "axes turned to right, anterior, superior",
        *_cropping(about.shape, box, lost),
        *_undrawn(indices),
        *(f"channel {number} {_clipping(plan, number)}" for number in range(plan.channels)),
        f"axes {plan.stored_axes} stored in this order",
        f"resampled from {box.size} voxels of {about.spacing_mm} mm",
    )
    return PreparedCase(image, indices, (a, b, c), about.shape, box, steps)


def _prepare_label(
    label: LabelScan, spacing_mm: Spacing, plan: Plan, box: Box
) -> tuple[NDArray[np.uint8], int]:
    """The label of the part that is kept, and how many voxels of structures lie outside of it."""
    indices = class_indices(label.array, plan, label.source)
    kept = indices[box.slices]
    lost = int(np.count_nonzero(is_structure(indices)) - np.count_nonzero(is_structure(kept)))
    stored = label_to_network_grid(kept, spacing_mm, plan)
    if not is_drawn(stored).any():
        raise UserError(
            f"{label.source} has no drawn voxel left in what is stored of its scan: its slices lie "
            "outside, or are too thin for spacing_mm in plan.yaml; draw more, or remove the file"
        )
    return stored, lost


def _cropping(shape: Shape, box: Box, lost: int) -> Iterator[str]:
    if box.size != shape:
        yield f"voxels {box.start} to before {box.stop} of {shape}: the rest is a constant margin"
    if lost:
        yield f"{lost} labelled voxels lost, which lie in that margin"


def _undrawn(indices: NDArray[np.uint8] | None) -> Iterator[str]:
    count = 0 if indices is None else int(np.count_nonzero(~is_drawn(indices)))
    if count:
        yield f"{count} stored voxels are not drawn, and count as unlabelled"


def _clipping(plan: Plan, channel: int) -> str:
    window = plan.window[channel]
    percentiles = f"percentiles {plan.low_percentile} and {plan.high_percentile}"
    ends = f"{window[0]} and {window[1]}" if window else f"its {percentiles}"
    if plan.normalisation == "range":
        return f"clipped at {ends} and scaled to [0, 1]"
    if window:
        mean, sd = plan.window_scale(channel, window)
        return f"clipped at {ends}, less {mean:g}, divided by {sd:g}"
    voxels = VOXELS[plan.statistics_over[channel]]
    return f"less the mean and divided by the deviation of {voxels}, clipped at {percentiles}"
