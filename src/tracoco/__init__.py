"""A few labelled scans and many unlabelled ones in, a segmentation model out.

    import tracoco as tc

    tc.init("scans", "heart", validation=2)
    tc.prepare("heart")
    run = tc.train("heart")
    run.predict("new_scans", "labels")

Each function does what the command of its name does, with the same options. For training loops of
your own there are `losses`, `crop_pair`, `methods` and `build_method`. The folders stand in
the order in which data flows; each imports only those above it:

    scans       read a scan, write a result back on its grid
    project     pair images and labels, plan, split, fill the memory-mapped store
    data        crop pairs, augmentation, labelled and unlabelled batches
    networks    VNet, UNet in 2D and 3D, a light UNet for CPUs, TransUNet, MONAI's by name
    losses      one equation, one function
    methods     one file per method: losses put together
    tracking    TensorBoard, MLflow, Weights & Biases
    runs        run folder, checkpoints, log, and the method built from a run's settings
    inference   sliding window, Predictor
    evaluation  overlap and surface distances of cases, context sensitivity, complexity
    training    the one training loop, and what it needs
    testing     the checks that every method passes, for methods of your own
    labelling   which scan to label next, new labels into the project, rounds of labelling
    viewer      scans, labels and predictions in a browser: one HTML file, or a local server
    reporting   tables, curves, pictures, one HTML file
    serving     the server that labelling tools talk to
    studies     grids of runs; the paper's tables, figures and released weights
    demo        phantom scans, and the whole path on them
    cluster     commands as jobs of SLURM or of a queue on one machine
    api         one function per command, and parts for training loops of your own

`cli` is the command line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracoco import losses, methods
    from tracoco.api.cluster import jobs, submit
    from tracoco.api.deploy import export, tune
    from tracoco.api.doctor import DoctorReport, doctor
    from tracoco.api.labelling import UpdateResult, next_scans, serve, update
    from tracoco.api.own_loops import build_method, crop_pair
    from tracoco.api.plans import PlanResult, check, plan
    from tracoco.api.predictions import predict
    from tracoco.api.projects import InitResult, init, prepare
    from tracoco.api.runs import Run, compare, evaluate, report, train
    from tracoco.api.self_training import self_train
    from tracoco.api.studies import benchmark, context, cross_validate, paper, run_demo
    from tracoco.api.view import View, view
    from tracoco.config import Config
    from tracoco.data.batch import Batch, TensorPair
    from tracoco.demo.run import demo_scans
    from tracoco.errors import UserError
    from tracoco.evaluation.context_sensitivity import context_sensitivity
    from tracoco.inference.prediction import Prediction
    from tracoco.inference.predictor import Predictor
    from tracoco.labelling.next_scans import NextScans
    from tracoco.methods import METHODS, MethodRow, register_method
    from tracoco.methods.catalogue import list_methods
    from tracoco.methods.method import Method
    from tracoco.presets import list_presets, load_config
    from tracoco.project.folder import Project
    from tracoco.studies.paper.contents import list_paper
    from tracoco.studies.paper.import_checkpoint import import_checkpoint

__version__ = "0.2.0"

_HOMES = {
    "tracoco.api.cluster": ("jobs", "submit"),
    "tracoco.api.deploy": ("export", "tune"),
    "tracoco.api.doctor": ("DoctorReport", "doctor"),
    "tracoco.api.labelling": ("UpdateResult", "next_scans", "serve", "update"),
    "tracoco.api.own_loops": ("build_method", "crop_pair"),
    "tracoco.api.plans": ("PlanResult", "check", "plan"),
    "tracoco.api.predictions": ("predict",),
    "tracoco.api.projects": ("InitResult", "init", "prepare"),
    "tracoco.api.runs": ("Run", "compare", "evaluate", "report", "train"),
    "tracoco.api.self_training": ("self_train",),
    "tracoco.api.studies": ("benchmark", "context", "cross_validate", "paper", "run_demo"),
    "tracoco.api.view": ("View", "view"),
    "tracoco.config": ("Config",),
    "tracoco.data.batch": ("Batch", "TensorPair"),
    "tracoco.demo.run": ("demo_scans",),
    "tracoco.errors": ("UserError",),
    "tracoco.evaluation.context_sensitivity": ("context_sensitivity",),
    "tracoco.inference.prediction": ("Prediction",),
    "tracoco.inference.predictor": ("Predictor",),
    "tracoco.labelling.next_scans": ("NextScans",),
    "tracoco.methods": ("METHODS", "MethodRow", "register_method"),
    "tracoco.methods.catalogue": ("list_methods",),
    "tracoco.methods.method": ("Method",),
    "tracoco.presets": ("list_presets", "load_config"),
    "tracoco.project.folder": ("Project",),
    "tracoco.studies.paper.contents": ("list_paper",),
    "tracoco.studies.paper.import_checkpoint": ("import_checkpoint",),
}
"""Where each public name lives; it is imported when it is first asked for."""

__all__ = [
    "METHODS",
    "Batch",
    "Config",
    "DoctorReport",
    "InitResult",
    "Method",
    "MethodRow",
    "NextScans",
    "PlanResult",
    "Prediction",
    "Predictor",
    "Project",
    "Run",
    "TensorPair",
    "UpdateResult",
    "UserError",
    "View",
    "__version__",
    "benchmark",
    "build_method",
    "check",
    "compare",
    "context",
    "context_sensitivity",
    "crop_pair",
    "cross_validate",
    "demo_scans",
    "doctor",
    "evaluate",
    "export",
    "import_checkpoint",
    "init",
    "jobs",
    "list_methods",
    "list_paper",
    "list_presets",
    "load_config",
    "losses",
    "methods",
    "next_scans",
    "paper",
    "plan",
    "predict",
    "prepare",
    "register_method",
    "report",
    "run_demo",
    "self_train",
    "serve",
    "submit",
    "train",
    "tune",
    "update",
    "view",
]


def __getattr__(name: str) -> Any:
    """Import a public name now: `import tracoco` alone imports neither torch nor numpy."""
    if name in ("losses", "methods"):
        return import_module(f"tracoco.{name}")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'tracoco' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
