"""Fill the store of a project; what is done already is not done again."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tracoco.errors import UserError, collected, raise_all
from tracoco.files import read_json, write_json
from tracoco.project.cases import Case, source_bytes, source_hashes, source_stamps, unsafe_ids
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.project.prepared import prepare_case
from tracoco.project.store import facts_file, has_arrays, remove_abandoned, write_case
from tracoco.project.survey import death_of
from tracoco.project.workers import in_parallel, suitable_workers


@dataclass(frozen=True, slots=True)
class PrepareTask:
    """A case that the store does not have as it is now."""

    case: Case
    plan: Plan
    root: Path


def prepare(
    project: Project, on_case: Callable[[str], None] | None = None, workers: int | None = 1
) -> int:
    """Bring all cases to the store; those that have not changed since are left as they are.

    Args:
        project: its splits say which cases are prepared, and which labels may be opened.
        on_case: called with the id of each case once it is dealt with.
        workers: processes, each with one case in memory; None for as many as suit the machine and
            the data.

    Returns:
        How many cases the store now holds for the project.
    """
    plan, root, cases = project.load_plan(), project.store_root, _visible_cases(project)
    remove_abandoned(root)
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
        facts = {"id": case.id, "plan": plan.hash(), "sources": source_hashes(case)}
        known = _known_facts(root, case)
        if facts.items() <= known.items():  # copied or touched: the same content as before
            write_json(facts_file(root, case.id), known | {"stamps": stamps})
            return []
        prepared = prepare_case(case, plan)
    if prepared:  # a disk that is full ends the work at once, so this is not collected
        write_case(root, facts | {"stamps": stamps}, prepared, plan)
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
    raise_all(unsafe_ids(splits.ids))
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
        return bool(known.get("stamps") == source_stamps(case))
    except UserError:  # it is told with the others, once all are gone through
        return False


def _known_facts(root: Path, case: Case) -> dict[str, Any]:
    """What the store knows of a case, or nothing if an array is missing."""
    file = facts_file(root, case.id)
    if not (file.is_file() and has_arrays(root, case.id, labelled=case.label is not None)):
        return {}
    facts: dict[str, Any] = read_json(file)
    return facts


def _lost(task: PrepareTask, how: str) -> list[str]:
    return [death_of(task.case, how)]


def _one_thread() -> None:
    """Processes share the cores; threads in each would only get in one another's way."""
    torch.set_num_threads(1)
