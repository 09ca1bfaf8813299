"""A tracker that keeps what it is told, and breaks where a test wants it to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tracoco.tracking import tracker as module
from tracoco.tracking.tracker import Pixels, Status, TrackedRun


@dataclass
class Recorder:
    """Stands for a kind of tracker, and for each run that it opens."""

    id: str = "first"
    breaks_at: str = ""
    """`open`, or the name of a call, e.g. `metrics`."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    installed: bool = True

    def open(self, run: TrackedRun, id_: str | None) -> "Recorder":
        self._note("open", (run, id_))
        return self

    def settings(self, values: Mapping[str, Any]) -> None:
        self._note("settings", dict(values))

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self._note("metrics", (step, dict(values)))

    def picture(self, name: str, pixels: Pixels, step: int) -> None:
        self._note("picture", (name, pixels, step))

    def artefact(self, file: Path) -> None:
        self._note("artefact", (file.name, file.read_text(encoding="utf-8")))

    def close(self, status: Status | None) -> None:
        self._note("close", status)

    def _note(self, name: str, value: Any) -> None:
        self.calls.append((name, value))
        if name == self.breaks_at:
            raise OSError("no route to host\nand much more")

    def given(self, name: str) -> list[Any]:
        """What the calls of a name were given."""
        return [value for called, value in self.calls if called == name]


def recorded(monkeypatch: pytest.MonkeyPatch, name: str = "mlflow", **more: Any) -> Recorder:
    """A recorder in the place of one of the trackers, with no TensorBoard beside it."""
    found = Recorder(**more)
    monkeypatch.setitem(module.TRACKERS, name, found)
    if name != module.ALWAYS:
        absent = module.Kind("no_such_package", "no.such:Class")
        monkeypatch.setitem(module.TRACKERS, module.ALWAYS, absent)
    return found
