"""A few labelled scans and many unlabelled ones in, a segmentation model out.

The folders stand in the order in which data flows; each imports only those above it:

    scans       read a scan, write a result back on its grid
    project     pair images and labels, plan, split, fill the memory-mapped store
    data        crop pairs, augmentation, labelled and unlabelled batches
    networks    VNet, UNet in 2D and 3D, a light UNet for CPUs, TransUNet, MONAI's by name
    losses      one equation, one function
    methods     one file a method: losses put together
    training    the one loop, its checkpoints, its log
    inference   sliding window, Predictor
    evaluation  overlap and surface distances of cases, context sensitivity, complexity
    report      tables, curves, pictures, one HTML file
    experiment  all of it put together: from a project and settings to a trained run
    benchmark   many runs, each trained or resumed, tested, and kept as one small file
    paper       the paper's published numbers, tables and figures; released weights as runs

`demo` holds the phantom scans, `cli` the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracoco.evaluation.context import context_sensitivity
    from tracoco.inference.predictor import Predictor
    from tracoco.studies.paper.import_checkpoint import import_checkpoint

__all__ = ["Predictor", "__version__", "context_sensitivity", "import_checkpoint"]
__version__ = "0.1.0"

_HOMES = {
    "Predictor": "tracoco.inference.predictor",
    "context_sensitivity": "tracoco.evaluation.context",
    "import_checkpoint": "tracoco.studies.paper.import_checkpoint",
}


def __getattr__(name: str) -> Any:
    """`from tracoco import Predictor`, without torch for those who only ask for the version."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tracoco' has no attribute '{name}'")
