"""Files of weights from elsewhere: read without executing anything that is in them."""

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tracoco.errors import UserError

WRAPPERS = ("state_dict", "net", "model", "model_state_dict", "network")
"""Keys under which a file may keep its tensors beside other things."""
PICKLE, ARCHIVE = b"\x80", b"PK"
"""How a pickle and a zip archive start."""
LARGEST_BYTES = 2**31
"""The released files have about 40 MB."""


def read_weights(model: Path) -> Mapping[str, Tensor]:
    """The named tensors of one network; other things that the file keeps are left out."""
    if not model.is_file():
        raise UserError(f"{model} is not a file; give the .pth file that was released")
    if not _may_be_weights(model):
        raise UserError(
            f"{model} is not a file of weights that torch has written; download it again, and see "
            "that it is not a web page"
        )
    size = model.stat().st_size
    if zipfile.is_zipfile(model):
        with zipfile.ZipFile(model) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    if size > LARGEST_BYTES:
        raise UserError(f"{model} has {size:,} bytes, far more than a released network")
    try:
        content = torch.load(model, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{model} holds more than tensors and plain values, and to read it would be to execute "
            "code from the file; ask for a file that was saved from state_dict()"
        ) from error
    except (
        *(RuntimeError, EOFError, zipfile.BadZipFile, ValueError, KeyError),
        *(OSError, AttributeError, TypeError),
    ) as error:
        raise UserError(
            f"{model} is damaged or is not a file of weights; download it again"
        ) from error
    return _unwrapped(content, model)


def _may_be_weights(model: Path) -> bool:
    """Whether it starts as torch's files do: as a zip archive, or older ones as a pickle."""
    with model.open("rb") as file:
        return file.read(2).startswith((PICKLE, ARCHIVE))


def _unwrapped(content: Any, model: Path) -> Mapping[str, Tensor]:
    if _is_state(content):
        return dict(content)
    keys = list(content) if isinstance(content, Mapping) else []
    inner = [key for key in WRAPPERS if key in keys and _is_state(content[key])]
    if len(inner) != 1:
        held = f"the keys {', '.join(map(str, keys[:10]))}" if keys else type(content).__name__
        raise UserError(
            f"{model} holds no single set of named tensors, but {held}; save the state_dict() of "
            "one network alone"
        )
    return dict(content[inner[0]])


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) > 0
        and all(isinstance(key, str) for key in value)
        and all(isinstance(t, Tensor) and t.layout == torch.strided for t in value.values())
    )
