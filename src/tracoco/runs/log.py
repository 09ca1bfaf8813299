"""The log of a run: one record a step, written as one JSON object a line."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from tracoco.errors import UserError, full_disk_named
from tracoco.files import write_text
from tracoco.lock import check_held
from tracoco.methods.health import PseudoLabelHealth

BY_CLASS = {"class_fractions": "share", "common": "common", "marked": "marked"}
"""Fields of the health with a value a class, and how older logs begin the key of each value."""
MEASURED = ("agreement", "distance", "likely", "unlikely")
"""Its fields with one value."""
CLASS_LISTS = ("collapsed", "fading", "restrained", "lost")
"""Fields of a record that name classes."""


@dataclass(frozen=True, slots=True)
class UnlabelledRecord:
    """How much unlabelled crops count by the adaptive weight, and what it goes by."""

    weight: float
    """From 0 to 1, of the method's own weight."""
    known: float
    """Mean Dice on labelled crops."""
    agreement: float | None = None
    """Dice of two predictions of unlabelled crops, where the method compares two."""
    doubted: bool = False
    """Whether the weight is as small as it is because the two disagree."""
    forgotten: bool = False
    """Whether the weight falls because the Dice on labelled crops has fallen."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What is logged of one step; a number that was not recorded, or not finite, is NaN."""

    step: int
    """Counted from 0."""
    loss: float
    terms: Mapping[str, float]
    """The parts of the loss by name."""
    rate: float
    """The learning rate."""
    shift: float
    """Mean shift between the crops of a pair, as a fraction of the crop."""
    seconds: float
    health: PseudoLabelHealth
    skipped: tuple[str, ...] = ()
    """The cases of a step that overflowed and was not taken."""
    unlabelled: UnlabelledRecord | None = None
    """None where the weight of unlabelled crops is not adaptive."""
    collapsed: tuple[str, ...] = ()
    """Classes that have been all but absent from the pseudo-labels for long."""
    fading: tuple[str, ...] = ()
    """Structures of which the pseudo-labels have less and less."""
    restrained: tuple[str, ...] = ()
    """Classes that fade, so that the adaptive weight falls."""
    lost: tuple[str, ...] = ()
    """Classes whose loss sends the run back to its weights from before unlabelled crops counted."""
    validation_dice: float | None = None
    """Mean of the validation cases, at steps that score them."""
    test_dice: float | None = None
    """The same of the test cases, where these choose the best checkpoint."""

    def to_json(self) -> dict[str, Any]:
        """The line of the log; what there is nothing to say of is left out."""
        names = ("step", "loss", "terms", "rate", "shift", "seconds")
        entry: dict[str, Any] = {name: getattr(self, name) for name in names}
        entry["health"] = _health_to_json(self.health)
        if self.unlabelled:
            values = asdict(self.unlabelled)
            entry["unlabelled"] = {key: value for key, value in values.items() if value is not None}
        lists = {name: list(getattr(self, name)) for name in ("skipped", *CLASS_LISTS)}
        entry |= {name: values for name, values in lists.items() if values}
        for name, dice in (("validation", self.validation_dice), ("test", self.test_dice)):
            if dice is not None:
                entry[name] = {"dice": dice}
        return entry

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> "StepRecord":
        """Read a line of a log of any version."""
        return cls(
            step=int(entry["step"]),
            loss=_number(entry.get("loss")),
            terms={name: _number(value) for name, value in entry.get("terms", {}).items()},
            rate=_number(entry.get("rate")),
            shift=_number(entry.get("shift")),
            seconds=_number(entry.get("seconds")),
            health=_health_from_json(entry.get("health", {})),
            skipped=tuple(entry.get("skipped", ())),
            unlabelled=_unlabelled_from_json(entry["unlabelled"])
            if "unlabelled" in entry
            else None,
            **{name: tuple(entry.get(name, ())) for name in CLASS_LISTS},
            validation_dice=_optional(entry.get("validation", {}).get("dice")),
            test_dice=_optional(entry.get("test", {}).get("dice")),
        )


