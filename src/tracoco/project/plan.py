"""How the scans of a project are brought to one form: derived from the data, edited by a person."""

import json
import textwrap
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, ValidationInfo, field_validator

from tracoco.config import BATCH, Precision
from tracoco.files import digest, write_text
from tracoco.geometry import Size, Strides, crop_problem, form_problem
from tracoco.project.derive import Axis, Voxels, Window, choose_strides, slices_first
from tracoco.project.labels import LabelRule
from tracoco.scans.scan import Shape, Spacing, Structure
from tracoco.scans.segments import from_hex
from tracoco.settings import Settings, checked, read_yaml
from tracoco.text import html_table

NOT_STORED = {"crop", "strides", "batch", "filters", "steps", "precision", "mirror_axes"}
NOT_STORED |= {"class_names", "class_colours"}
"""Settings that change nothing in the store."""
FOR_IMPORTED = ("rescale", "resize_slices")
"""Settings that only plans of imported runs change."""
ADDED_LATER = (
    *FOR_IMPORTED,
    *("filters", "steps", "precision", "mirror_axes", "ignore_label", "class_colours"),
)
"""Settings that older plans do not have; with their defaults a plan is what it was."""

FOR_ZSCORE = {"normalisation", "statistics_over", "window_mean_sd"}
"""Settings that change nothing where intensities are brought to [0, 1]."""
FARTHEST = 5.0
"""Standard deviations from the mean at which scans without a window are clipped."""
USUAL_WIDTH = 5.0
"""Standard deviations from the 0.5 to the 99.5 percentile: 5.15 in a normal distribution."""

Percent = Annotated[float, Field(ge=0, le=100)]
Side = PositiveFloat | None
Colour = Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$")]


