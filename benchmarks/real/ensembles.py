"""What averages gain on the test cases of a project: both networks, mirrored views, several seeds.

    python -m benchmarks.real.ensembles PROJECT OUT RUN RUN RUN

The runs differ in their seeds alone. Predictions go to OUT, and what is there already is kept.
OUT/ensembles.json has the Dice of every case; a table is printed. Mirrored views are left out where
the plan has no axes to mirror, and both networks where the method has one.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tracoco as tc
from tracoco.evaluation.bootstrap import paired_interval
from tracoco.files import write_json

PLAIN = "network 1"
Scores = Mapping[str, float]
"""Dice of each case in percent."""


def main() -> None:
    """Predict, score and print."""
    parser = argparse.ArgumentParser(description="Measure what averages gain.")
    parser.add_argument("project", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    request = parser.parse_args()
    rows = dict(measured(request.project, request.out, request.runs))
    write_json(request.out / "ensembles.json", rows)
    for line in table(rows):
        print(line)  # noqa: T201 - it is the result


def measured(project: Path, out: Path, runs: list[Path]) -> Iterator[tuple[str, list[Scores]]]:
    """Each way to predict, with the scores of each run; of all runs together once."""
    predictor = tc.Predictor.load(runs[0])
    ways: dict[str, dict[str, Any]] = {PLAIN: {}}
    if predictor.method.has_members:
        ways["mean of both networks"] = {"members": "both"}
    if predictor.plan.mirror_axes:
        ways["mirrored views"] = {"mirror": True}
    for name, options in ways.items():
        folders = [out / name.replace(" ", "-") / run.name for run in runs]
        pairs = zip(runs, folders, strict=True)
        yield name, [scores(project, run, folder, options) for run, folder in pairs]
    if len(runs) > 1:
        together = {"others": runs[1:]}
        name = f"mean of {len(runs)} seeds"
        yield name, [scores(project, runs[0], out / name.replace(" ", "-"), together)]


def scores(project: Path, run: Path, folder: Path, options: dict[str, Any]) -> Scores:
    """Dice of the project's test cases."""
    tc.predict(run, project, folder, plain=True, **options)
    found = tc.evaluate(folder, project)
    return {case.case: case.dice for case in found.cases if case.dice is not None}


def table(rows: Mapping[str, list[Scores]]) -> Iterator[str]:
    """Mean Dice, and the paired difference from network 1 with its 95 % interval."""
    cases = sorted(set.intersection(*({*one} for found in rows.values() for one in found)))
    plain = np.array([[one[case] for case in cases] for one in rows[PLAIN]])
    yield "| prediction | Dice, % | difference from network 1 |"
    yield "|---|---|---|"
    for name, found in rows.items():
        values = np.array([[one[case] for case in cases] for one in found])
        if name == PLAIN:
            yield f"| {name} | {values.mean():.2f} | |"
            continue
        # An average over the seeds has one value a case: it is compared with the seeds' mean.
        base = plain if len(values) == len(plain) else plain.mean(axis=0, keepdims=True)
        gain = paired_interval(values - base)
        limits = f"[{gain.low:+.2f}, {gain.high:+.2f}]"
        yield f"| {name} | {values.mean():.2f} | {gain.mean:+.2f} {limits} |"


if __name__ == "__main__":
    main()
