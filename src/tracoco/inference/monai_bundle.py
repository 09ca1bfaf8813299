"""The configuration of a MONAI bundle: the same preparation, windows and way back to the scan."""

from pathlib import Path
from typing import Any

from tracoco.errors import UserError
from tracoco.files import write_json, write_text
from tracoco.inference.portable import ModelDescription
from tracoco.inference.windows import stride_steps, strides
from tracoco.project.derive import DARK
from tracoco.project.plan import FARTHEST, Plan

SCHEMA = (
    "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
    "meta_schema_20240725.json"
)
STEPS = "tracoco_steps"
"""Name of the module inside of a bundle that is a copy of `bundle_steps`."""
README = """This folder is a MONAI bundle that tracoco {version} has written from the run {run}.

    pip install monai nibabel pytorch-ignite fire
    python -m monai.bundle run --config_file configs/inference.json --bundle_root . \\
        --image_dir FOLDER --output_dir LABELS

FOLDER holds NIfTI scans (*.nii.gz). Network, intensities, orientation, spacing and windows are
those of the run, so that the labels are those of `tracoco predict`, but for rounding.
`{steps}.py` has the steps that MONAI's own do a little otherwise. It needs Python 3.10 or newer and
nothing of tracoco, and `monai.bundle` finds it wherever the bundle lies.
{watermark}"""


def write_configs(bundle: Path, description: ModelDescription) -> None:
    """Write metadata.json, inference.json, the steps and a README into the folder of a bundle."""
    if description.plan.resize_slices:
        raise UserError(
            "a MONAI bundle cannot resize slices to the crop as this run does (resize_slices in "
            "its plan.yaml); export another format"
        )
    write_json(bundle / "configs" / "metadata.json", _metadata(description))
    write_json(bundle / "configs" / "inference.json", _inference(description))
    code = Path(__file__).with_name("bundle_steps.py").read_text("utf-8")
    write_text(bundle / f"{STEPS}.py", code)
    text = README.format(
        version=description.tracoco,
        run=description.run,
        watermark=description.watermark,
        steps=STEPS,
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
        "inferer": inferer_settings(description),
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
    spacing = dict(zip(plan.stored_axes, plan.spacing_mm, strict=True))
    steps: list[dict[str, Any]] = [
        {"_target_": "LoadImaged", "keys": "image", "ensure_channel_first": True},
        {"_target_": "Orientationd", "keys": "image", "axcodes": "RAS"},
        # Clipping may make voxels equal to the margin, which is that of the scan as it was.
        {"_target_": "CopyItemsd", "keys": "image", "names": "raw"},
    ]
    if plan.rescale:
        channels = [intensities(plan, number) for number in range(plan.channels)]
        steps.append({"_target_": f"{STEPS}.Intensitiesd", "keys": "image", "channels": channels})
    if plan.crop_to_content:
        margin = "(x == x[:, :1, :1, :1])"
        steps.append(
            {
                "_target_": "CropForegroundd",
                "keys": "image",
                "source_key": "raw",
                "select_fn": f"$lambda x: ~{margin} | {margin}.all()",
                "allow_smaller": True,
            }
        )
    return [
        *steps,
        {"_target_": "DeleteItemsd", "keys": "raw"},
        {
            "_target_": f"{STEPS}.ToSpacingd",
            "keys": "image",
            "spacing": [spacing[axis] for axis in range(3)],
        },
        {"_target_": "EnsureTyped", "keys": "image"},
    ]


def intensities(plan: Plan, number: int) -> dict[str, Any]:
    """Arguments of `bundle_steps.normalised` that do to a channel what the plan says."""
    window = plan.window[number]
    limits = [plan.low_percentile, plan.high_percentile]
    told: dict[str, Any] = {"normalisation": plan.normalisation, "percentiles": limits}
    if window:
        told["window"] = list(window)
    if plan.normalisation == "zscore":
        if window:
            told["mean_sd"] = list(plan.window_scale(number, window))
        else:
            over = plan.statistics_over[number]
            told["above"] = {"all": None, "above_background": 0.0, "above_air": DARK}[over]
            told["farthest"] = FARTHEST
    return told


def inferer_settings(description: ModelDescription) -> dict[str, Any]:
    """The windows of a run, as `bundle_steps.Windows` takes them."""
    plan, config, window = description.plan, description.inference, description.window
    if config.stride is None:
        steps = strides(window, config.overlap)
    else:
        steps = stride_steps(window, config.stride)
    larger = None
    if description.larger_windows and config.window == "auto" and config.stride is None:
        larger = description.larger_windows.model_dump(mode="json") | {
            "memory": config.memory_gb * 1e9
        }
    return {
        "_target_": f"{STEPS}.Windows",
        "window": list(window),
        "steps": list(steps),
        "axes": list(plan.stored_axes),
        "even": config.stride is None,
        "gaussian": config.weights == "gaussian",
        "batch": config.batch,
        "slices": plan.dimensions == 2,
        "larger": larger,
    }


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
