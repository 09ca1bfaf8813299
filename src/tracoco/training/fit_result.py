"""How the training of a run ended."""

from dataclasses import dataclass

from tracoco.runs.facts import Ending


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
