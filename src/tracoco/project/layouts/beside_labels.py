"""Scans that lie beside a folder labels/: files, or DICOM with a folder or a zip a case."""

from pathlib import Path

from tracoco.errors import UserError
from tracoco.project.layouts.images_labels import LABEL_FOLDERS
from tracoco.project.layouts.pairing import Found, contents, first_folder, pair, scans_of
from tracoco.scans.reader import scans_in


def recognises(data: Path) -> bool:
    """Whether a scan lies beside a folder of labels."""
    return first_folder(data, LABEL_FOLDERS) is not None and bool(_images(data))


def find(data: Path, labels: Path | None) -> Found:
    """Pair scans and labels by name."""
    folder = labels or first_folder(data, LABEL_FOLDERS)
    if folder is None:
        raise UserError(f"{data} has no folder labels/; it holds {contents(data)}. Add the labels")
    images = [path for path in _images(data) if path != folder.absolute()]
    return Found(pair(images, scans_of(folder)))


def _images(data: Path) -> list[Path]:
    """Labels may be DICOM too, so their folder is left out by its name."""
    return [path.absolute() for path in scans_in(data) if path.name not in LABEL_FOLDERS]
