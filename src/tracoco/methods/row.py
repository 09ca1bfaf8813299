"""A row of the table of methods: plain facts, so that listing them imports no torch."""

from dataclasses import dataclass
from typing import Final, Literal

Faithful = Literal[
    "as published",
    "as published, fault of the release not kept",
    "our reading, formulas not public",
]
"""How near the package is to a publication; each method is exactly one of these."""
AS_PUBLISHED: Final = "as published"
FAULT_NOT_KEPT: Final = "as published, fault of the release not kept"
OUR_READING: Final = "our reading, formulas not public"


@dataclass(frozen=True, slots=True)
class MethodRow:
    """What is known of a method without building it."""

    target: str
    """`module:Class`."""
    idea: str
    taught: tuple[str, ...]
    """Modules that unlabelled crops teach; a method without any is given no unlabelled crops."""
    pairs: bool = False
    """Whether it looks at the second crop of each pair; if not, those crops are not read."""
    year: int | None = None
    """Of the publication; none for what is older than the field, or not published."""
    venue: str = ""
    """Where it was published."""
    faithful: Faithful | None = None
    """None for a method that a user has registered."""
    caution: str = ""
    """What a run of this method tells its user before it starts, if anything."""
