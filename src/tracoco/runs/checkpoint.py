"""Checkpoints: everything a run needs to go on exactly, in one file that loads without code."""

import io
import pickle
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import torch

from tracoco.errors import UserError
from tracoco.files import atomic_path
from tracoco.settings import with_new_names

Checkpoint = dict[str, Any]
Weights = Literal["averaged", "raw"]
"""averaged: the moving average over the steps, where a run has one; raw: those of the last step."""


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; killed at any moment, the old one or the new one is there."""
    # Through memory: torch's own writer reports a full disk as an error of its internals.
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    with atomic_path(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def load_checkpoint(path: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """Read a checkpoint: tensors and plain values only, nothing in it is executed."""
    try:
        checkpoint: Checkpoint = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; this run has not saved it") from None
    except (RuntimeError, EOFError, BadZipFile, pickle.UnpicklingError, OSError) as error:
        raise UserError(
            f"{path} is damaged or is not a checkpoint; use another one, "
            "or train again into a new folder"
        ) from error
    return checkpoint


def has_averaged(checkpoint: Checkpoint) -> bool:
    """Whether averaged weights were saved beside the raw ones."""
    return bool(checkpoint.get("averaged"))


def method_state(checkpoint: Checkpoint, weights: Weights = "averaged") -> dict[str, Any]:
    """The state of a method as it predicts: with its averaged weights, if it has any."""
    averaged = checkpoint.get("averaged", {}) if weights == "averaged" else {}
    return {**checkpoint["method"], **averaged}


def check_identity(checkpoint: Checkpoint, expected: Checkpoint, path: Path) -> None:
    """Refuse to resume from a checkpoint that was saved with other settings, data or processes."""
    for key, value in expected.items():
        found = checkpoint.get(key)
        if key == "method settings" and found is not None:
            found = with_new_names(found)
        if found != value:
            there, here = _differing(found, value)
            raise UserError(
                f"{path} was saved with other {key}: {there}, now {here}; "
                "resume with the same, or train into a new folder"
            )


def _differing(found: Any, expected: Any) -> tuple[Any, Any]:
    """Two values; of two groups of settings only those that are not the same."""
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        return found, expected
    keys = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    return {key: found.get(key) for key in keys}, {key: expected.get(key) for key in keys}
