"""One run of a grid, by what makes it different from all others."""

from dataclasses import dataclass
from pathlib import Path

from tracoco.config import Config, recorded_settings
from tracoco.methods.method import resolved_choice
from tracoco.presets import load_config
from tracoco.project.digest import digest


@dataclass(frozen=True, slots=True)
class RunSpec:
    """A preset, or none, and what is changed in it; the seed stands apart."""

    preset: str | None
    changes: tuple[str, ...] = ()
    """`KEY=VALUE`, the last one wins."""

    def config(self, seed: int) -> Config:
        """The settings of one seed, with those of the method spelt out."""
        config = load_config(self.preset, [*self.changes, f"seed={seed}"])
        return config.model_copy(update={"method": resolved_choice(config.method)})

    def folder(self, root: Path, seed: int, data: str = "") -> Path:
        """Where the run lies: two grids that ask for the same run share it.

        Args:
            root: the folder of all runs.
            seed: of this one.
            data: a digest of splits, plan and scans; other data is another run.
        """
        config = self.config(seed)
        settings = {key: v for key, v in recorded_settings(config).items() if key != "seed"}
        labels = "" if config.data.labelled is None else f"-{config.data.labelled}labels"
        return root / f"{config.method.name}{labels}-{digest([settings, data])[:8]}-seed{seed}"
