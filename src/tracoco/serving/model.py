"""The newest run of a project as the server uses it: drafts of scans, and which scan is next."""

import gzip
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np

from tracoco.errors import UserError
from tracoco.files import content_hash
from tracoco.inference.manifest import PredictedCase, merged_manifest
from tracoco.inference.prediction import Prediction
from tracoco.inference.predictor import Predictor
from tracoco.labelling.choice import choose
from tracoco.labelling.next_scans import scores_of
from tracoco.labelling.rounds import newest_run
from tracoco.project.plan import Plan
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log
from tracoco.scans.reader import WRITTEN, read_images
from tracoco.serving.store import LabelStore, NotFoundError

STRATEGIES = {
    "uncertainty": "The networks are unsure of the scan, and it is unlike those with a label",
    "random": "Any scan without a label",
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A label made by the model, as a file to send."""

    file: Path
    """Is removed once it was sent."""
    params: Mapping[str, Any]
    """What the tool is told of it."""


class ServedModel:
    """Loads the newest run when there is a newer one; one prediction at a time."""

    def __init__(self, store: LabelStore, run: Path | None, device: str) -> None:
        """`run` stays the model whatever is trained; the newest run if None."""
        self.store, self.fixed, self.device = store, run, device
        self.offered: list[str] = []
        """Scans that were offered to a tool since the server began."""
        self._lock = Lock()
        self._loaded: tuple[str, Predictor] | None = None

    @property
    def run(self) -> Path | None:
        """The run that predicts."""
        return self.fixed or newest_run(self.store.project)

    def draft(self, image: str, params: Mapping[str, Any]) -> Draft:
        """The model's label of a scan of the project."""
        case = self.store.case(image)
        return self.draft_of(case.images, params)

    def draft_of(self, images: tuple[Path, ...], params: Mapping[str, Any]) -> Draft:
        """The model's label of the files of a scan."""
        suffix = str(params.get("result_extension") or ".nii.gz")
        if suffix not in WRITTEN:
            raise UserError(f"result_extension '{suffix[:20]}' is none of {', '.join(WRITTEN)}")
        with self._lock:
            predictor = self._predictor()
            began = time.perf_counter()
            prediction = predictor(read_images(images))
        target = self.store.root / "tmp" / f"{uuid4().hex}{suffix}"
        prediction.write(target)
        if suffix == ".nrrd" and params.get("result_compress") is False:
            _decompress(target)
        seconds = round(time.perf_counter() - began, 3)
        names = _found_names(prediction, self.store.project.load_plan())
        return Draft(target, {"label_names": names, "run": str(self.run), "seconds": seconds})

    def _predictor(self) -> Predictor:
        run = self.run
        if run is None:
            raise NotFoundError(
                f"{self.store.project.root} has no trained run; start a training first"
            )
        weights = content_hash(RunFolder(run).checkpoint("last"))
        if self._loaded is None or self._loaded[0] != weights:
            self._loaded = (weights, Predictor.load(run, device=self.device))
        return self._loaded[1]

    def scored(self, part: str) -> list[PredictedCase]:
        """Scans of a part of the split that the model has measured."""
        run = self.run
        manifest = merged_manifest(run / "predictions" / part) if run else None
        return [row for row in manifest.rows if row.uncertainty] if manifest else []

    def unscored(self) -> list[str]:
        """Scans that wait for a label and were not measured."""
        known = {row.case for row in self.scored("unlabelled")}
        return [case for case in self.store.waiting() if case not in known]

    def next(self, strategy: str) -> tuple[str, str] | None:
        """The scan to label next and why; None if all have a label.

        A scan is offered again only when all others have been offered.
        """
        if strategy not in STRATEGIES:
            raise NotFoundError(
                f"there is no strategy '{strategy[:40]}', only {' and '.join(STRATEGIES)}"
            )
        waiting = self.store.waiting()
        left = [case for case in waiting if case not in self.offered]
        if not left:
            self.offered.clear()
            left = waiting
        if not left:
            return None
        case, why = self._best(left) if strategy == "uncertainty" else (None, "drawn at random")
        chosen = case or random.choice(left)  # noqa: S311 - no secret hangs on it
        self.offered.append(chosen)
        return chosen, why

    def _best(self, left: list[str]) -> tuple[str | None, str]:
        measured = scores_of(self.scored("unlabelled"))
        known = scores_of(self.scored("labelled"))
        # Scans that others work on count as labelled: a near-copy of one is not offered.
        known = dict(known) | {case: score for case, score in measured.items() if case not in left}
        there = {case: score for case, score in measured.items() if case in left}
        if not there:
            return None, "drawn at random: the model has not measured the scans yet"
        (best,) = choose(there, known, 1)
        return best.case, best.why

    def stats(self) -> dict[str, Any]:
        """How far the newest training is, as MONAI Label's clients show it."""
        runs = [
            RunFolder(folder)
            for folder in self.store.project.runs_root.glob("*")
            if RunFolder(folder).begun and RunFolder(folder).log_file.is_file()
        ]
        if not runs:
            return {}
        newest = max(runs, key=lambda run: run.log_file.stat().st_mtime_ns)
        log = read_log(newest.log_file)
        dices = [step.validation_dice for step in log if step.validation_dice is not None]
        total = newest.config().training.length
        done = log[-1].step + 1 if log else 0
        return {
            "run": newest.root.name,
            "epoch": done,
            "total_epochs": total,
            "best_metric": round(max(dices), 4) if dices else 0.0,
            **({"total_time": round(sum(step.seconds for step in log))} if done == total else {}),
        }


def _found_names(prediction: Prediction, plan: Plan) -> dict[str, int]:
    """Structures that the label has, with their values.

    3D Slicer gives the values that it finds to these names one after the other, so a structure that
    was not found must not be among them.
    """
    values = set(np.unique(prediction.label).tolist())
    named = zip(plan.class_names[1:], plan.label_values[1:], strict=True)
    return {name: value for name, value in named if value in values}


def _decompress(file: Path) -> None:
    """Write an NRRD file of ours again without compression, for tools that cannot read that."""
    header, blank, content = file.read_bytes().partition(b"\n\n")
    plain = header.replace(b"encoding: gzip", b"encoding: raw")
    file.write_bytes(plain + blank + gzip.decompress(content))
