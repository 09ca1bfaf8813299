"""A few labelled scans and many unlabelled ones in, a segmentation model out.

The folders stand in the order in which data flows; each imports only those above it:

    scans       read a scan, write a result back on its grid
    project     pair images and labels, plan, split, fill the memory-mapped store
    data        crop pairs, augmentation, labelled and unlabelled batches
    networks    VNet, UNet in 2D and 3D, a light UNet for CPUs
    losses      one equation, one function
    methods     one file a method: losses put together
    training    the one loop, its checkpoints, its log
    inference   sliding window, Predictor
    evaluation  overlap and surface distances of cases
    report      tables, curves, pictures, one HTML file

`experiment.py` puts them together and reads top to bottom; `cli` is the command line.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracoco.inference.predictor import Predictor

__all__ = ["Predictor", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`from tracoco import Predictor`, without torch for those who only ask for the version."""
    if name == "Predictor":
        from tracoco.inference.predictor import Predictor  # noqa: PLC0415 - torch takes seconds

        return Predictor
    raise AttributeError(f"module 'tracoco' has no attribute '{name}'")
