"""What a row of the table of methods tells of a method, without importing it."""

import re
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

Family = Literal[
    "baseline",
    "consistency",
    "decoders",
    "co-training",
    "pseudo-labels",
    "mixing",
    "contrast",
    "adversarial",
    "shape",
    "pre-training",
]
"""What a method learns from unlabelled crops, in one word; `FAMILIES` says it in a sentence."""
FAMILIES: dict[str, str] = {
    "baseline": "learn from labels alone",
    "consistency": "agree with an averaged teacher, or under noise",
    "decoders": "several decoders, or levels of one, agree with each other",
    "co-training": "two networks teach each other",
    "pseudo-labels": "learn what the network itself is sure of",
    "mixing": "learn from crops that are mixed or pasted into each other",
    "contrast": "features of one class are alike and differ from those of other classes",
    "adversarial": "withstand the worst small change of a crop",
    "shape": "predict shapes that are plausible: distances to a surface, a discriminator",
    "pre-training": "learn features from scans before any label is used",
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What a method needs of its run; a run that does not have it is refused before it starts."""

    labelled: int = 1
    """The fewest labelled crops of a batch."""
    unlabelled: int = 1
    """The fewest unlabelled crops of a batch, if the method learns from any."""
    even: bool = False
    """Whether both numbers must be even, e.g. because halves of a batch are pasted together."""
    only_with: str = ""
    """A setting of the method, e.g. `cutmix`; where it is off, one crop of each kind will do."""
    features: bool = False
    """Whether it needs the feature maps of its network, which networks of MONAI do not give."""

    def in_words(self, *, unlabelled: bool) -> str:
        """What is needed beyond one crop of each kind; `unlabelled` says if such crops are read."""
        sizes = [(self.labelled, "labelled")] + [(self.unlabelled, "unlabelled")] * unlabelled
        parts = [f"{size} or more {kind}" for size, kind in sizes if size > 1]
        batch = f"{' and '.join(parts)} crops in a batch" if parts else ""
        batch += " (even numbers)" if self.even else ""
        batch += f" with `{self.only_with}`" if self.only_with else ""
        features = "a network with feature maps" if self.features else ""
        return "; ".join(filter(None, (batch, features)))

    def enough(self, fewest: int, crops: int) -> int:
        """The smallest number from `crops` on that is at least `fewest`, and even if need be."""
        most = max(fewest, crops)
        return most + most % 2 if self.even else most


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
    needs: Needs = Needs()
    """The smallest batch, and what the network must offer."""
    dimensions: tuple[int, ...] = (2, 3)
    """Of crops that it can be trained on."""
    family: Family | None = None
    """What `tracoco methods` lists it under."""
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


def name_problem(name: str) -> str:
    """What is wrong with the name of a method; empty if nothing is."""
    if re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        return ""
    return f"'{name}' is no name of a method: use a-z, 0-9 and -, e.g. 'sure-labels'"


def row_problem(row: object) -> str:
    """What is wrong with a row of a method that is not of this package; empty if nothing is."""
    if not isinstance(row, MethodRow):
        return f"it is {_article(type(row).__name__)} and not a MethodRow"
    modules = row.trained_by_unlabelled
    named = isinstance(modules, tuple) and all(isinstance(name, str) for name in modules)
    problems = {
        f"target '{row.target}' is not of the form 'module:Class'": not re.fullmatch(
            r"\w+(\.\w+)*:\w+", row.target
        ),
        f"trained_by_unlabelled is {modules!r}; write a tuple of names, e.g. ('network',)": (
            not named
        ),
        f"family '{row.family}' does not exist; there are {', '.join(FAMILIES)}": (
            row.family is not None and row.family not in FAMILIES
        ),
        f"dimensions is {row.dimensions!r}; write (2,), (3,) or (2, 3)": (
            not row.dimensions or not set(row.dimensions) <= {2, 3}
        ),
        "needs asks for fewer than 1 crop; leave out what is not needed": (
            min(row.needs.labelled, row.needs.unlabelled) < 1
        ),
        f"needs asks for {row.needs.unlabelled} unlabelled crops, but trained_by_unlabelled is "
        "empty, so that none are read; name the modules that they teach": (
            not modules and row.needs.unlabelled > 1
        ),
    }
    return next((problem for problem, found in problems.items() if found), "")


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiouAEIOU" else f"a {noun}"
