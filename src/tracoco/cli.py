"""The `tracoco` command: read the arguments, call one function, print one result."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from tracoco import __version__
from tracoco.console import counted, print_json, print_table, progress_console
from tracoco.errors import UserError

# Torch takes seconds to import, so each command imports what it needs when it runs.


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
Units = Literal["mm", "voxel"]
Empty = Literal["missed", "zero"]
Seed = Annotated[int, typer.Option(min=0, help="Changes every random choice.")]


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A few labelled scans and many unlabelled ones in, a segmentation model out."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write; it must not exist.")] = Path("demo"),
    seed: Seed = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Go the whole way on phantom scans, to a report.

    It does what your own scans would get: init, prepare, train supervised and tracoco, predict,
    evaluate, report.

    Example: tracoco demo --out demo --seed 1
    """
    from tracoco.demo.run import run_demo
    from tracoco.report.tables import comparison_table

    result = run_demo(out, seed, device, None if as_json else progress_console())
    if as_json:
        print_json(result.to_json())
        return
    print_table(comparison_table(result.rows))
    for name, path in result.paths.items():
        print(f"{name:24}{path}")
    print(f"{'time':24}{result.seconds:.0f} s")


@app.command()
def init(
    data: Annotated[Path, typer.Argument(help="Folder with images/ and labels/.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The project's folder, to be made.")],
    labels: Annotated[Path | None, typer.Option(help="Labels, if not in DATA/labels.")] = None,
    validation: Annotated[int, typer.Option(min=0, help="Labelled cases to select with.")] = 0,
    test: Annotated[int, typer.Option(min=0, help="Labelled cases to keep away.")] = 0,
    dimensions: Annotated[int, typer.Option(min=2, max=3, help="2 for slices.")] = 3,
    seed: Seed = 0,
) -> None:
    """Pair images and labels, split them and plan.

    An image without a label is unlabelled.

    Example: tracoco init scans -o heart --validation 2
    """
    from tracoco.project.folder import init_project

    dims: Literal[2, 3] = 2 if dimensions == 2 else 3
    project = init_project(
        data, out, labels=labels, validation=validation, test=test, dimensions=dims, seed=seed
    )
    splits, plan = project.load_splits(), project.load_plan()
    print(
        f"{len(splits.labelled)} labelled, {len(splits.unlabelled)} unlabelled, "
        f"{len(splits.validation)} validation, {len(splits.test)} test cases"
    )
    print(f"crops of {' x '.join(map(str, plan.crop))} voxels; edit {project.plan_file} to change")
    print(f"next: tracoco prepare {out}")


@app.command()
def prepare(project: ProjectFolder) -> None:
    """Normalise and resample scans into the store.

    Example: tracoco prepare heart
    """
    from tracoco.project.folder import Project
    from tracoco.project.prepare import prepare as fill_store

    opened = Project(project)
    splits = opened.load_splits()
    with counted("preparing", len(splits.ids), progress_console()) as on_case:
        count = fill_store(opened, on_case)
    print(f"{count} cases in {opened.store_root}")
    print(f"next: tracoco train {project}{'' if splits.unlabelled else ' --method supervised'}")


