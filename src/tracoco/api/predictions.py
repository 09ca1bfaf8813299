"""Predict scans with runs or exported models: what `tracoco predict` calls; imports no torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tracoco.console import progress_console
from tracoco.inference.manifest import PredictedCase
from tracoco.inference.predict import predict_scans
from tracoco.project.folder import Project

if TYPE_CHECKING:
    from tracoco.api.runs import Run

CheckpointName = Literal["last", "best"]
PartName = Literal["labelled", "unlabelled", "validation", "test", "fold", "all"]


def predict(  # noqa: PLR0913 - each is an option of the command, with the same default
    run: "Run | Path | str",
    source: Project | Path | str,
    out: Path | str,
    *,
    others: "Sequence[Run | Path | str]" = (),
    checkpoint: CheckpointName = "last",
    weights: Literal["averaged", "raw"] = "averaged",
    members: Literal["first", "both"] = "first",
    mirror: bool = False,
    plain: bool = False,
    maps: Sequence[str] = (),
    dicom_seg: bool = False,
    rtstruct: bool = False,
    seg_nrrd: bool = False,
    cct: bool = False,
    part: PartName | None = None,
    uncertainty: bool = False,
    shard: tuple[int, int] | None = None,
    redo: bool = False,
    device: str = "auto",
    progress: bool = True,
) -> list[PredictedCase]:
    """Segment scans, each on its own grid; predictions of the same weights are kept.

    Args:
        run: the run, or its folder, or the file of a model exported as ONNX.
        source: a scan, a folder of scans, or a project.
        out: folder of the predictions, or a file for one scan.
        others: further runs, whose class probabilities are averaged with those of the first.
        checkpoint: `last` or `best`.
        weights: `averaged` where the run has averaged weights, or `raw`.
        members: `both` averages two networks that were trained together.
        mirror: average mirrored views, along the plan's `mirror_axes`.
        plain: leave out the options that `tracoco tune` has recorded in the run.
        maps: further files, of `probability`, `entropy` and `disagreement`.
        dicom_seg: also write DICOM segmentations of DICOM series.
        rtstruct: also write contours (RTSTRUCT) of DICOM series.
        seg_nrrd: also write segmentations for 3D Slicer, with names and colours.
        cct: remove components below 1/1500 of the scan.
        part: part of a project: `test` by default, `unlabelled`, `validation`, `labelled`, `all`,
            or `fold` for the fold that the run held out.
        uncertainty: keep how unsure the networks are of each scan in predictions.json.
        shard: (k, n): only the k-th of n parts of the scans.
        redo: predict again what is there already.
        device: `auto`, `cpu`, `cuda:N` or `mps`.
        progress: show progress on standard error.
    """
    return predict_scans(
        run_path(run),
        source.root if isinstance(source, Project) else Path(source),
        Path(out),
        others=[run_path(each) for each in others],
        checkpoint=checkpoint,
        weights=weights,
        members=members,
        mirror=mirror,
        plain=plain,
        cct=cct,
        maps=maps,
        dicom_seg=dicom_seg,
        rtstruct=rtstruct,
        seg_nrrd=seg_nrrd,
        part=part,
        uncertainty=uncertainty,
        shard=shard,
        redo=redo,
        device=device,
        console=progress_console() if progress else None,
    )


def run_path(run: "Run | Path | str") -> Path:
    """The folder of a run, or the file of a model."""
    return Path(run) if isinstance(run, Path | str) else run.folder
