"""A small made-up run: thirty steps, and three test cases of which one is missed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from numpy.typing import NDArray

from tracoco.config import parse_config
from tracoco.evaluation.evaluate import evaluate_predictions
from tracoco.evaluation.scores import Protocol
from tracoco.files import write_json
from tracoco.project.plan import Plan
from tracoco.project.splits import Splits
from tracoco.runs.facts import Facts
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import StepRecord

SHAPE = (8, 8, 6)
STEPS = 30

Label = NDArray[np.uint8]


@dataclass(frozen=True)
class Bench:
    """Makes runs and scores in a folder of its own."""

    root: Path

    def parsed(self, *entries: dict[str, Any]) -> list[StepRecord]:
        """Lines of a log as they are read."""
        return [StepRecord.from_json(entry) for entry in entries]

    def record(self, step: int, **more: Any) -> dict[str, Any]:
        """The line of a step in a log from before records had a type."""
        shares = {"share/0": 0.75, "share/1": 0.25}
        return {
            "step": step,
            "loss": 3.0 / (step + 1),
            "terms": {"supervised": 2.0 / (step + 1), "crc": 1.0 / (step + 1)},
            "rate": 0.05 * (1 - step / STEPS),
            "shift": 0.2,
            "health": shares | {"likely": 0.9, "unlikely": 0.5, "agreement": 0.95},
            "seconds": 2.0,
            **more,
        }

    def run(
        self,
        name: str = "run",
        log: Sequence[dict[str, Any]] | None = None,
        splits: Splits | None = None,
        class_names: tuple[str, ...] = ("background", "organ"),
        hidden_labels: int = 0,
        **config: Any,
    ) -> Path:
        """The folder of a run."""
        run = self.root / name
        RunFolder(run).create(
            parse_config({"training": {"steps": STEPS}, **config}, "test"),
            Plan(
                dimensions=3,
                channels=1,
                label_values=tuple(range(len(class_names))),
                class_names=class_names,
                slice_axis=None,
                spacing_mm=(1.0, 1.0, 2.0),
                crop=(6, 6, 4),
            ),
            splits or Splits(("l1", "l2"), ("u1", "u2", "u3"), ("v1",), ()),
            Facts(labelled_share=0.2, global_batch=4, hidden_labels=hidden_labels),
        )
        records = [self.record(step) for step in range(STEPS)] if log is None else log
        text = "".join(json.dumps(each) + "\n" for each in records)
        (run / "log.jsonl").write_text(text, encoding="utf-8")
        (run / "last.pt").touch()
        return run

    def cube(self, start: int) -> Label:
        """A label map with a cube of three voxels a side that begins at x = `start`."""
        label = np.zeros(SHAPE, dtype=np.uint8)
        label[start : start + 3, 2:5, 1:4] = 1
        return label

    def cases(self) -> dict[str, tuple[Label, Label]]:
        """Prediction and truth of three cases: found, found two thirds of it, missed."""
        truth = self.cube(2)
        return {
            "found": (truth, truth),
            "shifted": (self.cube(3), truth),
            "unseen": (np.zeros_like(truth), truth),
        }

    def scores(
        self,
        run: Path,
        cases: Mapping[str, tuple[Label, Label]] | None = None,
        name: str = "test",
        protocol: Protocol | None = None,
        organ: str = "organ",
        **note: Any,
    ) -> Path:
        """An evaluated folder of predictions; its scans lie beside the run.

        `note` is what `predict` has to say besides.
        """
        data, out = self.root / f"data-{run.name}-{name}", run / "predictions" / name
        rows = []
        for case, (prediction, truth) in (cases or self.cases()).items():
            file = f"{case}.nii.gz"
            image = self.save(data / "images" / file, truth.astype(np.float32) * 100)
            self.save(data / "labels" / file, truth)
            found = self.save(out / file, prediction)
            rows.append({"case": case, "images": [str(image)], "prediction": str(found)})
        origin = {"run": str(run), "checkpoint": "last", "labels": {"1": organ}}
        write_json(out / "predictions.json", origin | {"rows": rows} | note)
        evaluate_predictions(out, data / "labels", protocol)
        return out

    def save(self, path: Path, array: NDArray[Any]) -> Path:
        """Write a NIfTI file with voxels of 1 x 1 x 2 mm."""
        path.parent.mkdir(parents=True, exist_ok=True)
        image = nib.Nifti1Image(array, np.diag([1.0, 1.0, 2.0, 1.0]))
        nib.save(image, path)
        return path


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