class Plan(Settings):
    """Axes are in stored order: as in the scan, or with the slice axis first in 2D projects."""

    dimensions: Literal[2, 3] = Field(
        description="2: networks see slices; 3: networks see volumes."
    )
    channels: PositiveInt = Field(
        le=1000, description="Numbers a voxel, e.g. 2 for two MR sequences."
    )
    label_values: tuple[int, ...] = Field(
        description="Values in the label files, background (0) first. Results hold the same values."
    )
    class_names: tuple[str, ...] = Field(
        description="A name for each label value, as reports show it."
    )
    ignore_label: int | None = Field(
        default=None,
        description="Value in the label files of voxels that nobody has drawn or looked at. They "
        "count as unlabelled, and no score counts them. null: there is none.",
    )
    class_colours: tuple[Colour, ...] = Field(
        default=(),
        description="A colour for each structure, without the background, as #rrggbb: of the "
        "structures in the files that 3D Slicer opens. Empty: colours far from each other.",
    )
    slice_axis: Axis | None = Field(
        description="2D: the axis that slices are counted along: 0 left-right, 1 back-front, "
        "2 feet-head. 3D: null."
    )
    spacing_mm: tuple[Side, Side, Side] = Field(
        description="Side lengths of a voxel after resampling; null leaves an axis as each scan "
        "has it. 2D: the slice axis comes first and is never resampled."
    )
    crop: tuple[PositiveInt, PositiveInt, PositiveInt] = Field(
        description="Voxels per axis that a network sees at once. About two thirds of a scan "
        "leave room to translate. 2D: 1 comes first."
    )
    strides: tuple[tuple[int, ...], ...] = Field(
        default=(),
        description="How deep light-unet goes: an entry for each level below the finest, with the "
        "voxels along each axis that become one, 1 or 2. Empty: three levels that halve all axes.",
    )
    batch: tuple[PositiveInt, PositiveInt] = Field(
        default=BATCH, description="Labelled and unlabelled crops of a training step."
    )
    filters: PositiveInt | None = Field(
        default=None,
        description="Channels of light-unet's finest level; each level below doubles them. "
        "null: 16.",
    )
    steps: PositiveInt | None = Field(default=None, description="Steps of a training. null: 2000.")
    precision: Precision | None = Field(
        default=None,
        description="What convolutions are computed in: fp32, or bf16, which takes half the memory "
        "and suits GPUs. null: what is faster on the machine, by a trial when a run starts.",
    )
    mirror_axes: tuple[Axis, ...] = Field(
        default=(),
        description="Axes, in the order of crop, along which crops may be mirrored: where a "
        "mirrored scan could be a real one and each structure keeps its name. Empty: none. E.g. "
        "[0] for a brain whose axis 0 goes from left to right, unless left and right have labels "
        "of their own.",
    )
    normalisation: Literal["range", "zscore"] = Field(
        default="range",
        description="range: intensities are brought to [0, 1] from the window, or from the "
        "percentiles of the whole scan. zscore: a mean is subtracted, and a standard deviation is "
        "divided by. Plans without this entry have range.",
    )
    window: tuple[Window | None, ...] = Field(
        default=(),
        validate_default=True,
        description="One entry a channel: [low, high] are the intensities at which every scan is "
        "clipped, e.g. Hounsfield units of a CT; null goes by the percentiles of each scan.",
    )
    window_mean_sd: tuple[tuple[float, PositiveFloat] | None, ...] = Field(
        default=(),
        validate_default=True,
        description="zscore with a window, one entry a channel: mean and standard deviation for "
        "every scan, from the structures of the labelled training scans. null takes the centre of "
        "the window and a quarter of its width, so that it becomes [-2, 2].",
    )
    statistics_over: tuple[Voxels, ...] = Field(
        default=(),
        validate_default=True,
        description="zscore without a window, one entry a channel: the voxels of each scan that "
        "percentiles, mean and standard deviation are taken of. above_background: those above "
        "low_percentile of the scan, where a constant background lies. above_air: those above a "
        "tenth of the way from low_percentile to high_percentile of the scan. all: every voxel.",
    )
    low_percentile: Percent = Field(
        default=0.5, description="Without a window: what lies below this percentile is clipped,"
    )
    high_percentile: Percent = Field(
        default=99.5, description="and what lies above this one as well."
    )
    crop_to_content: bool = Field(
        default=False,
        description="Whether the margin of a scan in which nothing changes is left out, e.g. the "
        "black around a brain. Results cover the whole scan, with background there.",
    )
    rescale: bool = Field(
        default=True,
        description="Whether intensities are normalised. false leaves them as the files "
        "have them, for imported networks that were trained on files normalised beforehand.",
    )
    resize_slices: bool = Field(
        default=False,
        description="2D: whether each slice is resized to the crop by its nearest voxels, and its "
        "labels back, for imported networks that were trained so.",
    )

    @property
    def classes(self) -> int:
        """Number of classes, background included."""
        return len(self.label_values)

    @property
    def structures(self) -> tuple[Structure, ...]:
        """All classes but the background, as files name them."""
        colours = tuple(map(from_hex, self.class_colours)) or (None,) * self.classes
        return tuple(map(Structure, self.label_values[1:], self.class_names[1:], colours))

    @property
    def label_rule(self) -> LabelRule:
        """What the values of label files mean."""
        return LabelRule(self.ignore_label, {each.value: each.name for each in self.structures})

    @property
    def stored_axes(self) -> Shape:
        """The canonical axis of each stored axis: `array.transpose(plan.stored_axes)`."""
        if self.slice_axis is None:
            return (0, 1, 2)
        return slices_first(self.slice_axis)

    @property
    def network_crop(self) -> Size:
        """The crop as a network sees it: without the slice axis in 2D."""
        return self.crop[-self.dimensions :]

    @property
    def intensity_range(self) -> float:
        """Width from the dark to the bright voxels of a scan; noise is a fraction of it."""
        return 1.0 if self.normalisation == "range" else USUAL_WIDTH

    @property
    def intensity_limits(self) -> tuple[float, float]:
        """The lowest and the highest intensity that a normalised scan can have."""
        if self.normalisation == "range":
            return (0.0, 1.0)
        ends = [(-FARTHEST, FARTHEST)] * self.window.count(None)
        for channel, window in enumerate(self.window):
            if window:
                mean, sd = self.window_scale(channel, window)
                ends.append(((window[0] - mean) / sd, (window[1] - mean) / sd))
        return min(low for low, _ in ends), max(high for _, high in ends)

    def window_scale(self, channel: int, window: Window) -> tuple[float, float]:
        """What is subtracted from a channel that has this window, and what it is divided by."""
        low, high = window
        return self.window_mean_sd[channel] or ((low + high) / 2, (high - low) / 4)

    def stored_shape(self, shape: Shape, spacing_mm: Spacing) -> Shape:
        """Shape in the store of a scan with this canonical shape and spacing."""
        a, b, c = (
            shape[axis] if side is None else max(1, round(shape[axis] * spacing_mm[axis] / side))
            for axis, side in zip(self.stored_axes, self.spacing_mm, strict=True)
        )
        return (shape[self.slice_axis] if self.slice_axis is not None else a, b, c)

    def hash(self) -> str:
        """Changes with every setting that changes what is stored."""
        # A plan from before there was this setting has the hash that it had.
        left_out = NOT_STORED | self.as_always
        if not self.crop_to_content:
            left_out |= {"crop_to_content"}
        return digest(self.model_dump(mode="json", exclude=left_out))

    @property
    def as_always(self) -> set[str]:
        """Settings that change nothing here and that older plans do not have."""
        fields = type(self).model_fields
        same = {name for name in ADDED_LATER if getattr(self, name) == fields[name].default}
        return same | FOR_ZSCORE if self.normalisation == "range" else same

    def _repr_html_(self) -> str:
        """Each value with what it means, as a table for a notebook."""
        values = self.model_dump(mode="json").items()
        fields = type(self).model_fields
        rows = [(name, json.dumps(value), fields[name].description) for name, value in values]
        return html_table(("value", "", "meaning"), rows)

    @field_validator("label_values")
    @classmethod
    def _background_first(cls, values: tuple[int, ...]) -> tuple[int, ...]:
        if values[:1] != (0,) or len(set(values)) != len(values) or not 2 <= len(values) <= 254:
            raise ValueError("must be 0 and then 1 to 253 other values, each once")
        return values

    @field_validator("class_names")
    @classmethod
    def _one_name_a_value(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        values = info.data.get("label_values", names)
        if len(values) != len(names):
            raise ValueError(f"{len(names)} names for {len(values)} label values")
        return names

    @field_validator("ignore_label", "class_colours")
    @classmethod
    def _fits_the_structures(cls, given: Any, info: ValidationInfo) -> Any:
        values = info.data.get("label_values", ())
        if given in values:
            raise ValueError(f"{given} is also in label_values; a value is one or the other")
        if info.field_name == "class_colours" and len(given) not in {0, len(values) - 1}:
            raise ValueError(f"{len(given)} colours for {len(values) - 1} structures")
        return given

    @field_validator("slice_axis")
    @classmethod
    def _only_in_2d(cls, axis: int | None, info: ValidationInfo) -> int | None:
        if "dimensions" in info.data and (axis is None) != (info.data["dimensions"] == 3):
            raise ValueError("must be null where dimensions = 3, and 0, 1 or 2 where it is 2")
        return axis

    @field_validator("crop")
    @classmethod
    def _one_slice_in_2d(cls, crop: Shape, info: ValidationInfo) -> Shape:
        if info.data.get("dimensions") == 2 and crop[0] != 1:
            raise ValueError("must start with 1 where dimensions = 2: one slice at a time")
        return crop

    @field_validator("strides")
    @classmethod
    def _levels_of_the_crop(cls, strides: Strides, info: ValidationInfo) -> Strides:
        if not {"dimensions", "spacing_mm", "crop"} <= info.data.keys():
            return strides  # those are wrong, and will be said to be
        axes = slice(-info.data["dimensions"], None)
        crop, spacing = info.data["crop"][axes], info.data["spacing_mm"][axes]
        problem = form_problem(strides, len(crop)) or crop_problem(strides, crop)
        if problem:
            better = [list(stride) for stride in choose_strides(crop, spacing)]
            fix = f"write {better}" if better else "make two axes of it even and longer"
            raise ValueError(f"{problem}; for crop {list(crop)} {fix}")
        return strides

    @field_validator("mirror_axes")
    @classmethod
    def _axes_of_a_crop(cls, axes: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if len(set(axes)) != len(axes):
            raise ValueError("must name each axis once")
        if info.data.get("dimensions") == 2 and 0 in axes:
            raise ValueError("must not name 0 where dimensions = 2: slices come one at a time")
        return tuple(sorted(axes))

    @field_validator("window", "window_mean_sd", "statistics_over", mode="before")
    @classmethod
    def _for_all_channels(cls, values: Any, info: ValidationInfo) -> Any:
        """None, one pair of numbers, or one word is for all channels."""
        channels = info.data.get("channels", 1)
        if not isinstance(values, str | list | tuple | None):
            return values  # which is refused
        if not values:
            return ["all" if info.field_name == "statistics_over" else None] * channels
        alone = isinstance(values, str) or all(isinstance(value, int | float) for value in values)
        return [values] * channels if alone else values

    @field_validator("window", "window_mean_sd", "statistics_over")
    @classmethod
    def _one_a_channel(cls, values: tuple[Any, ...], info: ValidationInfo) -> tuple[Any, ...]:
        if len(values) != info.data.get("channels", len(values)):
            raise ValueError(f"{len(values)} entries for {info.data['channels']} channels")
        return values

    @field_validator("window")
    @classmethod
    def _low_below_high(cls, windows: tuple[Window | None, ...]) -> tuple[Window | None, ...]:
        if any(window and window[0] >= window[1] for window in windows):
            raise ValueError("low must be below high")
        return windows

    @field_validator("high_percentile")
    @classmethod
    def _above_the_low_one(cls, high: float, info: ValidationInfo) -> float:
        if high <= info.data.get("low_percentile", -1):
            raise ValueError("must be above low_percentile")
        return high


def write_plan(path: Path, plan: Plan) -> None:
    """Write plan.yaml with a line about each value, for a person to read and change."""
    values = plan.model_dump(mode="json")
    blocks = []
    for name, field in Plan.model_fields.items():
        comment = textwrap.fill(
            str(field.description), 98, initial_indent="# ", subsequent_indent="# "
        )
        blocks.append(f"{comment}\n{name}: {json.dumps(values[name], ensure_ascii=False)}\n")
    write_text(path, "\n".join(blocks))


def read_plan(path: Path) -> Plan:
    """Read plan.yaml, or say which value is wrong."""
    return checked(Plan, read_yaml(path), str(path))
