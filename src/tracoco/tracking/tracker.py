"""What a run tells experiment trackers, which ones there are, and how one that fails is left out.

Nothing of a library is imported before a run asks for its tracker. Installed packages bring further
trackers by entry points in their `pyproject.toml`:

    [project.entry-points."tracoco.trackers"]
    my-tracker = "my_package.my_module:MyTracker"
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tracoco.console import say
from tracoco.errors import UserError, check_choice, first_line
from tracoco.files import read_json, write_json

Status = Literal["finished", "stopped", "failed"]
Pixels = NDArray[np.uint8]
"""A picture in colours, [height, width, 3]."""
RECORD = "tracking.json"
"""File in a run's folder: the name of each tracker, and the id that the run has there."""


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """What a tracker has to know of a run before the run begins or goes on."""

    folder: Path
    project: str
    """Name of the project, under which trackers keep new runs."""
    step: int
    """The first step that is still to be taken."""


class Tracker(Protocol):
    """One run as one tracker keeps it. It is made of a `TrackedRun` and the id of that run, if any.

    Any of these may raise whatever the library raises.
    """

    @property
    def id(self) -> str:
        """Names the run, so that a later process goes on with it; empty where none is needed."""

    def settings(self, values: Mapping[str, Any]) -> None:
        """Keep the resolved settings by name; the training begins or goes on with this."""

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Keep the figures of one step."""

    def picture(self, name: str, pixels: Pixels, step: int) -> None:
        """Keep a picture as it is at one step."""

    def artefact(self, file: Path) -> None:
        """Keep a file under its name, in place of an earlier one."""

    def close(self, status: Status | None) -> None:
        """Send what is left. `status` is how the training ended; None leaves what is known."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A tracker that there is; the extra that installs one of this package has its name."""

    package: str | None
    """What must be importable; None if what brings the tracker is installed as such."""
    target: str
    """Module and class."""

    @property
    def installed(self) -> bool:
        """Whether the package is there; a folder that happens to have its name is none."""
        if self.package is None:
            return True
        found = find_spec(self.package)
        return found is not None and found.origin is not None

    def open(self, run: TrackedRun, id_: str | None) -> Tracker:
        """Begin a run, or go on with that of an id."""
        module, name = self.target.split(":")
        tracker: Tracker = getattr(import_module(module), name)(run, id_)
        return tracker


TRACKERS = {
    "tensorboard": Kind("tensorboard", "tracoco.tracking.tensorboard:TensorBoard"),
    "mlflow": Kind("mlflow", "tracoco.tracking.mlflow:MLflow"),
    "wandb": Kind("wandb", "tracoco.tracking.wandb:WeightsAndBiases"),
}
ALWAYS = "tensorboard"
"""The tracker that every run has where it is installed."""
GROUP = "tracoco.trackers"
"""Entry points of further trackers."""


def known_trackers() -> dict[str, Kind]:
    """The trackers of this package, and those of installed packages that have other names."""
    brought = {point.name: Kind(None, point.value) for point in entry_points(group=GROUP)}
    return brought | TRACKERS


def check_installed(names: Collection[str]) -> None:
    """Refuse trackers that there are not, or whose extra is missing, before a training begins."""
    known = known_trackers()
    for name in names:
        check_choice("tracker", name, known)
    missing = [name for name in names if not known[name].installed]
    if missing:
        raise UserError(
            f"{' and '.join(missing)} cannot track this run without an extra; pip install "
            f"'tracoco[{','.join(missing)}]', or leave out --track {','.join(missing)}"
        )


class Tracking:
    """The trackers of a run. One that fails is told of once and left out from there on."""

    def __init__(self, trackers: Mapping[str, Tracker]) -> None:
        self._trackers = dict(trackers)

    def __bool__(self) -> bool:
        return bool(self._trackers)

    def settings(self, values: Mapping[str, Any]) -> None:
        """Keep the resolved settings by name."""
        self._each(lambda tracker: tracker.settings(values))

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Keep the figures of one step."""
        self._each(lambda tracker: tracker.metrics(values, step))

    def picture(self, name: str, pixels: Pixels, step: int) -> None:
        """Keep a picture as it is at one step."""
        self._each(lambda tracker: tracker.picture(name, pixels, step))

    def artefact(self, file: Path) -> None:
        """Keep a file under its name."""
        self._each(lambda tracker: tracker.artefact(file))

    def close(self, status: Status | None = None) -> None:
        """Send what is left."""
        self._each(lambda tracker: tracker.close(status))

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                call(tracker)
            except Exception as error:  # noqa: BLE001 - no fault of a library may end a training
                del self._trackers[name]
                _warn(name, error)


UNTRACKED = Tracking({})


def _warn(name: str, error: Exception) -> None:
    say(f"warning: {name} keeps nothing more of this run: {first_line(error)}; the run goes on")


def open_trackers(run: TrackedRun, names: Collection[str] = ()) -> Tracking:
    """The trackers of a run: those that its folder names, further ones, and the one of every run.

    Ids of trackers that are new to the run are recorded in its folder at once.
    """
    known = recorded_ids(run.folder)
    always = (ALWAYS,) if TRACKERS[ALWAYS].installed else ()
    opened = _opened(run, (*always, *known, *names), known)
    ids = known | {name: tracker.id for name, tracker in opened.items() if tracker.id}
    if ids != known:
        write_json(run.folder / RECORD, ids)
    return Tracking(opened)


def recorded_trackers(folder: Path) -> Tracking:
    """The trackers that a run's folder names, to give them more after the training."""
    known = recorded_ids(folder)
    return Tracking(_opened(TrackedRun(folder, "", 0), known, known))


def _opened(
    run: TrackedRun, names: Collection[str], known: Mapping[str, str]
) -> dict[str, Tracker]:
    found: dict[str, Tracker] = {}
    kinds = known_trackers()
    for name in dict.fromkeys(names):
        try:
            found[name] = kinds[name].open(run, known.get(name))
        except Exception as error:  # noqa: BLE001 - no fault of a library may end a training
            _warn(name, error)
    return found


def recorded_ids(folder: Path) -> dict[str, str]:
    """The id that a run has in each of its trackers."""
    path = folder / RECORD
    ids = read_json(path) if path.exists() else {}
    if not (isinstance(ids, dict) and all(isinstance(ids[name], str) for name in ids)):
        raise UserError(f"{path} does not name trackers and ids; delete it to track the run anew")
    kinds = known_trackers() if ids else {}
    return {name: id_ for name, id_ in ids.items() if name in kinds}
