"""Whether the cases of a project are enough for the settings of a run."""

from collections.abc import Sequence
from pathlib import Path

from tracoco.config import Config
from tracoco.data.places import has_room
from tracoco.errors import UserError
from tracoco.geometry import Index
from tracoco.methods import method_row
from tracoco.project.plan import FOR_IMPORTED, Plan
from tracoco.project.splits import Splits


def check_cases(config: Config, splits: Splits, source: Path) -> None:
    """Refuse settings that need cases which the split does not have; `source` is its file."""
    name = config.method.name
    taught = method_row(name).taught
    if taught and not (splits.unlabelled or config.data.reuse_labelled):
        raise UserError(
            f"{source} has no unlabelled cases, which '{name}' learns from; add scans without "
            "labels, hide some with data.labelled=N, set data.reuse_labelled to true, or use "
            "--method supervised"
        )
    if taught and not config.data.batch[1]:
        raise UserError(
            f"data.unlabelled_batch is 0, but '{name}' learns from unlabelled crops; "
            "set it to 2, or use --method supervised"
        )
    if config.training.select_on == "test" and not splits.test:
        raise UserError(
            f"{source} has no test cases, which training.select_on=test chooses on; "
            "leave it out, or keep test cases with `tracoco init --test N`"
        )


def check_slices(config: Config, plan: Plan) -> None:
    """Refuse to sample slices where networks see volumes."""
    if plan.dimensions == 3 and config.data.slice_sampling == "uniform":
        raise UserError(
            "data.slice_sampling=uniform is for 2D projects, and networks see volumes here; "
            "leave it out"
        )


def room_warning(shapes: Sequence[Index], crop: Index, room: float) -> list[str]:
    """A line if some scans leave crops no other place along any axis, else nothing.

    Args:
        shapes: of the stored scans that crops are drawn from.
        crop: size of a crop in the same axis order.
        room: `DataConfig.room`.
    """
    still = sum(not has_room(shape, crop, room) for shape in shapes)
    if not still:
        return []
    size = " x ".join(str(n) for n in crop if n > 1)
    return [
        f"warning: {still} of {len(shapes)} scans leave crops of {size} voxels no room to "
        "translate: there both crops of a pair are the same, and translation consistency compares "
        "two noisy passes of one crop. Make data.crop smaller, or set data.room=0.25 to let crops "
        "reach beyond the scan"
    ]


def check_plan(plan: Plan, source: Path) -> None:
    """Refuse what only imported networks are for: trainings expect normalised intensities."""
    changed = [name for name in FOR_IMPORTED if name not in plan.as_always]
    if changed:
        raise UserError(
            f"{source} sets {' and '.join(changed)}, which is for imported networks and not for "
            "training; take it out, and prepare the project again"
        )
