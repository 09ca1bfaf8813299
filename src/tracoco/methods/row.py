"""What is known of a method without importing it: a row of the table."""

from dataclasses import dataclass
from typing import Final, Literal

Faithful = Literal[
    "released recipe reproduced",
    "published formulas, common recipe",
    "no public code: from the paper",
    "no public code: reconstruction",
]
"""How near the package is to a publication; each method is exactly one of these.

The recipe is reproduced where `--recipe released` states all that matters for a data set of the
field. It is the common one where the release is for other data, or cannot be stated in full.
"""
RELEASED_RECIPE: Final = "released recipe reproduced"
COMMON_RECIPE: Final = "published formulas, common recipe"
FROM_PAPER: Final = "no public code: from the paper"
RECONSTRUCTION: Final = "no public code: reconstruction"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """What is known of a method without building it."""

    target: str
    """`module:Class`."""
    idea: str
    trained_by_unlabelled: tuple[str, ...]
    """Modules that unlabelled crops teach; a method without any is given no unlabelled crops."""
    pairs: bool = False
    """Whether it uses the second crop of each pair; if not, those crops are not read."""
    year: int | None = None
    """Of the publication; none for what is older than the field, or not published."""
    venue: str = ""
    """Where it was published."""
    faithful: Faithful | None = None
    """None for a method that a user has registered."""
    caution: str = ""
    """What a run of this method tells its user before it starts, if anything."""
    segments: bool = True
    """Whether its runs predict; if not, runs of other methods start from their weights."""
    pseudo_labels: bool = False
    """Whether its unlabelled crops come with labels that an earlier run has predicted."""

    @property
    def alone(self) -> bool:
        """Whether one training gives a segmentation."""
        return self.segments and not self.pseudo_labels
