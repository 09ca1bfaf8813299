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
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ProjectFolder = Annotated[Path, typer.Argument(metavar="PROJECT", help="Project folder.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda:N or mps.")]
CheckpointName = Annotated[
    Literal["last", "best"], typer.Option(help="Last checkpoint, or best on the validation cases.")
]
Memory = Annotated[
    float | None,
    typer.Option(min=0.1, help="Memory for a training. Default: that of the GPU, or 1/4 of RAM."),
]
PlannedFor = Annotated[
    Literal["cpu", "gpu"] | None,
    typer.Option("--for", help="Device that the training will run on. Default: this machine."),
]
WeightsKind = Annotated[
    Literal["averaged", "raw"],
    typer.Option(help="Averaged weights (EMA), or those of the last step."),
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting; repeat for several."),
]


def complete_method(start: str) -> list[str]:
    """Names of methods, for the completion of a shell."""
    from tracoco.methods import METHODS

    return [name for name in METHODS if name.startswith(start)]


def complete_preset(start: str) -> list[str]:
    """Names of presets, for the completion of a shell."""
    from tracoco.presets import preset_names

    return [name for name in preset_names() if name.startswith(start)]


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train segmentation models from a few labelled scans and many unlabelled ones."""
