"""What was asked of `tracoco init`, and which of it cannot go together."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracoco.errors import UserError, raise_all
from tracoco.project.create import SplitChoice
from tracoco.project.machine import Device


@dataclass(frozen=True, slots=True)
class InitRequest:
    """The arguments of one call."""

    data: Path
    out: Path | None
    choice: SplitChoice
    labels: Path | None = None
    layout: str | None = None
    paper_split: str | None = None
    recipe: str | None = None
    partial: bool = False
    crop_by_label: bool = False
    dimensions: Literal[2, 3] = 3
    memory_gb: float | None = None
    device: Device | None = None
    dry_run: bool = False
    workers: int | None = None
    as_json: bool = False

    @property
    def project(self) -> Path:
        """The folder to write, which only a dry run can do without."""
        if self.out is None:
            raise UserError("where to? Name the project's folder with --out, or try --dry-run")
        return self.out

    def check_new(self) -> None:
        """Refuse options that a new project cannot have together."""
        problems = []
        drawn = self.choice.validation or self.choice.test
        if drawn and (self.paper_split or self.recipe):
            which = "--paper-split" if self.paper_split else "--recipe"
            problems.append(f"{which} names all cases; leave out --validation and --test")
        if self.recipe and (self.paper_split or self.labels or self.layout):
            problems.append(
                "--recipe knows files and split; leave out --paper-split, --labels and --layout"
            )
        if not self.recipe and (self.partial or self.crop_by_label):
            problems.append("--partial and --crop-by-label are for recipes; add --recipe")
        raise_all(problems)

    def check_update(self) -> None:
        """Refuse options that would change what a project has settled."""
        settled = {
            "--validation": self.choice.validation,
            "--test": self.choice.test,
            "--hide-labels": self.choice.hide_labels,
            "--group-pattern": self.choice.group_pattern,
            "--paper-split": self.paper_split,
            "--recipe": self.recipe,
            "--memory-gb": self.memory_gb,
            "--for": self.device,
        }
        given = [option for option, value in settled.items() if value]
        if given:
            raise UserError(
                f"--update keeps split and plan of the project; leave out {', '.join(given)}, or "
                "edit splits.json and plan.yaml"
            )
