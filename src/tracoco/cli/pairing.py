"""What `tracoco init` understood, for a person and for a program."""

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from tracoco.console import print_table

if TYPE_CHECKING:
    from tracoco.project.cases import Case
    from tracoco.project.create import Proposal
    from tracoco.project.update import Update


def pairing_table(proposal: "Proposal", update: "Update | None" = None) -> Table:
    """A line a case: its files, and where it goes."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("case", "image", "label", "group", "part", *(["change"] if update else [])):
        table.add_column(column, overflow="fold")
    part_of = _parts(proposal)
    for case in proposal.cases:
        cells = [case.id, _images(case), _label(case), case.group or "", part_of.get(case.id, "")]
        cells += [update.change(case.id)] if update else []
        table.add_row(*map(escape, cells))
    return table


def print_pairing(proposal: "Proposal", update: "Update | None" = None) -> None:
    """The table, and what there is to say about it."""
    print_table(pairing_table(proposal, update))
    print_notes(proposal)


def print_notes(proposal: "Proposal") -> None:
    """The layout, every note, and how many cases there are of which kind."""
    print(f"layout: {proposal.origin.layout}")
    for note in proposal.origin.notes:
        print(f"note: {note}")
    if proposal.origin.watermark:
        print(f"results will say: {proposal.origin.watermark}")
    counts = [f"{len(ids)} {part}" for part, ids in proposal.splits.parts.items()]
    print(f"{', '.join(counts)} cases")


def pairing_json(proposal: "Proposal", update: "Update | None" = None) -> dict[str, Any]:
    """The same for a program."""
    part_of = _parts(proposal)
    rows = [
        {
            "id": case.id,
            "images": [str(path) for path in case.images],
            "label": str(case.label) if case.label else None,
            "group": case.group,
            "part": part_of.get(case.id),
            "hidden": case.id in proposal.splits.hidden,
            **({"change": update.change(case.id)} if update else {}),
        }
        for case in proposal.cases
    ]
    origin = proposal.origin
    return {
        "layout": origin.layout,
        "notes": list(origin.notes),
        "watermark": origin.watermark,
        "cases": rows,
    }


def _parts(proposal: "Proposal") -> dict[str, str]:
    return {id_: part for part, ids in proposal.splits.parts.items() for id_ in ids}


def _images(case: "Case") -> str:
    """Names alone: they lie side by side, and the whole paths are in cases.json."""
    return " + ".join(f"{path.parent.name}/{path.name}" for path in case.images)


def _label(case: "Case") -> str:
    if case.label is None:
        return "-"
    return "inside" if case.label in case.images else f"{case.label.parent.name}/{case.label.name}"
