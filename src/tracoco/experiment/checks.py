"""Whether the cases of a project are enough for the settings of a run."""

from pathlib import Path

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.methods import method_row
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
