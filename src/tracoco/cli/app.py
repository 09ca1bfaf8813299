"""The command itself, and the arguments that several of its parts take."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco import __version__


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tracoco {__version__}")
        raise typer.Exit


app = typer.Typer(
    epilog="Start with: tracoco demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ProjectFolder = Annotated[Path, typer.Argument(metavar="PROJECT", help="A project's folder.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda:N or mps.")]
CheckpointName = Annotated[
    Literal["last", "best"], typer.Option(help="last, or best of those validated.")
]
Memory = Annotated[
    float | None,
    typer.Option(min=0.1, help="What a training may take; the GPU's, or a quarter of the RAM."),
]
PlannedFor = Annotated[
    Literal["cpu", "gpu"] | None,
    typer.Option("--for", help="Where the training will run, if not on this machine."),
]
WeightsKind = Annotated[
    Literal["averaged", "raw"], typer.Option(help="Averaged, where the run has them, or raw.")
]
Seed = Annotated[int, typer.Option(min=0, help="Changes every random choice.")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting.")
]


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A few labelled scans and many unlabelled ones in, a segmentation model out."""
