"""`tracoco view`: scans, labels and predictions in a browser."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracoco.cli.app import app


@app.command()
def view(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN|PROJECT|PRED", help="Run, project or folder of predictions."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write one HTML file in place of starting a server.")
    ] = None,
    part: Annotated[
        Literal["labelled", "unlabelled", "validation", "test"] | None,
        typer.Option(help="Show only this part of the split."),
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="Show only this case; repeat for several.")
    ] = None,
    limit_mb: Annotated[
        float, typer.Option(help="Largest size of the volumes in a file, in MB.")
    ] = 50.0,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the server. Default: a free one.")
    ] = None,
) -> None:
    """Look at scans with labels, predictions, errors and uncertainty.

    Without --out, a server on 127.0.0.1 shows all cases at full resolution until Ctrl+C. Its
    address holds a random token: whoever knows it can see the scans. On another machine, forward
    the port with `ssh -L PORT:127.0.0.1:PORT`. With --out the page is one file that works offline.

    Example: tracoco view heart/runs/tracoco-seed0 --out heart.html
    """
    from tracoco.api.view import view as show

    shown = show(
        source,
        out=out,
        part=part,
        case=case or (),
        limit_mb=limit_mb,
        port=port if out or port is not None else 0,
    )
    for note in shown.content.notes:
        print(note)
    if shown.server is None:
        print(f"{shown.file} ({shown.file.stat().st_size / 1e6:.1f} MB)" if shown.file else "")
        return
    print(f"{len(shown.content.cases)} cases at {shown.server.address}\nCtrl+C ends the server")
    try:
        shown.server.wait()
    except KeyboardInterrupt:
        shown.server.stop()
