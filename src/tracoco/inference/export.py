"""Export the network of a run, with all that is needed to use it, and check what was written."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from tracoco import __version__
from tracoco.errors import UserError
from tracoco.files import write_json
from tracoco.geometry import Size
from tracoco.inference.any_size import networks_of_any_size, window_needs
from tracoco.inference.folding import portable_network
from tracoco.inference.portable import (
    ENTRY,
    Array,
    ModelDescription,
    Network,
    PortablePredictor,
    load_onnx,
)
from tracoco.inference.predictor import Predictor
from tracoco.inference.windows import window_places
from tracoco.networks.network import Network as OwnNetwork
from tracoco.project.folder import Project
from tracoco.project.preprocess import to_network_grid
from tracoco.runs.folder import RunFolder
from tracoco.scans.reader import read_images
from tracoco.scans.scan import Scan

Format = Literal["pt2", "onnx", "torchscript", "monai-bundle"]
SUFFIXES: dict[str, str] = {
    "pt2": ".pt2",
    "onnx": ".onnx",
    "torchscript": ".ts",
    "monai-bundle": "",
}
MOST_DIFFERENT = 1e-3
"""Largest difference of a probability that is taken for rounding."""
LEAST_EQUAL = 0.9999
"""Fraction of a scan's voxels that must have the same label."""
MOST_WINDOWS = 200
"""A scan of more windows is not predicted twice for the check; its crop is."""


