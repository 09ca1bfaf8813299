"""Labels, and other files that are no image of a case, as their names tell them."""

import re
from pathlib import Path

from tracoco.scans.reader import scan_stem

SEPARATORS = "_. -"
# Whole words between separators, so that `weight` has no `gt` in it and `masked` is an image.
LABEL_WORD = re.compile(
    r"([a-z]*(seg|label|mask)s?|[a-z]*segmentations?|labelmap|gt|(ground)?truth|laendo)\d*",
    re.IGNORECASE,
)


def is_label(path: Path) -> bool:
    """Whether a file is a label: `X_seg`, `label`, `X-mask`, `X_gt`, `laendo` of LA 2018."""
    words = re.split(f"[{SEPARATORS}]", scan_stem(path))
    return any(LABEL_WORD.fullmatch(word) for word in words)


def names_image(label: Path, image: Path) -> bool:
    """Whether a label's name is the image's and a word for labels, e.g. `X` and `X_gt`."""
    stem, of_image = scan_stem(label), scan_stem(image)
    ending = stem.removeprefix(of_image).strip(SEPARATORS)
    return stem.startswith(of_image) and LABEL_WORD.fullmatch(ending) is not None


def is_all_times(path: Path) -> bool:
    """Whether a file holds all times of a beating heart, as ACDC has it beside its two frames."""
    return scan_stem(path).lower().endswith("_4d")
