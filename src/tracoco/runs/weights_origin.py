"""Where the first weights of a run come from, as its folder records it."""

from dataclasses import dataclass
from typing import Literal

from tracoco.files import digest
from tracoco.text import listed

Kind = Literal["run", "features", "file"]
"""A run of the same method; one that has learnt features alone; a weights file."""
Rules = dict[str, str]
"""Beginnings of names in a file, and what they are in our network."""
SHOWN = 3
"""Names that a summary has of each kind."""
FEW = 0.5
"""Fraction of a network's weights below which it is told that few were loaded."""


@dataclass(frozen=True, slots=True)
class Names:
    """How many tensors there are of a kind, and the names of the first few."""

    count: int = 0
    first: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: list[str]) -> "Names":
        """All of these."""
        return cls(len(names), tuple(names[:SHOWN]))

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.first) else ""
        return f"{', '.join(self.first)}{more}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of starting weights: all counts are of one network, the first."""

    networks: int
    """Networks that got weights, teachers and averages among them."""
    peers: int
    """Networks that learn, all of which start from the same weights."""
    tensors: int
    tensors_of: int
    fraction: float
    """Of the numbers that the network learns."""
    missing: Names = Names()
    """Tensors of the network that the source does not have; they are drawn."""
    unexpected: Names = Names()
    """Tensors of the source that the network does not have."""
    other_shape: Names = Names()
    """Tensors that both have, in another shape; they are drawn."""

    def lines(self, *, mapped: bool) -> list[str]:
        """A summary for a person, and what to think of before the first step."""
        left = {
            "drawn": self.missing,
            "of another shape": self.other_shape,
            "not used": self.unexpected,
        }
        parts = [f"{names.count} {what} ({names})" for what, names in left.items() if names.count]
        percent = f"{100 * self.fraction:.0f} % of the network's weights"
        summary = f"loaded {self.tensors} of {self.tensors_of} tensors, {percent}"
        found = ["; ".join([summary, *parts])]
        if self.fraction < FEW and not mapped:
            found.append(
                f"warning: only {percent} were loaded; --init-map FILE says which names belong "
                "together"
            )
        if self.peers > 1:
            found.append(
                f"warning: all {self.peers} networks start from the same weights but for their "
                "output layers, so that they differ less than networks that are drawn"
            )
        return found


@dataclass(frozen=True, slots=True)
class StartingWeights:
    """Where a run's first weights come from; its facts and its report say so."""

    run: str
    """The earlier run's folder, or the file."""
    step: int
    """Steps that the earlier run had taken; 0 for a file from elsewhere."""
    weights: str
    """Hash of its checkpoint `last`, or of the file."""
    seen: tuple[str, ...] = ()
    """Cases that the new run is judged by, whose names the earlier one has learnt from."""
    kind: Kind = "run"
    rules: Rules | None = None
    """What `--init-map` says."""
    loaded: Loaded | None = None
    """What fitted, once it is loaded; None for a run of the same method, of which all must fit."""

    @property
    def identity(self) -> str:
        """Changes with the weights and with what is taken of them."""
        return digest([self.weights, self.rules]) if self.rules else self.weights

    @property
    def origin(self) -> str:
        """Where they are from, in words."""
        return f"{self.run}, step {self.step}" if self.step else self.run

    @property
    def caution(self) -> str:
        """What makes scores of some cases no test: the earlier run has learnt from them."""
        if not self.seen:
            return ""
        return (
            "the run that it starts from has learnt from cases with the names of validation or "
            f"test cases ({listed(list(self.seen))})"
        )

    def lines(self) -> list[str]:
        """What was and was not loaded, and what to think of."""
        return self.loaded.lines(mapped=bool(self.rules)) if self.loaded else []
