"""The scans and labels of a project as a labelling tool sees them, and labels that it sends."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from tracoco.errors import UserError
from tracoco.files import read_json, write_json
from tracoco.labelling.labels import check_can_be_labelled, checked_label
from tracoco.project.cases import Case
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.scans.reader import SUFFIXES, read_grids, write_label
from tracoco.scans.scan import LabelScan, Structure
from tracoco.scans.segments import MOST_NAME

FINAL, ORIGINAL = "final", "original"
"""Tags: a label that somebody has drawn, and a draft of the model."""
TAG = re.compile(r"[A-Za-z0-9_-]{1,32}")
LONGEST_PARAMS = 64 * 1024
PIECE = 2**20


class NotFoundError(UserError):
    """What was asked for does not exist."""


@dataclass(frozen=True, slots=True)
class LabelStore:
    """What tools may see and change of a project; all that they send stays inside `root`."""

    project: Project

    @property
    def root(self) -> Path:
        """Where everything of the server is."""
        return self.project.root / "labelling"

    @property
    def received(self) -> Path:
        """Labels that tools have sent, a folder for each tag."""
        return self.root / "received"

    def cases(self) -> dict[str, Case]:
        """All scans of the split, by name."""
        wanted = set(self.project.load_splits().ids)
        return {case.id: case for case in self.project.load_cases() if case.id in wanted}

    def case(self, image: str) -> Case:
        """A scan by its name."""
        found = self.cases().get(image)
        if found is None:
            raise NotFoundError(f"there is no image '{image[:80]}' in {self.project.root}")
        return found

    def waiting(self) -> list[str]:
        """Unlabelled scans for which no label was sent yet."""
        sent = self.sent()
        return [case for case in self.project.load_splits().unlabelled if case not in sent]

    def sent(self) -> set[str]:
        """Scans that a final label was sent for."""
        folder = self.received / FINAL
        return {file.name.removesuffix(".nii.gz") for file in folder.glob("*.nii.gz")}

    def new(self) -> list[str]:
        """Scans whose final label was sent, and is not taken into the project yet."""
        unlabelled, found = set(self.project.load_splits().unlabelled), []
        for name, case in self.cases().items():
            sent = self.received / FINAL / f"{name}.nii.gz"
            known = None if name in unlabelled else case.label
            if sent.is_file() and (known is None or _newer(sent, known)):
                found.append(name)
        return found

    def label_file(self, image: str, tag: str) -> Path:
        """The label of a scan: what was sent, else what the project has as its final label."""
        case = self.case(image)
        sent = self.received / checked_tag(tag) / f"{case.id}.nii.gz"
        if sent.is_file():
            return sent
        annotated = case.id in self.project.load_splits().annotated
        if tag == FINAL and annotated and case.label and case.label.is_file():
            return case.label
        raise NotFoundError(f"there is no label '{tag}' of the image '{case.id}'")

    def label_info(self, image: str, tag: str) -> dict[str, Any]:
        """What was sent beside a label."""
        file = self.label_file(image, tag)
        about = file.with_name(f"{self.case(image).id}.json")
        known: dict[str, Any] = read_json(about) if file.is_relative_to(self.received) else {}
        return known

    def objects(self) -> dict[str, Any]:
        """All scans and their labels, as MONAI Label lists them."""
        splits, found = self.project.load_splits(), {}
        tags = [folder.name for folder in self.received.glob("*") if folder.is_dir()]
        for name, case in self.cases().items():
            there = {tag for tag in tags if (self.received / tag / f"{name}.nii.gz").is_file()}
            there |= {FINAL} if name in splits.annotated and case.label else set()
            labels = {tag: {"ext": ".nii.gz", "info": {}} for tag in sorted(there)}
            image = {"ext": _suffix(case.images[0]), "info": {"name": case.images[0].name}}
            found[name] = {"image": image, "labels": labels}
        return found

    def stats(self) -> dict[str, Any]:
        """How many scans have a label."""
        splits = self.project.load_splits()
        done = len(splits.annotated) + len(self.sent() & set(splits.unlabelled))
        return {"total": len(splits.ids), "completed": done, "label_tags": {FINAL: done}}

    def save(self, image: str, tag: str, name: str, content: BinaryIO, params: str) -> str:
        """Keep a label that a tool has sent, or refuse it and leave what was there.

        Args:
            image: the scan.
            tag: `final` labels are trained from.
            name: of the file as the tool has it; only what it ends with is used.
            content: of the file.
            params: JSON; `label_info` may name the structures in the order of their values.
        """
        case, tag, about = self.case(image), checked_tag(tag), checked_params(params)
        splits = self.project.load_splits()
        if tag == FINAL:
            known = self.cases()
            check_can_be_labelled(case.id, known, splits, f"label '{case.id}'", self.project)
        temporary = self.root / "tmp" / f"{uuid4().hex}{known_suffix(name)}"
        try:
            copy(content, temporary)
            plan = self.project.load_plan()
            label = _read(temporary, case, about, plan, Path(name).name)
            target = self.received / tag / f"{case.id}.nii.gz"
            target.parent.mkdir(parents=True, exist_ok=True)
            write_label(target, label.array, read_grids(case.images).grid, plan.structures)
        finally:
            temporary.unlink(missing_ok=True)
        write_json(target.with_name(f"{case.id}.json"), {"params": about})
        return case.id

    def remove(self, image: str, tag: str) -> None:
        """Remove a label that a tool has sent; labels that the project has taken stay."""
        file = self.label_file(image, tag)
        if not file.is_relative_to(self.received):
            raise UserError(f"the label of '{image}' belongs to the project and is not removed")
        file.unlink()
        file.with_name(f"{self.case(image).id}.json").unlink(missing_ok=True)


def _newer(sent: Path, known: Path) -> bool:
    return sent.stat().st_mtime_ns > known.stat().st_mtime_ns


def checked_tag(tag: str) -> str:
    """A tag that can be the name of a folder."""
    if not TAG.fullmatch(tag):
        raise UserError(f"the tag '{tag[:40]}' has other characters than letters, digits, - and _")
    return tag


def checked_params(text: str) -> dict[str, Any]:
    """The JSON object that comes with a file."""
    if len(text) > LONGEST_PARAMS:
        raise UserError(f"params has {len(text)} characters; at most {LONGEST_PARAMS} are taken")
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UserError("params is no JSON object")
    return found


def known_suffix(name: str) -> str:
    """What a file's name ends with, if that is of a known format; no other part of it is used."""
    lower = name.lower()
    found = max((each for each in SUFFIXES if lower.endswith(each)), key=len, default="")
    if not found:
        raise UserError(
            f"'{Path(name).name[:80]}' is of no known format; send one of "
            ".nii.gz, .nii, .seg.nrrd, .nrrd and .mha"
        )
    return found


def copy(content: BinaryIO, target: Path) -> None:
    """Write a file that was sent."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        while piece := content.read(PIECE):
            file.write(piece)


def _suffix(image: Path) -> str:
    return next((each for each in SUFFIXES if image.name.lower().endswith(each)), "")


def _read(file: Path, case: Case, about: Mapping[str, Any], plan: Plan, shown: str) -> LabelScan:
    """Read a label that was sent; errors call it by the name that the tool has for it."""
    try:
        return checked_label(file, case, plan, _structures(about.get("label_info")))
    except UserError as error:
        raise UserError(str(error).replace(str(file), shown)) from None


def _structures(info: Any) -> tuple[Structure, ...]:
    """The structures that a tool names, by the values that they have in its file.

    Tools number structures in the order in which they list them. 3D Slicer also tells an `idx`,
    which counts segments that were not sent.
    """
    rows = info if isinstance(info, list) else []
    names = [str(row["name"]) for row in rows if isinstance(row, dict) and row.get("name")]
    return tuple(Structure(place, name[:MOST_NAME]) for place, name in enumerate(names, start=1))
