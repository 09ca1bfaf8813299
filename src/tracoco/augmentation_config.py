"""Settings of the augmentation of crop pairs, and the strengths that stand for them."""

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    PositiveFloat,
    field_validator,
    model_validator,
)

from tracoco.settings import Settings

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
