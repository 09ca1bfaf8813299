"""BIDS: images in sub-*/[ses-*/]anat, labels as *_dseg or *_mask, mostly below derivatives/.

A case is a session of a subject, and subjects are groups. Its channels are the kinds of images that
all sessions have, e.g. T1w and FLAIR.
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracoco.errors import UserError, collected, raise_all
from tracoco.project.cases import Case, unsafe_ids
from tracoco.project.layouts.pairing import Found
from tracoco.scans.reader import is_scan, scan_stem
from tracoco.text import count, listed

DATA_TYPES = ("anat", "ct", "pet")
"""Folders of a session that are looked into; functional and diffusion series have four axes."""
LABELS = ("dseg", "mask")
"""Suffixes of labels."""
NO_IMAGES = ("defacemask", "probseg", "T1map", "T2map", "events")
OWN_SPACES = ("orig", "individual", "scanner")
"""Values of `space` with which a label is on the grid of its image."""


@dataclass(frozen=True, slots=True)
class Name:
    """A file's name in its parts: `sub-01_ses-2_acq-hires_T1w`."""

    path: Path
    entities: Mapping[str, str]
    suffix: str

    @property
    def session(self) -> str:
        """The case: subject, and session where there are several."""
        known = (f"{key}-{self.entities[key]}" for key in ("sub", "ses") if key in self.entities)
        return "_".join(known)

    @property
    def kind(self) -> str:
        """What tells images of a session apart: all other entities, and the suffix."""
        others = (f"{k}-{v}" for k, v in self.entities.items() if k not in {"sub", "ses"})
        return "_".join([*others, self.suffix])


def recognises(data: Path) -> bool:
    """Whether a subject's folder holds images as BIDS has them."""
    return next(_images(data), None) is not None


def find(data: Path, _: Path | None) -> Found:
    """A case a session, with the images that every session has."""
    data, notes = data.absolute(), list[str]()
    images: dict[str, dict[str, Path]] = defaultdict(dict)
    for name in _images(data):
        images[name.session][name.kind] = name.path
    channels = _channels(images, notes)
    labels = _labels(data, images, notes)
    problems: list[str] = []
    cases: list[Case] = []
    for session, kinds in sorted(images.items()):
        with collected(problems):
            label = _label(session, labels.get(session, []))
            subject = session.partition("_")[0]
            paths = tuple(kinds[kind] for kind in channels)
            cases.append(Case(session, paths, label.path if label else None, subject))
    raise_all([*problems, *unsafe_ids(images)])
    if len({case.group for case in cases}) == len(cases):  # groups of one tell nothing
        cases = [Case(case.id, case.images, case.label) for case in cases]
    every = [label for found in labels.values() for label in found]
    return Found(tuple(cases), _class_names(data, every), notes=tuple(notes))


def _images(data: Path) -> Iterator[Name]:
    for folder in DATA_TYPES:
        for pattern in (f"sub-*/{folder}", f"sub-*/ses-*/{folder}"):
            for place in sorted(data.glob(pattern)):
                names = (_parsed(path) for path in sorted(place.iterdir()))
                yield from (n for n in names if n and n.suffix not in (*LABELS, *NO_IMAGES))


def _parsed(path: Path) -> Name | None:
    if path.name.startswith(".") or not path.is_file() or not is_scan(path):
        return None
    *parts, suffix = scan_stem(path).split("_")
    entities = dict(part.split("-", 1) for part in parts if "-" in part)
    return Name(path, entities, suffix) if "sub" in entities else None


def _channels(images: Mapping[str, Mapping[str, Path]], notes: list[str]) -> list[str]:
    """The kinds of images that all sessions have; the others are told."""
    counts = Counter(kind for kinds in images.values() for kind in kinds)
    channels = sorted(kind for kind, number in counts.items() if number == len(images))
    if not channels:
        have = ", ".join(f"{kind} ({number} of {len(images)})" for kind, number in counts.items())
        raise UserError(
            f"no kind of image is in all {count(len(images), 'session')}: {have}. Take out the "
            "sessions without one of them, or list the cases in a CSV"
        )
    notes.append(f"channels, in this order: {', '.join(channels)}")
    if left := sorted(set(counts) - set(channels)):
        notes.append(f"images that some sessions lack are left out: {', '.join(left)}")
    return channels


def _labels(
    data: Path, images: Mapping[str, Mapping[str, Path]], notes: list[str]
) -> dict[str, list[Name]]:
    """The labels of each session; those in another space than their image's are told."""
    found: dict[str, list[Name]] = defaultdict(list)
    elsewhere = 0
    for path in sorted(data.rglob("sub-*_*")):
        name = _parsed(path)
        if name is None or name.suffix not in LABELS or name.session not in images:
            continue
        space = name.entities.get("space", OWN_SPACES[0])
        if space in OWN_SPACES or any(kind.endswith(space) for kind in images[name.session]):
            found[name.session].append(name)
        else:
            elsewhere += 1
    if elsewhere:
        notes.append(f"{count(elsewhere, 'label')} in another space than the image: left out")
    return found


def _label(session: str, found: Sequence[Name]) -> Name | None:
    """The label of a session; segmentations with values go before masks."""
    best = [name for name in found if name.suffix == LABELS[0]] or list(found)
    if len(best) > 1:
        raise UserError(
            f"session '{session}' has several labels: {listed([str(n.path) for n in best])}; "
            "keep one of them, or list the cases in a CSV"
        )
    return best[0] if best else None


def _class_names(data: Path, labels: Sequence[Name]) -> dict[int, str]:
    """Names by value from dseg.tsv, beside a label, in one of its folders or at the top."""
    for label in labels:
        stem = scan_stem(label.path)
        tables = [label.path.with_name(f"{stem}.tsv")]
        inside = (folder for folder in label.path.parents if folder.is_relative_to(data))
        tables += [folder / "dseg.tsv" for folder in inside]
        for table in tables:
            if table.is_file():
                return _read_names(table)
    return {}


def _read_names(table: Path) -> dict[int, str]:
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            lines = list(csv.DictReader(file, delimiter="\t"))
        names = {int(line["index"]): line["name"].strip() for line in lines}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{table} is not a table with the columns index and name; correct it, or take it out"
        ) from error
    return {value: name for value, name in names.items() if name}
