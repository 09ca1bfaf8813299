"""The base of all settings, frozen and checked, and some groups of them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    TypeAdapter,
    ValidationError,
    field_validator,
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

    trackers: tuple[str, ...] = ()
    """Their names, as `--track` takes them: tensorboard, mlflow, wandb, or one that an installed
    package brings. TensorBoard is written wherever it is installed."""
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


STRENGTHS: dict[str, dict[str, Any]] = {
    "off": {},
    "light": {
        "rotation": 10.0,
        "rotation_chance": 0.5,
        "scaling": (0.9, 1.1),
        "scaling_chance": 0.5,
        "gamma": 1.3,
        "gamma_chance": 0.3,
        "contrast": 1.2,
        "contrast_chance": 0.3,
    },
    "full": {
        "rotation": 20.0,
        "rotation_chance": 0.8,
        "scaling": (0.8, 1.25),
        "scaling_chance": 0.8,
        "gamma": 1.5,
        "gamma_chance": 0.3,
        "contrast": 1.3,
        "contrast_chance": 0.3,
        "brightness": 0.2,
        "brightness_chance": 0.15,
        "noise": 0.3,
        "noise_chance": 0.15,
        "blur_chance": 0.15,
        "coarse": 2.0,
        "coarse_chance": 0.15,
    },
}
"""Amounts that each strength of augmentation stands for."""


Chance = Annotated[float, Field(ge=0, le=1)]


class AugmentationConfig(Settings):
    """Augmentation of the pairs of crops; both crops of a pair change alike.

    `strength` gives every amount that is not given by itself. A chance is the fraction of the pairs
    that are changed. Amounts of intensity are relative to the crops themselves.
    """

    strength: Literal["off", "light", "full"] = "light"
    """How much augmentation there is in all."""
    rotation: float = Field(default=0.0, ge=0, le=180)
    """Largest angle in degrees, in each plane; thick slices rotate in their own plane alone."""
    rotation_chance: Chance = 0.0
    """Fraction of crop pairs that are rotated."""
    scaling: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Smallest and largest factor by which structures grow."""
    scaling_chance: Chance = 0.0
    """Fraction of crop pairs that are scaled."""
    elastic: float = Field(default=1.0, ge=0, le=8)
    """Standard deviation, in voxels, of the displacement at control points 24 voxels apart."""
    elastic_chance: Chance = 0.0
    """Fraction of crop pairs that are deformed elastically."""
    gamma: float = Field(default=1.0, ge=1)
    """Largest exponent that intensities are raised to; the smallest is its inverse."""
    gamma_chance: Chance = 0.0
    """Fraction of crop pairs that are changed by an exponent."""
    contrast: float = Field(default=1.0, ge=1)
    """Largest factor for distances from the mean; the smallest is its inverse."""
    contrast_chance: Chance = 0.0
    """Fraction of crop pairs that are changed in contrast."""
    brightness: float = Field(default=0.0, ge=0)
    """Standard deviation of what is added to all voxels, in deviations of the image."""
    brightness_chance: Chance = 0.0
    """Fraction of crop pairs that are changed in brightness."""
    noise: float = Field(default=0.0, ge=0)
    """Largest standard deviation of the noise, in deviations of the image."""
    noise_chance: Chance = 0.0
    """Fraction of crop pairs that are given noise."""
    blur: tuple[PositiveFloat, PositiveFloat] = (0.5, 1.0)
    """Smallest and largest standard deviation of a Gaussian blur, in voxels."""
    blur_chance: Chance = 0.0
    """Fraction of crop pairs that are blurred."""
    coarse: float = Field(default=1.0, ge=1)
    """Largest factor by which voxels become larger, as in a scan of lower resolution."""
    coarse_chance: Chance = 0.0
    """Fraction of crop pairs that are made coarse."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Take the amounts that are not given from the strength, so that a run records them all."""
        if not isinstance(values, dict):
            return values
        for amount in ("rotation", "elastic", "gamma", "contrast", "brightness", "noise", "coarse"):
            _check_chance(values, amount)
        strength = values.get("strength", cls.model_fields["strength"].default)
        strength = "off" if strength is False else strength  # YAML reads off as false
        known = STRENGTHS.get(strength, {}) if isinstance(strength, str) else {}
        return {**known, **values, "strength": strength}

    @field_validator("scaling", "blur")
    @classmethod
    def _ordered(cls, limits: tuple[float, float]) -> tuple[float, float]:
        if limits[0] > limits[1]:
            raise ValueError(f"the first must not be larger than the second: {list(limits)}")
        return limits

    @property
    def active(self) -> bool:
        """Whether any pair is changed."""
        chances = self.model_dump(include={n for n in type(self).model_fields if "chance" in n})
        return any(chances.values())


def _check_chance(values: dict[str, Any], amount: str) -> None:
    """Refuse an amount that nothing would ever use."""
    chance = f"{amount}_chance"
    default = AugmentationConfig.model_fields["strength"].default
    strength = STRENGTHS.get(str(values.get("strength", default)), {})
    if amount in values and not values.get(chance, strength.get(chance)) and chance not in values:
        raise ValueError(f"{amount} is set, but {chance} is 0: set it too, or a strength")


def by_dotted_name(values: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of nested settings by the name that `--set` takes, e.g. `training.steps`."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from by_dotted_name(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value
