"""The folders of nnU-Net and of the Medical Segmentation Decathlon, with their dataset.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracoco.errors import UserError
from tracoco.files import read_json
from tracoco.project.cases import Case
from tracoco.project.labels import IGNORE
from tracoco.project.layouts.pairing import CHANNEL, Found, counts_channels, pair, scans_of
from tracoco.project.splits import Splits
from tracoco.scans.reader import scan_stem, scans_in

DESCRIPTION = "dataset.json"


def recognises(data: Path) -> bool:
    """Whether dataset.json lies beside imagesTr."""
    return (data / DESCRIPTION).is_file() and (data / "imagesTr").is_dir()


def find(data: Path, _: Path | None) -> Found:
    """Training cases, and those of imagesTs: to test on if labelsTs has them, else unlabelled."""
    about = read_json(data / DESCRIPTION)
    if not isinstance(about, dict):
        raise UserError(f"{data / DESCRIPTION} is not an object with 'labels'; restore it")
    images, labels = scans_of(data / "imagesTr"), scans_of(data / "labelsTr")
    stems = [scan_stem(path) for path in labels]
    channels = counts_channels([scan_stem(path) for path in images], stems)
    training = pair(images, labels, channels=channels)
    further = pair(_scans(data / "imagesTs"), _scans(data / "labelsTs"), channels=channels)
    twice = sorted({case.id for case in training} & {case.id for case in further})
    if twice:
        raise UserError(f"{data}: case '{twice[0]}' is in imagesTr and in imagesTs; rename one")
    _check_channels((*training, *further), channels=channels)
    cases = tuple(sorted((*training, *further), key=lambda case: case.id))
    names, notes = _class_names(about)
    ignore = next((value for value, name in names.items() if name == IGNORE), None)
    if ignore is not None:
        del names[ignore]
        notes.append(f"voxels of the value {ignore} ('{IGNORE}') count as unlabelled")
    if further and not any(case.label for case in further):
        notes.append(f"{len(further)} scans of imagesTs have no label: unlabelled")
    splits = _splits(cases, test={case.id for case in further if case.label})
    notes = [*_channel_note(about), *notes]
    return Found(cases, names, splits, tuple(notes), ignore=ignore)


def _scans(folder: Path) -> list[Path]:
    return [path.absolute() for path in scans_in(folder)] if folder.is_dir() else []


def _splits(cases: tuple[Case, ...], test: set[str]) -> Splits | None:
    """Only test labels decide anything; without them the parts are drawn."""
    if not test:
        return None
    return Splits(
        labelled=tuple(case.id for case in cases if case.label and case.id not in test),
        unlabelled=tuple(case.id for case in cases if not case.label),
        validation=(),
        test=tuple(sorted(test)),
    )


def _check_channels(cases: tuple[Case, ...], *, channels: bool) -> None:
    """Refuse a case that lacks a channel: the order of channels is all that tells them apart."""
    if not channels:
        return
    numbers = {
        case.id: [CHANNEL.findall(scan_stem(path))[0] for path in case.images] for case in cases
    }
    known = sorted({number for of_case in numbers.values() for number in of_case})
    for id_, of_case in numbers.items():
        missing = sorted(set(known) - set(of_case))
        if missing:
            raise UserError(
                f"case '{id_}' has no channel {', '.join(missing)}, others have; "
                "add its file, or take the case out"
            )


def _class_names(about: Mapping[str, Any]) -> tuple[dict[int, str], list[str]]:
    """Names by value: {"liver": 1} of nnU-Net's second version, {"1": "liver"} of the others."""
    names: dict[int, str] = {}
    notes = []
    labels = about.get("labels")
    for key, value in labels.items() if isinstance(labels, dict) else ():
        if isinstance(value, list):
            notes.append(f"'{key}' is a region of several label values; the values are the classes")
        elif str(key).isdecimal():
            names[int(key)] = str(value)
        elif str(value).isdecimal():
            names[int(value)] = str(key)
    return names, notes


def _channel_note(about: Mapping[str, Any]) -> list[str]:
    named = about.get("channel_names") or about.get("modality")
    if not isinstance(named, dict):
        return []
    return [f"channels: {', '.join(str(name) for _, name in sorted(named.items()))}"]
