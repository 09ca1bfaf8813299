"""What a person is told of a run before its first step."""

from collections.abc import Sequence

from tracoco.config import Config
from tracoco.data.crop import has_room
from tracoco.geometry import Size
from tracoco.methods import method_row
from tracoco.presets import released_recipe
from tracoco.project.plan import Plan
from tracoco.runs.folder import CHOSEN_ON_TEST
from tracoco.text import count
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment


def announcement(experiment: Experiment, process: Process) -> str:
    """What is about to be done, in one line; the batch is per process, so both are said."""
    config, splits, start = experiment.config, experiment.splits, experiment.start
    crops, number = sum(config.data.batch), config.data.fold
    hidden_labels = experiment.hidden_labels
    hidden = f" ({count(hidden_labels, 'label')} hidden)" if hidden_labels else ""
    fold = f"fold {number} of {len(splits.folds)} held out, " if number else ""
    on_test = CHOSEN_ON_TEST if config.training.select_on == "test" else ""
    marks = [mark for mark in (experiment.watermark, on_test) if mark]
    watermark = f"; its results will say: {'; '.join(marks)}" if marks else ""
    cautions = [method_row(config.method.name).caution, start.caution if start else ""]
    origin = f" from {start.origin}" if start else ""
    raised = ""
    if experiment.raised_from:
        before, now = ("{} + {}".format(*n) for n in (experiment.raised_from, config.data.batch))
        raised = f" (the plan's {before} are raised to {now}, which the method needs)"
    return (
        f"{config.method.name}{origin}, {config.recipe} recipe, on {process.device}: "
        f"{fold}{len(splits.labelled)} labelled{hidden} and {len(experiment.unlabelled)} "
        f"unlabelled cases, {crops} crops a step and process, {crops * process.world_size} in all"
        f"{raised}{watermark}"
        f"{''.join(f'; warning: {caution}' for caution in cautions if caution)}"
    )


def warnings(experiment: Experiment) -> list[str]:
    """What a person should know before the first step, a line each."""
    config, lines = experiment.config, experiment.start.lines() if experiment.start else []
    name = config.method.name
    if experiment.dropped:
        lines.append(
            f"warning: settings of the preset's method that are not applied to '{name}': "
            f"{', '.join(experiment.dropped)}; set method.KEY yourself where '{name}' has it"
        )
    lines += _normalisation_warning(config, experiment.plan)
    if method_row(name).pairs and config.data.overlap != "full":
        ids = (*experiment.splits.labelled, *experiment.unlabelled)
        shapes = [experiment.store.case(id_).shape for id_ in ids]
        lines += room_warning(shapes, experiment.crop, config.data.room)
    return lines


def _normalisation_warning(config: Config, plan: Plan) -> list[str]:
    """A line if the authors of the method normalise scans in another way than the plan."""
    if config.recipe != "released":
        return []
    wanted = released_recipe(config.method.name).normalisation
    if not wanted or wanted == plan.normalisation:
        return []
    return [
        f"warning: the released recipe of '{config.method.name}' is for scans normalised "
        f"by {wanted}, and the plan normalises by {plan.normalisation}; set normalisation: "
        f"{wanted} in plan.yaml and run `tracoco prepare` again to follow it"
    ]


def room_warning(shapes: Sequence[Size], crop: Size, room: float) -> list[str]:
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
