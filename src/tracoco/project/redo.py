"""A plan made anew from what is known of the data; the old one is kept beside it."""

from pathlib import Path
from typing import Any

from tracoco.files import write_text
from tracoco.project.fingerprint import read_fingerprint
from tracoco.project.folder import Project
from tracoco.project.machine import Device
from tracoco.project.make_plan import make_plan
from tracoco.project.plan import Plan
from tracoco.project.plan_file import write_plan

Change = tuple[str, Any, Any]
"""A setting, its old value, its new one."""


def redo_plan(
    project: Project, memory_gb: float | None = None, device: Device | None = None
) -> list[Change]:
    """Derive all values again and say which ones changed.

    What the data does not tell stays: 2D or 3D, the classes with their names, the axes along which
    crops are mirrored, and what was known of the data set when the project was made, e.g. by a
    recipe.
    """
    old = project.load_plan()
    known = dict(project.load_origin().plan)
    said = {"label_values", "class_names", "mirror_axes"}
    kept = known | old.model_dump(include=said)
    fingerprint = read_fingerprint(project.fingerprint_file)
    new = make_plan(fingerprint, old.dimensions, overrides=kept, memory_gb=memory_gb, device=device)
    write_text(backup_file(project), project.plan_file.read_text(encoding="utf-8"))
    write_plan(project.plan_file, new)
    return _changes(old, new)


def backup_file(project: Project) -> Path:
    """Where the plan before the last one is."""
    return project.plan_file.with_name(f"{project.plan_file.name}.bak")


def _changes(old: Plan, new: Plan) -> list[Change]:
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    return [(name, before[name], after[name]) for name in before if before[name] != after[name]]
