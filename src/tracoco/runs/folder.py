"""A run's folder: settings, plan, splits, facts and checkpoints.

It holds all that is needed to resume the run, or to predict with it elsewhere.
"""

import importlib.metadata
import io
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal

import torch
import yaml

from tracoco.config import Config, parse_recorded
from tracoco.errors import UserError
from tracoco.files import atomic_path, read_json, write_json, write_text
from tracoco.lock import own_content
from tracoco.project.plan import Plan, read_plan, write_plan
from tracoco.project.splits import Splits, read_splits, write_splits
from tracoco.runs.facts import Facts
from tracoco.settings import checked, read_yaml, with_new_names

DESCRIPTION = ("facts.json", "plan.yaml", "splits.json", "config.yaml")
"""What is written before the first step, in this order."""
CHOSEN_ON_TEST = "best was chosen on the test cases"
"""Stands by everything that is shown of such a checkpoint: its scores estimate nothing."""


Checkpoint = dict[str, Any]
"""Everything that a run needs to go on exactly: tensors and plain values by name."""
Weights = Literal["averaged", "raw"]
"""averaged: the moving average over the steps, where a run has one; raw: those of the last step."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Names of the files in a run's folder."""

    root: Path

    @property
    def facts_file(self) -> Path:
        """Versions, hashes and figures of the data."""
        return self.root / "facts.json"

    @property
    def log_file(self) -> Path:
        """One line a step."""
        return self.root / "log.jsonl"

    @property
    def begun(self) -> bool:
        """Whether the folder describes a run; `config.yaml` is written last, as the seal."""
        return (self.root / "config.yaml").exists()

    def checkpoint(self, name: str) -> Path:
        """`last` or `best`."""
        return self.root / f"{name}.pt"

    def config(self) -> Config:
        """The resolved settings."""
        path = self.root / "config.yaml"
        if not self.begun:
            raise UserError(f"{self.root} is not a run: it has no config.yaml")
        return parse_recorded(read_yaml(path), str(path))

    def plan(self) -> Plan:
        """The plan of the project that the run was trained in."""
        return read_plan(self.root / "plan.yaml")

    def splits(self) -> Splits:
        """The cases that the run was trained, validated and is to be tested on."""
        return read_splits(self.root / "splits.json")

    def facts(self) -> Facts:
        """What was true when the run began; how it is computed, since it was resumed."""
        return checked(Facts, read_json(self.facts_file), str(self.facts_file))

    def recorded_precision(self) -> str | None:
        """What the run was computed in so far; None for a run that has not begun."""
        computed = self.facts().computed if self.begun else None
        return computed.precision if computed else None

    def renew_facts(self, facts: Facts) -> None:
        """Put these in the place of those that the run had so far; what else it says stays."""
        known = read_json(self.facts_file)
        renewed = known | facts.to_json()
        if renewed != known:
            write_json(self.facts_file, renewed)

    def watermark(self, checkpoint: str) -> str:
        """What must be said wherever results of `checkpoint` are shown; mostly nothing."""
        on_test = checkpoint == "best" and self.config().training.select_on == "test"
        marks = (self.facts().watermark, CHOSEN_ON_TEST if on_test else "")
        return "; ".join(mark for mark in marks if mark)

    def create(self, config: Config, plan: Plan, splits: Splits, facts: Facts) -> None:
        """Write what describes the run before its first step, or nothing at all."""
        new = not self.root.exists()
        try:
            write_json(self.facts_file, facts.to_json() | versions())
            write_plan(self.root / "plan.yaml", plan)
            write_splits(self.root / "splits.json", splits)
            text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
            write_text(self.root / "config.yaml", text)
        except BaseException:
            for name in DESCRIPTION:
                (self.root / name).unlink(missing_ok=True)
            if new:
                self.root.rmdir()
            raise

    def check_free(self, *, resume: bool) -> None:
        """Refuse a folder that is in use: a run's folder is never written over.

        With `resume`, what a start that was cut short has left does not count.
        """
        if self.root.exists() and not self.root.is_dir():
            raise UserError(f"{self.root} is a file; choose another --out")
        found = [path.name for path in own_content(self.root)]
        if resume and not all(name.endswith(DESCRIPTION) for name in found):
            raise UserError(f"{self.root} is no run: it has no config.yaml; choose another --out")
        if found and not resume:
            raise UserError(f"{self.root} already exists; add --resume, or choose another --out")


