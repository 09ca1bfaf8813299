"""How the training of a run ended."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ending:
    """The weights after the last step against those from before unlabelled crops counted."""

    supervised_dice: float
    """On the cases that choose, before unlabelled crops began to count."""
    last_dice: float
    """The same after the last step."""

    @property
    def supervised(self) -> bool:
        """Whether the run ends with the weights of its supervised part, which scored higher."""
        return self.supervised_dice > self.last_dice


@dataclass(frozen=True, slots=True)
class FitResult:
    """How a run ended."""

    steps: int
    """Steps that are done and saved."""
    signal: int
    """The signal that stopped the run before its end, or 0."""
    leads: bool = True
    """Whether this process is the one to tell the user."""
    ended_with: Ending | None = None
    """Which weights the run has in the end, where it had a choice."""
