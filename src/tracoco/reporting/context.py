"""Context sensitivity as a reader sees it: a table for a terminal, a section of the page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from tracoco.evaluation.context import ContextScore, ContextSummary
from tracoco.files import read_json
from tracoco.settings import checked
from tracoco.text import count, number, spread

HEADINGS = ("disagreement\n%", "KL\nnats", "differing\nvoxels, %", "pairs")


class ContextFile(BaseModel):
    """`context.json` of a run: what was measured, and on what."""

    source: str
    checkpoint: str
    averaged: bool = False
    """Whether the weights were the averaged ones of the run."""
    watermark: str = ""
    """What must be said of the checkpoint; mostly nothing."""
    crop: tuple[int, ...]
    shifts: int
    seed: int
    summary: ContextSummary
    rows: tuple[ContextScore, ...]

    @property
    def meaning(self) -> str:
        """The figures in one sentence."""
        if self.summary.differing is None:
            return "No scan is larger than the crop, so there is nothing to compare."
        return (
            "Moved by up to half a crop, the run changes its label in "
            f"{number(self.summary.differing, 2)} % of the voxels that it sees both times. "
            "Lower is better, but who finds nothing never changes an answer: "
            "read it beside the Dice."
        )

    @property
    def remarks(self) -> list[str]:
        """What a reader must know: the watermark of the checkpoint, and what is left out."""
        empty, small = self.summary.empty_pairs, self.summary.scans_without_room
        remarks = [self.watermark] if self.watermark else []
        if empty:
            pairs = count(empty, "pair")
            remarks.append(f"{pairs} without foreground in either answer: no disagreement to count")
        if small:
            scans = count(small, "scan")
            remarks.append(f"{scans} no larger than the crop: no room to translate, not counted")
        return remarks


def read_context(run: Path) -> ContextFile | None:
    """What `tracoco context` left in a run's folder, if it did."""
    file = run / "context.json"
    return checked(ContextFile, read_json(file), str(file)) if file.exists() else None


def context_table(result: Mapping[str, Any]) -> Table:
    """Each scan, then the means."""
    file = checked(ContextFile, result, "context sensitivity")
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("scan", overflow="fold", vertical="top")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in file.rows:
        figures = (number(row.disagreement, 2), number(row.divergence, 4), number(row.differing, 2))
        table.add_row(Text(row.scan), *figures, str(row.pairs))
    summary = file.summary
    table.add_section()
    table.add_row(
        f"mean of {summary.scans - summary.scans_without_room}",
        spread(summary.disagreement, summary.disagreement_sd, 2),
        spread(summary.divergence, summary.divergence_sd, 4),
        spread(summary.differing, summary.differing_sd, 2),
        str(summary.pairs),
    )
    table.caption, table.caption_justify = Text("\n".join([file.meaning, *file.remarks])), "left"
    return table