def _unlabelled_from_json(entry: Mapping[str, Any] | None) -> UnlabelledRecord | None:
    if entry is None:
        return None
    return UnlabelledRecord(
        weight=_number(entry["weight"]),
        known=_number(entry["known"]),
        agreement=entry.get("agreement"),
        doubted=entry.get("doubted", False),
        forgotten=entry.get("forgotten", False),
    )


def _health_to_json(health: PseudoLabelHealth) -> dict[str, Any]:
    lists = {name: list(getattr(health, name)) for name in BY_CLASS}
    measured = {name: getattr(health, name) for name in MEASURED}
    return {
        **{name: values for name, values in lists.items() if values},
        **{name: value for name, value in measured.items() if value is not None},
        **health.further,
    }


def _health_from_json(entry: Mapping[str, Any]) -> PseudoLabelHealth:
    """Older logs have a key a class: `share/0` is the first of `class_fractions`."""
    values: dict[str, Any] = {name: _number(entry[name]) for name in MEASURED if name in entry}
    for name, older in BY_CLASS.items():
        found = entry[name] if name in entry else _by_class(entry, older)
        values[name] = tuple(map(_number, found))
    further = {
        name: _number(value)
        for name, value in entry.items()
        if name not in values and "/" not in name
    }
    return PseudoLabelHealth(**values, further=further)


def _by_class(entry: Mapping[str, Any], kind: str) -> list[float | None]:
    numbers = sorted(int(key.split("/")[1]) for key in entry if key.startswith(f"{kind}/"))
    return [entry[f"{kind}/{number}"] for number in numbers]


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _optional(value: float | None) -> float | None:
    return None if value is None else float(value)


def read_log(path: Path) -> list[StepRecord]:
    """All whole records; a line cut short by a kill is left out."""
    return [record for record, _ in _records(path)]


def rewind_log(path: Path, step: int) -> list[StepRecord]:
    """Drop what was logged at `step` or later, since those steps are about to be taken again."""
    kept = [(record, line) for record, line in _records(path) if record.step < step]
    write_text(path, "".join(f"{line}\n" for _, line in kept))
    return [record for record, _ in kept]


BAD_RECORD = (ValueError, OverflowError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading a damaged line may raise."""


def _records(path: Path) -> Iterator[tuple[StepRecord, str]]:
    """Each record with its line."""
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            yield StepRecord.from_json(json.loads(line)), line.decode()
        except BAD_RECORD as error:
            if number == len(lines):  # cut short by a kill, or nothing behind the last line
                return
            raise UserError(
                f"{path}: line {number} is no record of a step ({type(error).__name__}); restore "
                "the file, or take that line out"
            ) from error


class RunLog:
    """Appends records to `log.jsonl`."""

    def __init__(self, folder: Path) -> None:
        self._file: TextIO = (folder / "log.jsonl").open("a", encoding="utf-8")

    def write(self, record: StepRecord) -> None:
        """Append one step."""
        check_held(Path(self._file.name))
        with full_disk_named(Path(self._file.name)):
            self._file.write(json.dumps(_finite(record.to_json())) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with full_disk_named(Path(self._file.name)):
            self._file.close()


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON has no word for: those of a step that overflowed."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def metrics(record: StepRecord) -> dict[str, float]:
    """The numbers of a record by name, for trackers; of a list of cases or classes its length."""
    return dict(_scalars(record.to_json()))


def _scalars(entry: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, float]]:
    for name, value in entry.items():
        if isinstance(value, dict):
            yield from _scalars(value, f"{name}/")
        elif isinstance(value, list) and within:
            yield from ((f"{within}{name}/{index}", inner) for index, inner in enumerate(value))
        elif name != "step":
            yield f"{within}{name}", float(len(value) if isinstance(value, list) else value)
