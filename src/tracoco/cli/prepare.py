"""`tracoco prepare`: normalise and resample the scans of a project."""

from typing import Annotated

import typer

from tracoco.cli.app import ProjectFolder, app


@app.command()
def prepare(
    project: ProjectFolder,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes. Default: chosen by machine and data."),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="K/N", help="Prepare only the K-th of N parts of the scans."),
    ] = None,
) -> None:
    """Normalise and resample the scans; cases that are prepared already are kept.

    Example: tracoco prepare heart
    """
    from tracoco.api.projects import prepare as prepare_scans
    from tracoco.processes import parse_shard, shard_of

    part = parse_shard(shard) if shard else None
    opened = prepare_scans(project, workers=workers, shard=part)
    splits = opened.load_splits()
    if part:
        print(f"{len(shard_of(splits.ids, part))} cases of part {shard} in {opened.store_root}")
        print(f"next, once all parts are done: tracoco prepare {project}, which adds what is left")
        return
    print(f"{len(splits.ids)} cases in {opened.store_root}")
    print(f"next: tracoco train {project}{'' if splits.unlabelled else ' --method supervised'}")
    if not splits.unlabelled and len(splits.labelled) > 1:
        few = max(1, len(splits.labelled) // 10)
        print(
            f"every scan has a label: with --set data.labelled={few} in place of --method, the "
            f"labels of all but {few} are hidden and the others learnt from without"
        )
