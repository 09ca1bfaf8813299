"""Labels in a folder of their own: beside a folder of images, or beside the scans themselves.

The first has images/ and labels/ with the same names in both, or imagesTr/ and labelsTr/. The
second has files, or DICOM with a folder or a zip a case, and labels/ among them.
"""

from pathlib import Path

from tracoco.errors import UserError, collected, raise_all
from tracoco.project.layouts.pairing import Found, contents, first_folder, pair, scans_of
from tracoco.scans.reader import scans_in

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
