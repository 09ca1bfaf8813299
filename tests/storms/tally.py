"""How many trials of each kind there were, and what came of them."""

from collections import Counter
from dataclasses import dataclass, field

COLUMNS = ("tried", "survived", "lost", "silently wrong", "traceback", "hang", "left half-written")


@dataclass(slots=True)
class Tally:
    """Outcomes by kind of trial, and a line for each failure."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, kind: str, outcome: str, detail: str = "", times: int = 1) -> None:
        """Count a trial."""
        counter = self.counts.setdefault(kind, Counter())
        counter["tried"] += times
        counter[outcome] += times
        if outcome != "survived":
            self.failures.append(f"{kind}: {outcome}: {detail}")

    def total(self, begins: str, outcome: str = "tried") -> int:
        """Trials of all kinds whose names begin so."""
        return sum(
            counter[outcome] for kind, counter in self.counts.items() if kind.startswith(begins)
        )

    def table(self) -> str:
        """One line a kind, and one for all, as a table in Markdown."""
        rows = [(kind, counter) for kind, counter in self.counts.items()]
        rows.append(("all", sum((counter for _, counter in rows), Counter())))
        lines = [f"| storm | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
        lines += [
            f"| {kind} | {' | '.join(f'{counter[column]:,}' for column in COLUMNS)} |"
            for kind, counter in rows
        ]
        return "\n".join(lines)
