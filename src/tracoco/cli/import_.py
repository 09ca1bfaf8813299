"""`tracoco import`: a released network as a run."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tracoco.cli.app import Overrides, app

if TYPE_CHECKING:
    from tracoco.studies.paper.import_checkpoint import ImportedRun


@app.command("import")
def import_(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Released weights, a .pth file.")],
    preset: Annotated[str, typer.Option(help="Preset of the data set it was trained on.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Run folder to create.")],
    intensities: Annotated[
        Literal["min-max", "stored"] | None,
        typer.Option(help="Scale each scan to [0, 1], or keep its values. Default: by repository."),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Import released weights as a run, to predict with them.

    Takes the networks of TraCoCo, UA-MT, DTC, MC-Net, BCP and SSL4MIS that equal VNet and UNet
    here. The preset gives the crop and the windows. No code in MODEL is executed.

    Example: tracoco import la_8.pth --preset la-8-as-released --out released
    """
    from tracoco.studies.paper.import_checkpoint import import_checkpoint

    done = import_checkpoint(model, preset, out, overrides=overrides or (), intensities=intensities)
    for line in _lines(done):
        print(line)


def _lines(done: "ImportedRun") -> list[str]:
    kept = {"min-max": "scaled to [0, 1] scan by scan", "stored": "as they are in the files"}
    rows = {
        "recognised": done.naming,
        "network": done.network,
        "mapped": f"{done.layers} layers, {done.tensors} tensors; none missing, none left over",
        "not used": _not_used(done),
        "intensities": kept[done.intensities],
        "run": str(done.run),
    }
    run, labels = shlex.quote(str(done.run)), shlex.quote(str(done.run / "predictions" / "test"))
    return [
        *(f"{name:12} {value}" for name, value in rows.items() if value),
        *(f"note: {note}" for note in done.notes),
        f"next: tracoco predict {run} SCANS {labels}",
        f"then: tracoco evaluate {labels} TRUTH --protocol paper",
    ]


def _not_used(done: "ImportedRun") -> str:
    if not done.unused:
        return ""
    parts = dict.fromkeys(name.partition(".")[0] for name in done.unused)
    return f"{len(done.unused)} tensors of {', '.join(parts)}"
