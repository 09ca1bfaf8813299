"""images/ and labels/ with the same names in both, or imagesTr/ and labelsTr/."""

from pathlib import Path

from tracoco.errors import UserError, collected, raise_all
from tracoco.project.layouts.pairing import Found, contents, first_folder, pair, scans_of

IMAGE_FOLDERS = ("images", "imagesTr")
LABEL_FOLDERS = ("labels", "labelsTr")


def recognises(data: Path) -> bool:
    """Whether there is a folder of images."""
    return first_folder(data, IMAGE_FOLDERS) is not None


def find(data: Path, labels: Path | None) -> Found:
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