@app.command()
def train(
    project: ProjectFolder,
    method: Annotated[str | None, typer.Option(help="See `tracoco methods`.")] = None,
    preset: Annotated[str | None, typer.Option(help="See `tracoco presets`.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change one setting.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Changes every random choice.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="PROJECT/runs/METHOD-seedN if not given.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was stopped.")
    ] = False,
    device: Device = "auto",
) -> None:
    """Train a run.

    Stop it with Ctrl-C and go on with --resume: nothing is lost.

    Example: tracoco train heart --preset cpu --set training.steps=4000
    """
    from tracoco.config import load_config
    from tracoco.experiment import train as train_run
    from tracoco.project.folder import Project

    changes = [f"method.name={method}"] if method else []
    changes += [f"seed={seed}"] if seed is not None else []
    config = load_config(preset, [*changes, *(overrides or [])])
    opened = Project(project)
    folder = out or opened.runs_root / f"{config.method.name}-seed{config.seed}"
    result = train_run(
        opened, config, folder, resume=resume, device=device, console=progress_console()
    )
    if result.leads and result.signal:
        print(f"stopped after step {result.steps} of {config.training.steps}; saved in {folder}")
        print("go on with the same command and --resume")
    elif result.leads:
        print(f"trained {result.steps} steps: {folder}")
        print(f"next: tracoco predict {folder} SCANS {folder / 'predictions' / 'test'}")
    if result.signal:
        raise typer.Exit(128 + result.signal)


@app.command()
def predict(
    run: RunArgument,
    source: Annotated[Path, typer.Argument(metavar="IN", help="Scan, folder, or project.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where the labels go.")],
    checkpoint: Annotated[str, typer.Option(help="last, or best on validation.")] = "last",
    device: Device = "auto",
) -> None:
    """Segment scans, each on its own grid.

    A project in place of IN stands for its test cases.

    Example: tracoco predict heart/runs/tracoco-seed0 new_scans labels
    """
    from tracoco.inference.predictions import predict_scans

    cases = predict_scans(
        run, source, out, checkpoint=checkpoint, device=device, console=progress_console()
    )
    print(f"{len(cases)} predictions in {out}")
    print(f"next: tracoco evaluate {out} TRUTH")


@app.command()
def evaluate(
    prediction: Annotated[Path, typer.Argument(metavar="PRED", help="A label file or folder.")],
    truth: Annotated[Path, typer.Argument(metavar="TRUTH", help="File, folder, or project.")],
    units: Annotated[Units, typer.Option(help="Of distances.")] = "mm",
    empty: Annotated[Empty, typer.Option(help="Empty masks: counted as missed, or 0.")] = "missed",
    as_json: AsJson = False,
) -> None:
    """Score predictions against the truth.

    The scores stay beside the predictions, as scores.json. A project in place of TRUTH stands
    for its test cases.

    Example: tracoco evaluate heart/runs/tracoco-seed0/predictions/test true_labels
    """
    from tracoco.evaluation.folders import evaluate_predictions
    from tracoco.evaluation.scores import Protocol
    from tracoco.report.tables import score_table

    result = evaluate_predictions(prediction, truth, Protocol(units=units, empty=empty))
    if as_json:
        print_json(result)
    else:
        print_table(score_table(result))


@app.command()
def report(
    run: RunArgument,
    scores: Annotated[
        list[Path] | None, typer.Option(help="A scores.json that is not in RUN/predictions.")
    ] = None,
) -> None:
    """Write one HTML page about a run.

    Settings, curves, health of the pseudo-labels, cases, pictures.

    Example: tracoco report heart/runs/tracoco-seed0
    """
    from tracoco.report.page import write_report

    print(write_report(run, scores or ()))


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs' folders.")],
    as_json: AsJson = False,
) -> None:
    """Put evaluated runs side by side.

    Example: tracoco compare heart/runs/*
    """
    from tracoco.report.compare import compare_runs
    from tracoco.report.tables import comparison_table

    rows = compare_runs(runs)
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        print_table(comparison_table(rows))


@app.command()
def methods(as_json: AsJson = False) -> None:
    """List the methods."""
    from tracoco.methods import METHODS

    rows = [{"method": name, "year": row.year, "idea": row.idea} for name, row in METHODS.items()]
    if as_json:
        print_json({"rows": rows})
        return
    for row in rows:
        print(f"{row['method']:12} {row['year'] or '':4}  {row['idea']}")


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(help="Print this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets, or print one."""
    from tracoco.config import preset_names, preset_text, read_preset

    names = [name] if name else preset_names()
    if as_json:
        print_json({"rows": [{"preset": each, "settings": read_preset(each)} for each in names]})
    elif name:
        print(preset_text(name), end="")
    else:
        for each in names:
            print(f"{each:12} {preset_text(each).splitlines()[0].removeprefix('# ')}")


def main() -> NoReturn:
    """Run one command: 0 when it did what was asked, 2 when the user has to change something."""
    try:
        app()
    except UserError as error:
        _complain(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _complain(f"{error.filename}: {error.strerror}; check the path and its permissions")
    sys.exit(2)


def _complain(problem: str) -> None:
    print(f"{' '.join(['tracoco', *sys.argv[1:2]])}: {problem}", file=sys.stderr)