def versions() -> dict[str, str]:
    """What a result may depend on besides the settings."""
    packages = {name: importlib.metadata.version(name) for name in ("tracoco", "torch", "numpy")}
    return packages | {"python": platform.python_version(), "git": _git_hash()}


def _git_hash() -> str:
    """The commit of a source checkout; empty for a package that is installed, wherever that is."""
    tracked = _git("ls-files", "--error-unmatch", Path(__file__).name)
    return _git("rev-parse", "HEAD") if tracked else ""


def _git(*words: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(Path(__file__).parent), *words]
    for _ in range(3):
        # A signal to all processes of a job is not meant for `git`, which therefore gets a session
        # of its own. It may still be killed before it has one: then it is asked again.
        result = subprocess.run(  # noqa: S603 - fixed words
            command, capture_output=True, text=True, check=False, start_new_session=True
        )
        if result.returncode >= 0:
            return result.stdout.strip()
    return ""


DIGEST = b"sha256 of all before: "
"""How the comment of a checkpoint's zip archive begins; 64 hexadecimal digits follow."""
COMMENT_BYTES = len(DIGEST) + 64
ZIP_END, ZIP_END_BYTES = b"PK\x05\x06", 22
"""How the last record of an archive begins, and its length without a comment."""
PIECE_BYTES = 2**20


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint with its digest; killed at any moment, the old or the new one is there.

    `torch.save` writes a zip archive whose checksums nobody compares. The digest of all its bytes
    stands behind them as the comment that the format has room for, so that `torch.load` reads the
    file as any other.
    """
    # Through memory: torch's own writer reports a full disk as an error of its internals.
    buffer = io.BytesIO()
    torch.save(checkpoint, buffer)
    buffer.seek(-2, io.SEEK_END)  # the length of the comment ends the archive
    buffer.write(COMMENT_BYTES.to_bytes(2, "little"))
    buffer.write(DIGEST + sha256(buffer.getbuffer()).hexdigest().encode())
    with atomic_path(path) as temporary:
        temporary.write_bytes(buffer.getbuffer())


def load_checkpoint(path: Path, device: torch.device | str = "cpu") -> Checkpoint:
    """Read a checkpoint: tensors and plain values only, nothing in it is executed.

    Its bytes are compared with their digest. Checkpoints of earlier versions have none.
    """
    return load_with_digest(path, device)[0]


def load_with_digest(path: Path, device: torch.device | str = "cpu") -> tuple[Checkpoint, str]:
    """The same with the SHA-256 of just the file that was read, which may be replaced meanwhile."""
    try:
        with path.open("rb") as file:
            known = _checked_digest(file, path)
            file.seek(0)
            checkpoint: Checkpoint = torch.load(file, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; this run has not saved it") from None
    except Exception as error:  # what torch raises for damaged bytes has no end
        raise _damaged(path) from error
    if not (isinstance(checkpoint, dict) and isinstance(checkpoint.get("step"), int)):
        raise _damaged(path)
    return checkpoint, known


def _checked_digest(file: BinaryIO, path: Path) -> str:
    """SHA-256 of a whole file, at whose end is the digest of what comes before."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - ZIP_END_BYTES))
    of_earlier_version = file.read(len(ZIP_END)) == ZIP_END  # nothing comes after the archive
    file.seek(0)
    known, left = sha256(), max(0, size - COMMENT_BYTES)
    while piece := file.read(min(left, PIECE_BYTES)):
        known.update(piece)
        left -= len(piece)
    comment = file.read()
    if not of_earlier_version and comment != DIGEST + known.hexdigest().encode():
        raise _damaged(path)
    known.update(comment)
    return known.hexdigest()


def supervised_weights(step: int | None) -> str:
    """File of the weights from before unlabelled crops began to count at a step.

    Each beginning has its own: a run that is resumed from before a later one still finds the
    weights that it goes back to.
    """
    return f"supervised-{step}.pt"


@contextmanager
def sound_checkpoint(path: Path) -> Iterator[None]:
    """Name the checkpoint whose content does not fit what it is loaded into."""
    try:
        yield
    except (RuntimeError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> UserError:
    return UserError(
        f"{path} is damaged or is not a checkpoint; use another one, "
        "or train again into a new folder"
    )


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
