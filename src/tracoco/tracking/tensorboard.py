"""TensorBoard: event files in the folder `tensorboard` of a run, which nothing leaves."""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tracoco.tracking.tracker import Pixels, Status, TrackedRun


class _HidingWriters:
    """Shows errors of threads as before, but for those of TensorBoard's own threads.

    Theirs are raised again where the next figure is written, and told there in one line.
    """

    def __init__(self, shown: Callable[[threading.ExceptHookArgs], object]) -> None:
        self.shown = shown

    def __call__(self, failed: threading.ExceptHookArgs) -> None:
        if not type(failed.thread).__module__.startswith("tensorboard."):
            self.shown(failed)


class TensorBoard:
    """Writes event files, and forgets earlier ones of steps that are taken again."""

    id = ""  # it is found by its folder

    def __init__(self, run: TrackedRun, _: str | None) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an optional extra

        if not isinstance(threading.excepthook, _HidingWriters):
            threading.excepthook = _HidingWriters(threading.excepthook)
        self._step = run.step
        # torch has annotations for its writer only in part.
        self._writer: Any = SummaryWriter(str(run.folder / "tensorboard"), purge_step=run.step)

    def settings(self, values: Mapping[str, Any]) -> None:
        """Show the settings as a table."""
        rows = [f"| {name} | {json.dumps(value)} |" for name, value in values.items()]
        text = "\n".join(["| setting | value |", "| --- | --- |", *rows])
        self._writer.add_text("settings", text, self._step)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Add a point to each curve."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def picture(self, name: str, pixels: Pixels, step: int) -> None:
        """Show a picture."""
        self._writer.add_image(name, pixels, step, dataformats="HWC")

    def artefact(self, file: Path) -> None:
        """Nothing: TensorBoard keeps no files, and those of a run lie beside its own."""

    def close(self, status: Status | None) -> None:  # noqa: ARG002 - it has no word for it
        """Write what is left."""
        self._writer.close()
