"""The figures of one run, put together from its folder and its scores."""

import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

from tracoco.benchmark.peak_memory import noted_peak
from tracoco.benchmark.result import RunResult
from tracoco.evaluation.scores import Protocol
from tracoco.files import read_json
from tracoco.inference.components import remove_small_components
from tracoco.scans.reader import read_label
from tracoco.training.run_folder import RunFolder, versions
from tracoco.training.run_log import read_log


def run_result(
    folder: Path, dataset: str, checkpoint: str, protocol: Protocol, scores: dict[str, Any]
) -> RunResult:
    """Sum up a run that is trained, predicted and scored.

    Args:
        folder: of the run.
        dataset: what results call the data.
        checkpoint: the one whose predictions were scored.
        protocol: by which they were.
        scores: of the test cases.
    """
    run = RunFolder(folder)
    config, splits, summary = run.config(), run.splits(), scores["summary"]
    log = read_log(run.log_file)
    rows = read_json(folder / "predictions" / checkpoint / "predictions.json")["rows"]
    facts = run.facts()
    return RunResult(
        dataset=dataset,
        method=config.method.name,
        labelled=len(splits.labelled),
        unlabelled=len(splits.unlabelled) if config.data.batch[1] else 0,
        seed=config.seed,
        steps=config.training.length,
        checkpoint=checkpoint,
        **{key: summary[key] for key in ("cases", "dice", "jaccard", "asd", "hd95", "missed")},
        units=protocol.units,
        empty=protocol.empty,
        cct=protocol.cct,
        watermark=scores["watermark"],
        case_dice=_case_dice(scores["rows"]),
        seconds=sum(record["seconds"] for record in log),
        seconds_a_step=median(record["seconds"] for record in log),
        seconds_a_case=median(row["seconds"] for row in rows) + _cleaning(rows, protocol),
        versions={key: facts[key] for key in versions() if key in facts},
        peak_mb=noted_peak(folder),
    )


def _case_dice(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Mean Dice of each case in percent; a structure that nobody has is not counted."""
    found = defaultdict(list)
    for row in rows:
        if row["dice"] is not None:
            found[row["case"]].append(row["dice"])
    return {case: fmean(values) for case, values in found.items()}


def _cleaning(rows: list[dict[str, Any]], protocol: Protocol) -> float:
    """Seconds that the removal of small components takes a case, if the protocol has it."""
    if not protocol.cct:
        return 0.0
    seconds = []
    for row in rows:
        label = read_label(Path(row["prediction"])).array
        began = time.perf_counter()
        remove_small_components(label)
        seconds.append(time.perf_counter() - began)
    return median(seconds)
