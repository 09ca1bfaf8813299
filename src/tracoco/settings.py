"""The base of all settings: frozen, checked, with errors that name the key that was meant."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
)

from tracoco.errors import UserError, did_you_mean

Model = TypeVar("Model", bound=BaseModel)


class Settings(BaseModel):
    """A group of settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def checked(model: type[Model], values: Any, source: str) -> Model:
    """Build a model of settings, or say which key is wrong and which was probably meant."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError("; ".join(_explain(model, error, source))) from None


def _explain(model: type[BaseModel], error: ValidationError, source: str) -> list[str]:
    lines = []
    for problem in error.errors():
        place = [str(part) for part in problem["loc"]]
        key = ".".join(place)
        if problem["type"] == "extra_forbidden":
            known = _fields(model, place[:-1])
            lines.append(f"{source}: '{key}' is not a setting; {did_you_mean(place[-1], known)}")
        else:
            reason = problem["msg"][:1].lower() + problem["msg"][1:]
            lines.append(f"{source}: {key} = {problem['input']!r}: {reason}")
    return lines


def _fields(model: type[BaseModel], place: Sequence[str]) -> list[str]:
    for part in place:
        inner = model.model_fields[part].annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return list(model.model_fields)


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
