"""Small scans that every part of the pipeline can be tried on."""

import base64
import io
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import torch
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from numpy.typing import NDArray
from torch import nn

from tracoco.data.batch import Batch
from tracoco.methods import build_method
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import Method, RunFacts, StepOutput
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.plan import write_plan
from tracoco.project.prepare import prepare
from tracoco.runs.log import StepRecord
from tracoco.settings import AugmentationConfig, MethodChoice
from tracoco.testing.subject import make_batch, small_network

__all__ = ["make_batch"]  # the others are their own

SHAPE = (26, 24, 20)
SPARING: dict[str, dict[str, object]] = {
    "cross-teaching": {"second": "light-unet"},
    "sassnet": {"discriminator_filters": 4},
    "caml": {"prototypes": 4},
}
"""Settings of methods that would build a large network, or want more voxels than small crops have,
by default."""


def write_scan(path: Path, array: np.ndarray, spacing: tuple[float, ...] = (1.0, 1.0, 2.0)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = nib.Nifti1Image(array, np.diag([*spacing, 1.0]))
    nib.save(image, path)


def write_ball(
    root: Path, name: str, seed: int, *, labelled: bool, shape: tuple[int, ...] = SHAPE
) -> None:
    """A bright ball in noise, and its label if it has one."""
    random = np.random.default_rng(seed)
    centre = [random.uniform(0.35, 0.65) * n for n in shape]
    grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    ball = np.linalg.norm(grid - centre, axis=-1) < 6
    image = (100 * ball + random.normal(50, 20, shape)).astype(np.float32)
    write_scan(root / "images" / f"{name}.nii.gz", image)
    if labelled:
        write_scan(root / "labels" / f"{name}.nii.gz", ball.astype(np.uint8))


def write_balls(root: Path, *, labelled: int, unlabelled: int) -> Path:
    for index in range(labelled + unlabelled):
        write_ball(root, f"case{index:03d}", index, labelled=index < labelled)
    return root


def make_project(
    root: Path, *, labelled: int = 4, unlabelled: int = 4, validation: int = 1, test: int = 0
) -> Project:
    data = write_balls(root / "data", labelled=labelled, unlabelled=unlabelled)
    project = init_project(data, root / "project", validation=validation, test=test)
    # The plan would take eight crops of each kind: tests need not see so many.
    write_plan(project.plan_file, project.load_plan().model_copy(update={"batch": (2, 2)}))
    prepare(project)
    return project


class StandIn(Method):
    """A method that is never trained: a test says what it answers."""

    def forward(self, batch: Batch, step: int) -> StepOutput:
        raise AssertionError(f"step {step} on {batch.cases}: a stand-in is not trained")

    def inference_network(self) -> nn.Module:
        return nn.Identity()

    def trained_networks(self) -> list[nn.Module]:
        return []


def step_record(step: int, **more: Any) -> StepRecord:
    """A step as the trainer logs it, with little to say."""
    told: dict[str, Any] = {"loss": 1.0, "terms": {"supervised": 1.0}, "rate": 0.1, "shift": 0.0}
    told |= {"seconds": 0.5, "health": PseudoLabelHealth()}
    return StepRecord(step=step, **(told | more))


def measured(health: PseudoLabelHealth) -> dict[str, float]:
    """All that was measured, one number a name, for comparisons."""
    lists = {
        "class": dict(enumerate(health.class_fractions)),
        "common": dict(enumerate(health.common, start=1)),
        "marked": dict(enumerate(health.marked, start=1)),
    }
    numbered = {f"{name}/{k}": x for name, values in lists.items() for k, x in values.items()}
    fields = ("agreement", "distance", "likely", "unlikely")
    alone = {name: getattr(health, name) for name in fields if getattr(health, name) is not None}
    return numbered | alone | dict(health.further)


PLAIN: dict[str, Any] = {"augmentation": AugmentationConfig(strength="off")}
"""Settings of data for crops that are not augmented."""


def make_method(
    name: str,
    dimensions: int = 3,
    classes: int = 2,
    steps: int = 30,
    unlabelled_batch: int = 2,
    **settings: object,
) -> Method:
    """A method on small light networks, in which no crop depends on the others of its batch."""
    facts = RunFacts(
        classes,
        channels=1,
        dimensions=dimensions,
        total_steps=steps,
        steps_per_epoch=1,
        unlabelled_batch=unlabelled_batch,
    )
    network = small_network(dimensions, classes)
    torch.manual_seed(0)
    settings = SPARING.get(name, {}) | settings
    return build_method(MethodChoice(name=name, **settings), network, facts)


def pixels(address: str) -> NDArray[np.float32]:
    """The picture in a `data:` address, [rows, columns, RGB]."""
    kind, _, content = address.partition(",")
    assert kind == "data:image/png;base64"
    picture: NDArray[np.float32] = imread(io.BytesIO(base64.b64decode(content)))
    return picture[..., :3]


def has_colour(picture: NDArray[np.float32], colour: str) -> bool:
    return bool((np.abs(picture - to_rgb(colour)).max(axis=-1) < 0.05).any())
