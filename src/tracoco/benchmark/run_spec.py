"""One run of a grid, by what makes it different from all others."""

from dataclasses import dataclass
from pathlib import Path

from tracoco.config import Config, recorded_settings
from tracoco.methods.method import resolved_choice
from tracoco.presets import load_config
from tracoco.project.digest import digest
from tracoco.project.plan import Plan
from tracoco.training.build import planned


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A preset, or none, and what is changed in it; the seed stands apart."""

    preset: str | None
    changes: tuple[str, ...] = ()
    """`KEY=VALUE`, the last one wins."""

    def config(self, seed: int, plan: Plan | None = None) -> Config:
        """The settings of one seed, with those of the method spelt out.

        With a plan, its width, steps and precision stand where the settings have none.
        """
        config = load_config(self.preset, [*self.changes, f"seed={seed}"])
        config = config.model_copy(update={"method": resolved_choice(config.method)})
        return planned(config, plan) if plan else config

    def folder(self, root: Path, seed: int, data: str = "", plan: Plan | None = None) -> Path:
        """Where the run lies: two grids that ask for the same run share it.

        Args:
            root: the folder of all runs.
            seed: of this one.
            data: a digest of splits, plan and scans; other data is another run.
            plan: the project's.
        """
        config = self.config(seed, plan)
        settings = {key: v for key, v in recorded_settings(config).items() if key != "seed"}
        labels = "" if config.data.labelled is None else f"-{config.data.labelled}labels"
        return root / f"{config.method.name}{labels}-{digest([settings, data])[:8]}-seed{seed}"
