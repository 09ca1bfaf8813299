"""Weights & Biases: files in the folder `wandb` of a run, or online if the user asked W&B for that.

To ask is to set WANDB_MODE=online, or `mode = online` in W&B's own settings file. To be logged in
is not to ask. `wandb sync` sends the files later.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracoco.tracking.tracker import Pixels, Status, TrackedRun

NOT_COLLECTED = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "save_code": False,
    "silent": True,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}
"""What W&B would add of the machine, the user, the code and the terminal is left out, unless the
user's settings of W&B ask for it."""
FORBIDDEN = str.maketrans(dict.fromkeys("/\\#?%:", "-"))
"""Characters that the name of a project of W&B may not have."""
MOST_CHARACTERS = 128


class WeightsAndBiases:
    """Keeps a run apart from any run of W&B that the user has open."""

    def __init__(self, run: TrackedRun, id_: str | None) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb  # noqa: PLC0415 - an optional extra

        self._wandb: Any = wandb
        theirs: Any = wandb.setup().settings
        asked = theirs.model_fields_set
        added = {name: value for name, value in NOT_COLLECTED.items() if name not in asked}
        added["host"] = os.environ.get("WANDB_HOST", "")  # W&B has found its name by itself
        project, _, of_run = (id_ or "").rpartition("/")
        project = project or theirs.project or run.project.translate(FORBIDDEN)[:MOST_CHARACTERS]
        self._run: Any = wandb.init(
            project=project,
            name=theirs.run_name or run.folder.name,
            id=of_run or None,
            resume="allow",
            mode=theirs.mode if "mode" in asked else "offline",
            dir=os.environ.get("WANDB_DIR") or str(run.folder),
            reinit="create_new",
            settings=wandb.Settings(**added),
        )
        self.id = f"{project}/{self._run.id}"
        # W&B's own steps only grow, but a resumed run takes some steps again.
        self._run.define_metric("*", step_metric="step")

    def settings(self, values: Mapping[str, Any]) -> None:
        """Keep the settings as the configuration of the run."""
        self._run.config.update(dict(values), allow_val_change=True)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to each curve."""
        self._run.log({**values, "step": step})

    def picture(self, name: str, pixels: Pixels, step: int) -> None:
        """Keep a picture among the media."""
        self._run.log({name: self._wandb.Image(pixels), "step": step})

    def artefact(self, file: Path) -> None:
        """Keep a copy among the files of the run, since W&B may read it later."""
        kept = Path(self._run.dir) / file.name
        shutil.copyfile(file, kept)
        self._run.save(str(kept), base_path=self._run.dir, policy="now")

    def close(self, status: Status | None) -> None:
        """Write or send what is left."""
        self._run.finish(exit_code=1 if status == "failed" else 0)
