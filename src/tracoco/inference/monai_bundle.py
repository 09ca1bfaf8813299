"""The configuration of a MONAI bundle: the same preparation and windows in MONAI's transforms."""

from pathlib import Path
from typing import Any

from tracoco.files import write_json, write_text
from tracoco.inference.portable import ModelDescription
from tracoco.inference.windows import strides
from tracoco.project.derive import DARK
from tracoco.project.plan import FARTHEST, Plan

SCHEMA = (
    "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
    "meta_schema_20240725.json"
)
README = """This folder is a MONAI bundle that tracoco {version} has written from the run {run}.

    pip install monai nibabel pytorch-ignite fire
    python -m monai.bundle run --config_file configs/inference.json --bundle_root . \\
        --image_dir FOLDER --output_dir LABELS

FOLDER holds NIfTI scans (*.nii.gz). Network, intensities, orientation, spacing and windows are
those of the run. MONAI places windows and resampled voxels a little otherwise, so that single
voxels at borders may have other labels than `tracoco predict` gives.
{watermark}"""


def write_configs(bundle: Path, description: ModelDescription) -> None:
    """Write metadata.json, inference.json and a README into the folder of a bundle."""
    write_json(bundle / "configs" / "metadata.json", _metadata(description))
    write_json(bundle / "configs" / "inference.json", _inference(description))
    text = README.format(
        version=description.tracoco, run=description.run, watermark=description.watermark
    )
    write_text(bundle / "docs" / "README.md", text)


def _metadata(description: ModelDescription) -> dict[str, Any]:
    plan = description.plan
    channels = {str(number): f"channel {number}" for number in range(plan.channels)}
    classes = {str(index): name for index, name in enumerate(plan.class_names)}
    patch = list(description.window[-plan.dimensions :])
    return {
        "schema": SCHEMA,
        "version": description.tracoco,
        "changelog": {description.tracoco: "exported"},
        "monai_version": "1.5.0",
        "pytorch_version": "2.6.0",
        "numpy_version": "1.26.0",
        "required_packages_version": {"nibabel": "5.2.0", "pytorch-ignite": "0.5.0"},
        "name": description.run,
        "task": "segmentation",
        "description": f"{description.method}. {description.watermark}".strip(),
        "authors": "",
        "copyright": "",
        "network_data_format": {
            "inputs": {
                "image": {
                    "type": "image",
                    "format": "magnitude",
                    "num_channels": plan.channels,
                    "spatial_shape": patch,
                    "dtype": "float32",
                    "value_range": list(plan.intensity_limits),
                    "is_patch_data": True,
                    "channel_def": channels,
                }
            },
            "outputs": {
                "pred": {
                    "type": "probabilities",
                    "format": "segmentation",
                    "num_channels": plan.classes,
                    "spatial_shape": patch,
                    "dtype": "float32",
                    "value_range": [0, 1],
                    "is_patch_data": True,
                    "channel_def": classes,
                }
            },
        },
        "tracoco": description.model_dump(mode="json"),
    }


def _inference(description: ModelDescription) -> dict[str, Any]:
    return {
        "imports": ["$import glob", "$import os", "$import numpy as np", "$import torch"],
        "bundle_root": ".",
        "image_dir": "$@bundle_root + '/images'",
        "output_dir": "$@bundle_root + '/labels'",
        "device": "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')",
        "images": "$sorted(glob.glob(os.path.join(@image_dir, '*.nii.gz')))",
        "network_def": "$torch.jit.load(@bundle_root + '/models/model.ts', map_location=@device)",
        "preprocessing": {
            "_target_": "Compose",
            "transforms": _preprocessing(description.plan),
        },
        "dataset": {
            "_target_": "Dataset",
            "data": "$[{'image': image} for image in @images]",
            "transform": "@preprocessing",
        },
        "dataloader": {
            "_target_": "DataLoader",
            "dataset": "@dataset",
            "batch_size": 1,
            "shuffle": False,
            "num_workers": 0,
        },
        "inferer": _inferer(description),
        "postprocessing": {
            "_target_": "Compose",
            "transforms": _postprocessing(description.plan),
        },
        "evaluator": {
            "_target_": "SupervisedEvaluator",
            "device": "@device",
            "val_data_loader": "@dataloader",
            "network": "@network_def",
            "inferer": "@inferer",
            "postprocessing": "@postprocessing",
        },
        "run": ["$@evaluator.run()"],
    }


