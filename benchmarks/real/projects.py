"""Real scans, real numbers: a project for each data set, prepared and ready for its grid.

    python -m benchmarks.real.projects DATA OUT

DATA holds the folders `la`, `acdc`, `brats19`, `btcv_pancreas` and `hippocampus` with public
scans, cut down so that two CPU cores can learn from them. They are not the scans of the papers and
some are fewer: the figures compare methods with one another, not with published ones.

What is there already is left as it is; a project whose preparation was cut off is prepared to its
end. `hippocampus-tuning` has none of the cases that `hippocampus` is tested on: settings are chosen
on such projects. `python -m benchmarks.real.run DATA OUT` makes the projects of the grids and runs
all of them.
"""

import argparse
from pathlib import Path

from benchmarks.real.data_sets import DATA_SETS, RealData
from tracoco.console import say
from tracoco.errors import UserError, did_you_mean
from tracoco.presets import load_config
from tracoco.project.create import Proposal, SplitChoice, create_project, propose
from tracoco.project.folder import Project
from tracoco.project.layouts import Found
from tracoco.project.prepare import prepare


def main() -> None:
    """Make and prepare all projects, or those that are named."""
    parser = argparse.ArgumentParser(description="Make the projects of the real data.")
    parser.add_argument("data", type=Path, help="folder of the real data")
    parser.add_argument("out", type=Path, help="folder for the projects")
    parser.add_argument("only", nargs="*", help=f"of {', '.join(DATA_SETS)}; all by default")
    request = parser.parse_args()
    names = request.only or list(DATA_SETS)
    try:
        for name in names:
            # A project is used from anywhere, so it has to know its scans from anywhere.
            project = make_real_project(name, request.data.absolute(), request.out / name)
            splits = project.load_splits()
            say(f"{name}: {len(splits.labelled)} labelled, {len(splits.test)} for the test")
    except UserError as error:
        raise SystemExit(str(error)) from None


def make_real_project(name: str, data: Path, root: Path) -> Project:
    """Make and prepare one project, or what is missing of it."""
    if name not in DATA_SETS:
        raise UserError(f"there is no data set '{name}'; {did_you_mean(name, DATA_SETS)}")
    project = Project(root)
    if not project.exists:
        create_project(root, proposal(DATA_SETS[name], data, root / "scans"))
    prepare(project)
    return project


def proposal(real: RealData, data: Path, scans: Path) -> Proposal:
    """The cases and their parts; what has to be written anew is written to `scans`."""
    cases, splits = real.find(data, scans)
    crop = load_config(real.preset).data.crop or ()
    found = Found(
        tuple(cases[id_] for id_ in splits.ids),
        real.class_names,
        splits,
        notes=real.notes,
        plan={**real.plan, "crop": (1,) * (3 - len(crop)) + crop},
        watermark=real.watermark,
        ignore=real.ignore,
    )
    return propose(found, SplitChoice())


if __name__ == "__main__":
    main()
