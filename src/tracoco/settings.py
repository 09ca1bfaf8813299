"""The base of all settings, frozen and checked, and some groups of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from tracoco.errors import UserError, did_you_mean

Model = TypeVar("Model")


class Settings(BaseModel):
    """A group of settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Loader(yaml.SafeLoader):
    """Plain values alone, each written out: a few references can stand for billions of values."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references (*name) are not read; write the values out")
        return super().compose_node(parent, index)


def read_yaml(path: Path) -> Any:
    """The values of a YAML file, or say which file is missing or broken."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - it is safe
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not valid YAML ({reason}); correct or restore it") from error


def checked(
    model: type[Model], values: Any, source: str, renamed: Mapping[str, str] | None = None
) -> Model:
    """Build settings or a dataclass, or say which key is wrong and which was probably meant.

    Args:
        model: the settings that there are, or a dataclass.
        values: what is given for them.
        source: where the values come from, for the error.
        renamed: old names of settings of the model, each with the name that it has now.
    """
    try:
        return TypeAdapter(model).validate_python(values, context={"source": source})
    except ValidationError as error:
        raise in_plain_words(model, error, source, renamed or {}) from None


def in_plain_words(
    model: type, error: ValidationError, source: str, renamed: Mapping[str, str]
) -> UserError:
    """The error that a user is shown: each wrong key or value, and which key was probably meant."""
    lines = []
    for problem in error.errors():
        place = [str(part) for part in problem["loc"]]
        key = ".".join(place)
        if problem["type"] == "extra_forbidden" and key in renamed:
            lines.append(f"{source}: '{key}' was renamed to '{renamed[key]}'")
        elif problem["type"] == "extra_forbidden":
            known = _fields(model, place[:-1])
            lines.append(f"{source}: '{key}' is not a setting; {did_you_mean(place[-1], known)}")
        else:
            reason = problem["msg"][:1].lower() + problem["msg"][1:]
            value = f"{key} = {problem['input']!r}: " if key else ""
            lines.append(f"{source}: {value}{reason}")
    return UserError("; ".join(lines))


def _fields(model: type, place: Sequence[str]) -> list[str]:
    for part in place:
        inner = model.model_fields[part].annotation if issubclass(model, BaseModel) else None
        if not isinstance(inner, type):
            return []
        model = inner
    return list(model.model_fields) if issubclass(model, BaseModel) else []


class LossConfig(Settings):
    """What labels teach: weighted cross-entropy and Dice. The defaults are the paper's Eq. (2)."""

    cross_entropy: float = Field(default=1.0, ge=0)
    """Weight of the mean cross-entropy of all voxels."""
    dice: float = Field(default=1.0, ge=0)
    """Weight of the mean Dice loss of the classes."""
    dice_background: bool = False
    """Whether the background is one of these classes."""
    dice_per_crop: bool = False
    """Dice of each crop, then their mean, in place of one Dice over all labelled crops."""
    dice_linear: bool = False
    """Denominators of Dice are sums of probabilities, in place of sums of their squares."""
    dice_smooth: float = Field(default=1e-5, gt=0)
    """Added to numerator and denominator of Dice."""

    @model_validator(mode="after")
    def _teaches(self) -> "LossConfig":
        if not (self.cross_entropy or self.dice):
            raise ValueError("loss.cross_entropy and loss.dice are both 0; labels teach nothing")
        return self


class TrackingConfig(Settings):
    """Experiment trackers that are told of a run, on top of its own log."""

    trackers: tuple[Literal["tensorboard", "mlflow", "wandb"], ...] = ()
    """Their names, as `--track` takes them. TensorBoard is written wherever it is installed."""
    pictures: bool = False
    """Give them pictures too: a validation case at each validation, and those of the report. These
    show scans of patients, which no tracker is given otherwise."""


PRESET = "preset"
"""Key under which a method's settings keep those that its preset has for another method."""


class MethodChoice(BaseModel):
    """A method's name; the other keys are its own settings, checked when it is built."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "tracoco"

    @property
    def settings(self) -> dict[str, Any]:
        """Those that are meant for this method."""
        return {key: value for key, value in (self.model_extra or {}).items() if key != PRESET}

    @property
    def preset(self) -> dict[str, Any]:
        """What a preset says of the method that it names, `name` included, if that is another."""
        return dict((self.model_extra or {}).get(PRESET, {}))


_THRESHOLDS = {"likely": "gamma", "unlikely": "beta"}

RENAMED: dict[str, dict[str, str]] = {
    "tracoco": _THRESHOLDS,
    "tracoco-as-released": _THRESHOLDS,
    "cac": {"likely": "threshold"},
    "cac-co": {"likely": "threshold"},
    "ps-mt": {"likely": "threshold"},
    "dcnet": {"unsure_share": "unsure_fraction"},
}
"""Settings of methods that had another name in 0.1.0: for each method, old names and new ones."""


LACKING: dict[str, dict[str, Any]] = {
    "caml": {"decoders": ["transpose", "linear"]},
    "mc-caussl": {"decoders": ["transpose", "linear", "nearest"]},
}
"""Settings that older runs of a method did not record, with the values that leave such a run as it
was."""


def with_new_names(method: dict[str, Any]) -> dict[str, Any]:
    """The settings of a method, `name` included, as 0.1.0 recorded them, by the names of today."""
    return LACKING.get(method.get("name", ""), {}) | _with_names(method, RENAMED)


def with_old_names(method: dict[str, Any]) -> dict[str, Any]:
    """The settings of a method, `name` included, by the names of 0.1.0."""
    return _with_names(
        method, {name: {new: old for old, new in keys.items()} for name, keys in RENAMED.items()}
    )


def _with_names(method: dict[str, Any], table: dict[str, dict[str, str]]) -> dict[str, Any]:
    name = method.get("name", MethodChoice.model_fields["name"].default)
    names = table.get(name, {})
    return {names.get(key, key): value for key, value in method.items()}