def _preprocessing(plan: Plan) -> list[dict[str, Any]]:
    spacing = {
        axis: side or -1.0 for axis, side in zip(plan.stored_axes, plan.spacing_mm, strict=True)
    }
    steps: list[dict[str, Any]] = [
        {"_target_": "LoadImaged", "keys": "image", "ensure_channel_first": True},
        {"_target_": "Orientationd", "keys": "image", "axcodes": "RAS"},
    ]
    if plan.rescale:
        channels = ", ".join(
            f"({intensity_expression(plan, number)})(np.asarray(x[{number}]))"
            for number in range(plan.channels)
        )
        # Added to zeros, since these know what was done to the scan before, and plain ones do not.
        values = f"torch.as_tensor(np.stack([{channels}]), dtype=torch.float32)"
        func = f"$lambda x: torch.zeros_like(x) + {values}"
        steps.append({"_target_": "Lambdad", "keys": "image", "func": func, "track_meta": True})
    if plan.crop_to_content:
        # The margin has the value of the first voxel, before and after the intensities changed.
        select = "$lambda x: x != x[:, :1, :1, :1]"
        steps.append(
            {
                "_target_": "CropForegroundd",
                "keys": "image",
                "source_key": "image",
                "select_fn": select,
                "allow_smaller": True,
            }
        )
    steps.append(
        {
            "_target_": "Spacingd",
            "keys": "image",
            "pixdim": [spacing[axis] for axis in range(3)],
            "mode": "bilinear",
            "padding_mode": "border",
        }
    )
    return [*steps, {"_target_": "EnsureTyped", "keys": "image"}]


def intensity_expression(plan: Plan, number: int) -> str:
    """What `project.normalise` does to one channel, as an expression."""
    low, high = plan.low_percentile, plan.high_percentile
    window = plan.window[number]
    ends = f"*{list(window)}" if window else f"*np.percentile(c, [{low}, {high}])"
    if plan.normalisation == "range":
        return (
            "lambda c: (lambda low, high: np.clip((c - low) / max(high - low, 1e-12), 0, 1))"
            f"({ends})"
        )
    if window:
        mean, sd = plan.window_scale(number, window)
        return f"lambda c: (np.clip(c, {window[0]}, {window[1]}) - {mean}) / {sd}"
    above = {
        "all": "c",
        "above_background": "c[c > low]",
        "above_air": f"c[c > low + {DARK} * (high - low)]",
    }[plan.statistics_over[number]]
    return (
        f"lambda c: (lambda low, high: (lambda v: np.clip((c - v.mean(dtype=float)) / "
        f"max(v.std(dtype=float), 1e-12), -{FARTHEST}, {FARTHEST}))"
        f"((lambda v: np.clip(v, *np.percentile(v, [{low}, {high}])))({above})))({ends})"
    )


def _inferer(description: ModelDescription) -> dict[str, Any]:
    plan, config = description.plan, description.inference
    window = description.window
    steps = config.stride or strides(window, config.overlap)
    size = list(window[-plan.dimensions :])
    shared = [1 - step / n for step, n in zip(steps[-plan.dimensions :], size, strict=True)]
    inferer: dict[str, Any] = {
        "_target_": "SlidingWindowInferer",
        "roi_size": size,
        "sw_batch_size": config.batch,
        "overlap": shared,
        "mode": "gaussian" if config.weights == "gaussian" else "constant",
        "sigma_scale": 0.25,
        "padding_mode": "constant",
        "cval": 0.0,
    }
    if plan.slice_axis is not None:
        shared.insert(plan.slice_axis, 0.0)
        inferer |= {"_target_": "SliceInferer", "spatial_dim": plan.slice_axis}
    return inferer


def _postprocessing(plan: Plan) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = [
        {
            "_target_": "Invertd",
            "keys": "pred",
            "transform": "@preprocessing",
            "orig_keys": "image",
            "nearest_interp": False,
            "to_tensor": True,
        },
        {"_target_": "AsDiscreted", "keys": "pred", "argmax": True},
    ]
    indices = list(range(plan.classes))
    if list(plan.label_values) != indices:
        steps.append(
            {
                "_target_": "MapLabelValued",
                "keys": "pred",
                "orig_labels": indices,
                "target_labels": list(plan.label_values),
            }
        )
    saved = {
        "_target_": "SaveImaged",
        "keys": "pred",
        "output_dir": "@output_dir",
        "output_postfix": "",
        "output_dtype": "$np.uint8" if max(plan.label_values) < 256 else "$np.int32",
        "separate_folder": False,
        "resample": False,
    }
    return [*steps, saved]
