"""`tracoco serve`: a server for 3D Slicer and OHIF."""

from pathlib import Path
from typing import Annotated

import typer

from tracoco.cli.app import Device, ProjectFolder, app


@app.command()
def serve(
    project: ProjectFolder,
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Model. Default: the newest run.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any.")] = 8000,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Web page elsewhere that may use it; repeatable."),
    ] = None,
    device: Device = "auto",
) -> None:
    """Serve a project to labelling tools: MONAI Label's interface for 3D Slicer and OHIF.

    The tools ask for the next scan, get a draft label, save the corrected one and start a training.
    Other addresses than 127.0.0.1 need the token that is printed. Needs `pip install
    'tracoco[serve]'`.

    Example: tracoco serve heart
    """
    from tracoco.api.labelling import serve as serve_project

    serve_project(
        project, run=run, host=host, port=port, allow_origin=allow_origin or (), device=device
    )
