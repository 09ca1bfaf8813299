"""`tracoco init`: a new project, or more scans for one that exists."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from shutil import rmtree
from typing import TYPE_CHECKING

from rich.console import Console

from tracoco.cli.init_request import InitRequest
from tracoco.cli.pairing import pairing_json, print_notes, print_pairing
from tracoco.console import counted, print_json, progress_console
from tracoco.errors import UserError
from tracoco.project.create import Proposal, check_free, create_project, propose
from tracoco.project.folder import Project
from tracoco.project.layouts import LAYOUTS, Found, find_cases
from tracoco.project.transaction import only_writer
from tracoco.project.update import Update, apply_update, propose_update
from tracoco.studies.paper.case_lists import listed_splits

if TYPE_CHECKING:
    from tracoco.studies.paper.recipe import Recipe

WRITTEN_SCANS = "scans"
"""Folder of a project with the scans that a recipe had to change."""


def make_project(request: InitRequest) -> None:
    """Propose a project; write it unless it is a dry run."""
    request.check_new()
    if request.dry_run:
        _show(_proposal(request, _found(request)), request)
        return
    check_free(request.project)
    with _written(request) as found:
        proposal = _proposal(request, found)
        with counted("looking at scans", len(proposal.cases), _console(request)) as on_case:
            project = create_project(
                request.project,
                proposal,
                request.dimensions,
                memory_gb=request.memory_gb,
                device=request.device,
                workers=request.workers,
                on_case=on_case,
            )
    if request.as_json:
        print_json({"project": str(project.root), **pairing_json(proposal)})
        return
    print_notes(proposal)
    plan = project.load_plan()
    crop = " x ".join(map(str, plan.crop))
    print(
        f"crops of {crop} voxels, {plan.filters} filters, {plan.steps} steps; "
        f"edit {project.plan_file} to change"
    )
    print(f"next: tracoco check {project.root}, or at once tracoco prepare {project.root}")


def update_project(request: InitRequest) -> None:
    """Say what is new in the data, and add it unless it is a dry run."""
    request.check_update()
    project = Project(request.project)
    before = project.load_origin().layout
    if before and before not in {row.name for row in LAYOUTS}:
        raise UserError(
            f"{project.root} was made by a {before}, whose cases are fixed; "
            "make a project without a recipe to add scans to"
        )
    found = find_cases(request.data, request.labels, request.layout or before or None)
    with nullcontext() if request.dry_run else only_writer(project.root):
        update = propose_update(project, found)
        changed = update.changed and not request.dry_run
        if changed:
            _apply(project, update, request)
    if request.as_json:
        print_json({"project": str(project.root), **pairing_json(update.proposal, update)})
        return
    print_pairing(update.proposal, update)
    print(
        f"{len(update.added)} added, {len(update.newly_labelled)} newly labelled, "
        f"{update.unchanged} unchanged"
    )
    if changed:
        print(f"next: tracoco prepare {project.root}")


def _apply(project: Project, update: Update, request: InitRequest) -> None:
    scans = len(update.proposal.cases)
    with counted("looking at scans", scans, _console(request)) as on_case:
        apply_update(project, update, workers=request.workers, on_case=on_case)


def _found(request: InitRequest) -> Found:
    if request.recipe:
        from tracoco.studies.paper.recipe import apply_recipe

        recipe = apply_recipe(request.recipe, request.data, partial=request.partial)
        return _as_found(request.recipe, recipe)
    return find_cases(request.data, request.labels, request.layout)


def _proposal(request: InitRequest, found: Found) -> Proposal:
    lists = partial(listed_splits, request.paper_split) if request.paper_split else None
    return propose(found, replace(request.choice, lists=lists))


@contextmanager
def _written(request: InitRequest) -> Iterator[Found]:
    """The cases, with those scans written that a recipe changes; a failure takes them back."""
    if not request.recipe:
        yield _found(request)
        return
    from tracoco.studies.paper.recipe import apply_recipe, write_scans

    recipe = apply_recipe(request.recipe, request.data, partial=request.partial)
    root, folder = request.project, request.project / WRITTEN_SCANS
    existed = root.exists()
    try:
        with counted("writing scans", len(recipe.cases), _console(request)) as on_case:
            crop = request.crop_by_label
            recipe = write_scans(recipe, folder, crop_by_label=crop, on_case=on_case)
        yield _as_found(request.recipe, recipe)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        if root.is_dir() and not existed:
            root.rmdir()
        raise


def _as_found(name: str, recipe: "Recipe") -> Found:
    return Found(
        recipe.cases,
        recipe.class_names,
        recipe.splits,
        notes=recipe.notes,
        layout=f"recipe {name}",
        plan=recipe.plan,
        watermark=recipe.watermark,
    )


def _show(proposal: Proposal, request: InitRequest) -> None:
    if request.as_json:
        print_json(pairing_json(proposal))
    else:
        print_pairing(proposal)


def _console(request: InitRequest) -> Console | None:
    return None if request.as_json else progress_console()
