"""Labels in a folder of their own: beside a folder of images, or beside the scans themselves.

The first has images/ and labels/ with the same names in both, or imagesTr/ and labelsTr/, which are
folders of nnU-Net or of the Medical Segmentation Decathlon if dataset.json lies beside them. The
second has files, or DICOM with a folder or a zip a case, and labels/ among them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracoco.errors import UserError, collected, raise_all
from tracoco.files import read_json
from tracoco.project.cases import Case
from tracoco.project.labels import IGNORE
from tracoco.project.layouts.pairing import (
    CHANNEL,
    Found,
    contents,
    counts_channels,
    first_folder,
    pair,
    scans_of,
)
from tracoco.project.splits import Splits
from tracoco.scans.reader import scan_stem, scans_in

IMAGE_FOLDERS = ("images", "imagesTr")
LABEL_FOLDERS = ("labels", "labelsTr")


def recognises_images(data: Path) -> bool:
    """Whether there is a folder of images."""
    return first_folder(data, IMAGE_FOLDERS) is not None


def find_images(data: Path, labels: Path | None) -> Found:
    """Pair by stem; labels may also lie inside the images' files."""
    problems: list[str] = []
    images, label_files = [], []
    with collected(problems):
        images = scans_of(_folder(data, IMAGE_FOLDERS))
    folder = labels or first_folder(data, LABEL_FOLDERS)
    if folder:
        with collected(problems):
            label_files = scans_of(folder)
    raise_all(problems)
    cases = pair(images, label_files)
    if not any(case.label for case in cases):
        _folder(data, LABEL_FOLDERS)  # says what there is in its place
    return Found(cases)


def _folder(data: Path, names: tuple[str, ...]) -> Path:
    folder = first_folder(data, names)
    if folder is None:
        wanted = " or ".join(f"{name}/" for name in names)
        raise UserError(
            f"{data} has no folder {wanted}; it holds {contents(data)}. Put the scans into one"
        )
    return folder


def recognises_beside(data: Path) -> bool:
    """Whether a scan lies beside a folder of labels."""
    return first_folder(data, LABEL_FOLDERS) is not None and bool(_scans_beside(data))


def find_beside(data: Path, labels: Path | None) -> Found:
    """Pair scans and labels by name."""
    folder = labels or first_folder(data, LABEL_FOLDERS)
    if folder is None:
        raise UserError(f"{data} has no folder labels/; it holds {contents(data)}. Add the labels")
    images = [path for path in _scans_beside(data) if path != folder.absolute()]
    return Found(pair(images, scans_of(folder)))


def _scans_beside(data: Path) -> list[Path]:
    """Labels may be DICOM too, so their folder is left out by its name."""
    return [path.absolute() for path in scans_in(data) if path.name not in LABEL_FOLDERS]


DESCRIPTION = "dataset.json"


def recognises_nnunet(data: Path) -> bool:
    """Whether dataset.json lies beside imagesTr."""
    return (data / DESCRIPTION).is_file() and (data / "imagesTr").is_dir()


def find_nnunet(data: Path, _: Path | None) -> Found:
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