class Probabilities(nn.Module):
    """A network with its softmax, as it is exported."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, crops: Tensor) -> Tensor:
        """Class probabilities [B, K, ...] of crops [B, C, ...]."""
        logits: Tensor = self.network(crops)
        return logits.float().softmax(dim=1)


@dataclass(frozen=True, slots=True)
class Parity:
    """How far an exported model is from the run, as measured when it was written."""

    scan: str
    crop_difference: float
    """Largest difference of a probability in a crop of the scan."""
    scan_equal: float | None = None
    """Fraction of the scan's voxels with the same label; None if the scan is too large for it."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A model that was written and checked."""

    path: Path
    description_file: Path
    dynamic: bool
    """Whether it takes other sizes than that of its window."""
    parity: Parity

    @property
    def text(self) -> str:
        """What the check has found, in a sentence."""
        sizes = "any size" if self.dynamic else "the size of its window"
        whole = "the scan is too large to be compared as a whole"
        if self.parity.scan_equal is not None:
            whole = f"{self.parity.scan_equal:.4%} of the voxels have the same label"
        return (
            f"checked on {self.parity.scan}: probabilities differ by at most "
            f"{self.parity.crop_difference:.1e}; {whole}. Takes crops of {sizes}."
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values by the names of the fields."""
        paths = {"path": str(self.path), "description_file": str(self.description_file)}
        return asdict(self) | paths


def export_run(
    run: Path,
    kind: Format,
    out: Path,
    scan: Path | None = None,
    *,
    checkpoint: str = "last",
    weights: Literal["averaged", "raw"] = "averaged",
) -> Exported:
    """Write the network of a run, once what was written predicts what the run predicts.

    Args:
        run: the run's folder.
        kind: of the file; `monai-bundle` is a folder.
        out: the file or folder.
        scan: what the check predicts; a case of the project that the run lies in if not given.
        checkpoint: `last` or `best`.
        weights: `averaged` where the run has averaged weights, or `raw`.
    """
    if out.exists():
        raise UserError(f"{out} already exists; move it away, or choose another --out")
    predictor = Predictor.load(run, checkpoint=checkpoint, device="cpu", weights=weights)
    sample = read_images((scan,)) if scan is not None else _project_scan(run)
    network = Probabilities(portable_network(predictor.method.inference_network())).eval()
    description = _description(run, predictor, checkpoint)
    crops = _sample_crops(predictor, sample)
    with _written(out) as temporary:
        multiple = WRITERS[kind](network, crops, description, temporary)
        description = description.with_sizes(multiple)
        parity = _parity(predictor, LOADERS[kind](temporary), description, crops, sample)
    beside = out.with_name(f"{out.name}.json")
    write_json(beside, {**description.model_dump(mode="json"), "parity": asdict(parity)})
    return Exported(out, beside, multiple is not None, parity)


@contextmanager
def _written(out: Path) -> Iterator[Path]:
    """A path beside `out` that takes its place at the end; after an error nothing stays."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".tmp-{out.name}")
    try:
        yield temporary
        temporary.replace(out)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        temporary.unlink(missing_ok=True)


def _description(run: Path, predictor: Predictor, checkpoint: str) -> ModelDescription:
    able = networks_of_any_size(predictor.method)
    return ModelDescription(
        tracoco=__version__,
        run=run.absolute().name,
        method=RunFolder(run).config().method.name,
        checkpoint=checkpoint,
        averaged=predictor.averaged,
        watermark=predictor.watermark,
        window=predictor.window,
        multiple_of=None,
        inference=predictor.config,
        larger_windows=window_needs(able) if able else None,
        plan=predictor.plan,
    )


def _project_scan(run: Path) -> Scan:
    """A scan of the project that a run lies in."""
    project = Project(run.absolute().parent.parent)
    if project.exists:
        for case in project.load_cases():
            if all(image.exists() for image in case.images):
                return read_images(case.images)
    raise UserError(
        f"{run} does not lie in a project with scans, and what is exported is checked on a scan; "
        "give one with --scan"
    )


def _sample_crops(predictor: Predictor, scan: Scan) -> Tensor:
    """Two crops of a scan as the network gets them: from its middle, and that one reversed."""
    prepared = torch.from_numpy(to_network_grid(scan.array, scan.spacing_mm, predictor.plan))
    sizes = list(zip(prepared.shape[1:], predictor.window, strict=True))
    inner = [slice(max(0, (n - w) // 2), max(0, (n - w) // 2) + w) for n, w in sizes]
    crop = torch.zeros(len(prepared), *predictor.window)
    part = prepared[:, *inner]
    crop[:, *(slice(n) for n in part.shape[1:])] = part
    crops = torch.stack([crop, crop.flip(-1)])
    return crops[:, :, 0] if predictor.plan.dimensions == 2 else crops


def _parity(
    predictor: Predictor,
    network: Network,
    description: ModelDescription,
    crops: Tensor,
    scan: Scan,
) -> Parity:
    """Compare with the run; an error if they differ by more than rounding."""
    with predictor.predicting() as predict:
        expected = predict(crops).numpy()
    difference = float(np.abs(network(crops.numpy()) - expected).max())
    parity = Parity(str(scan.source), difference)
    if not difference <= MOST_DIFFERENT:
        raise UserError(
            f"the exported model differs from the run by {difference:.2g} in a probability of "
            f"{scan.source}; nothing was written. Export another format"
        )
    shape = predictor.plan.stored_shape(_shape(scan), scan.spacing_mm)
    window, config, _ = description.cover(shape)
    if len(window_places(tuple(map(max, shape, window)), window, config)) > MOST_WINDOWS:
        return parity
    own = predictor(scan).label
    found = PortablePredictor(description, network)(scan).label
    equal = float((own == found).mean())
    if equal < LEAST_EQUAL:
        raise UserError(
            f"the exported model has other labels than the run in {1 - equal:.3%} of "
            f"{scan.source}; nothing was written. Export another format"
        )
    return replace(parity, scan_equal=equal)


def _shape(scan: Scan) -> tuple[int, int, int]:
    x, y, z = scan.array.shape[1:]
    return (x, y, z)


Writer = Callable[[Probabilities, Tensor, ModelDescription, Path], Size | None]
"""Writes a network; what the axes of its input must be divisible by, None if they are fixed."""


def _program(
    network: Probabilities, crops: Tensor
) -> tuple[torch.export.ExportedProgram, Size | None]:
    """The network as a graph, for batches of any size, and for crops of any size if it can be."""
    inner = network.network
    if isinstance(inner, OwnNetwork):
        sizes = {
            axis: step * torch.export.Dim(f"size{axis}", min=1 + (step == 1), max=4096)
            for axis, step in enumerate(inner.stride, start=2)
        }
        try:
            return _traced(network, crops, sizes), inner.stride
        except (RuntimeError, ValueError, AssertionError):  # a size is fixed by some layer
            pass
    return _traced(network, crops, {}), None


def _traced(
    network: Probabilities, crops: Tensor, sizes: dict[int, Any]
) -> torch.export.ExportedProgram:
    dynamic = {0: torch.export.Dim("batch", min=1, max=4096), **sizes}
    with torch.no_grad():
        return torch.export.export(network, (crops,), dynamic_shapes=(dynamic,))


def _text(description: ModelDescription, multiple: Size | None) -> str:
    return json.dumps(description.with_sizes(multiple).model_dump(mode="json"))


def _write_pt2(
    network: Probabilities, crops: Tensor, description: ModelDescription, path: Path
) -> Size | None:
    program, multiple = _program(network, crops)
    torch.export.save(program, str(path), extra_files={ENTRY: _text(description, multiple)})
    return multiple


def _write_onnx(
    network: Probabilities, crops: Tensor, description: ModelDescription, path: Path
) -> Size | None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        try:
            import_module(package)
        except ImportError:
            raise UserError(
                f"--format onnx needs {package}; install it with pip install 'tracoco[onnx]'"
            ) from None
    program, multiple = _program(network, crops)
    model: Any = torch.onnx.export(
        program,
        (crops,),
        input_names=[description.input],
        output_names=[description.output],
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    model.model.metadata_props[ENTRY] = _text(description, multiple)
    model.save(str(path))
    return multiple


def _write_torchscript(
    network: Probabilities, crops: Tensor, description: ModelDescription, path: Path
) -> Size | None:
    inner = network.network
    multiple = inner.stride if isinstance(inner, OwnNetwork) else None
    with torch.no_grad():
        traced = torch.jit.trace(network, crops)
    torch.jit.save(traced, str(path), _extra_files={ENTRY: _text(description, multiple)})
    return multiple


def _write_bundle(
    network: Probabilities, crops: Tensor, description: ModelDescription, path: Path
) -> Size | None:
    from tracoco.inference.monai_bundle import write_configs  # noqa: PLC0415 - rarely needed

    (path / "models").mkdir(parents=True)
    multiple = _write_torchscript(network, crops, description, path / "models" / "model.ts")
    write_configs(path, description)
    return multiple


def _from_tensors(module: Callable[[Tensor], Tensor]) -> Network:
    def network(crops: Array) -> Array:
        with torch.no_grad():
            found: Array = module(torch.from_numpy(np.ascontiguousarray(crops))).numpy()
        return found

    return network


WRITERS: dict[str, Writer] = {
    "pt2": _write_pt2,
    "onnx": _write_onnx,
    "torchscript": _write_torchscript,
    "monai-bundle": _write_bundle,
}
LOADERS: dict[str, Callable[[Path], Network]] = {
    "pt2": lambda path: _from_tensors(torch.export.load(str(path)).module()),
    "onnx": lambda path: load_onnx(path)[0].network,
    "torchscript": lambda path: _from_tensors(torch.jit.load(str(path))),
    "monai-bundle": lambda path: _from_tensors(torch.jit.load(str(path / "models" / "model.ts"))),
}
"""They read back what was just written, not files from elsewhere."""
