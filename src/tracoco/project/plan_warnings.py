"""What a plan cannot do for want of room, memory or spacing."""

from collections.abc import Iterator

from tracoco.project.fingerprint import Fingerprint
from tracoco.project.machine import Machine
from tracoco.project.make_plan import stored_shapes
from tracoco.project.memory_budget import plan_gb
from tracoco.project.plan import Plan


def plan_warnings(plan: Plan, fingerprint: Fingerprint, machine: Machine) -> list[str]:
    """What a person should know before a training starts."""
    return [
        *_unknown_spacing(fingerprint),
        *_room(plan, fingerprint),
        *_memory(plan, machine),
    ]


def _unknown_spacing(fingerprint: Fingerprint) -> Iterator[str]:
    unknown = sum(not case.placed for case in fingerprint.cases)
    if unknown:
        yield (
            f"{unknown} of {len(fingerprint.cases)} scans do not state their spacing: 1 mm is "
            "assumed for them, so their distances are in voxels"
        )


def _room(plan: Plan, fingerprint: Fingerprint) -> Iterator[str]:
    """Translation consistency needs scans that are larger than a crop, at least along one axis."""
    shapes = stored_shapes(plan, fingerprint)
    axes = range(3 - plan.dimensions, 3)
    for axis in axes:
        without = sum(shape[axis] <= plan.crop[axis] for shape in shapes)
        if without:
            yield (
                f"no room to translate along axis {axis} in {without} of {len(shapes)} scans: the "
                f"crop has {plan.crop[axis]} voxels there"
            )
    still = sum(all(shape[axis] <= plan.crop[axis] for axis in axes) for shape in shapes)
    if still:
        yield (
            f"{still} of {len(shapes)} scans are no larger than a crop: translation consistency "
            "teaches nothing on them; make crop smaller in plan.yaml"
        )


def _memory(plan: Plan, machine: Machine) -> Iterator[str]:
    needed = plan_gb(plan)
    if needed > machine.budget_gb:
        yield (
            f"a training takes about {needed:.2g} GB, more than {machine.budget_gb:.3g} GB; make "
            "crop, filters or batch smaller in plan.yaml"
        )
