"""Settings of a run: typed, checked, and kept in the run folder."""

from typing import Any, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from tracoco.errors import UserError
from tracoco.settings import (
    AugmentationConfig,
    LossConfig,
    MethodChoice,
    Settings,
    TrackingConfig,
    checked,
    in_plain_words,
    with_new_names,
)

BATCH = (2, 2)
"""Labelled and unlabelled crops of a step where neither plan nor settings say otherwise: as in the
paper's 3D experiments, and the fewest that CutMix can pair."""
FILTERS = 16
"""Channels of a network's finest level where neither plan nor settings say otherwise."""
STEPS = 2000
"""Of a training where neither plan nor settings say otherwise."""
Precision = Literal["fp32", "bf16", "fp16"]
Recipe = Literal["common", "released", "paper", "unrecorded"]
"""`unrecorded`: of runs of 0.1.0, which do not say."""
OverlapRule = Literal["random", "half", "quarter", "full", "low"]
SAME_RESULT: dict[str, set[str]] = {
    "data": {"workers"},
    "training": {"checkpointing", "channels_last"},
}
"""Settings that say how a result is computed and not which: a run may go on with other ones."""


class DataConfig(Settings):
    """How crops are drawn from the prepared scans. Batch sizes are per process."""

    labelled_batch: PositiveInt | None = None
    """Labelled crops of a step; the plan's if not given."""
    unlabelled_batch: NonNegativeInt | None = None
    """Unlabelled crops of a step; the plan's if not given."""
    labelled: PositiveInt | None = None
    """Keep the labels of only so many labelled cases, the first of the split, and take the others
    as unlabelled: a simulation of having fewer labels. All if not given."""
    fold: PositiveInt | None = None
    """Hold out the labelled cases of this fold, counted from 1; see `tracoco train --fold`."""
    reuse_labelled: bool = False
    """Draw unlabelled crops from the labelled cases too, without their labels. For methods that
    need unlabelled crops where every case has a label."""
    crop: tuple[PositiveInt, ...] | None = None
    """Voxels per axis; the plan's crop if not given."""
    overlap: OverlapRule = "random"
    """What the two crops of a pair have in common, along each axis.

    random: at least half of a crop, and not all of it.
    half, quarter: this fraction of a crop, or more where there is no room to go so far.
    full: everything; the second crop lies where the first does.
    low: whatever is left if the second crop lies anywhere below the first, as in the release.
    """
    room: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Smallest range of crop positions along each axis (in-plane axes in 2D), as a fraction of the
    crop. Where a scan is too small for it, crops are padded beyond the scan, and every loss leaves
    the padding out. With 0, a scan that is no larger than a crop leaves no room to translate."""
    slice_sampling: Literal["by_case", "uniform"] = "by_case"
    """For 2D projects. by_case: every case equally often, then any slice of it. uniform: every
    slice equally often, as lists of slices are sampled."""
    flips: Literal["plan", "all", "plane", "none"] = "plan"
    """Axes along which crops are mirrored, each in half of the pairs: those that the plan allows
    (`mirror_axes`; none in a new plan), all, those of the plane of quarter turns, or none."""
    turns: bool = False
    """Quarter turns in the plane of the first two axes, where their spacing is equal."""
    brightness: float = Field(default=0.25, ge=0.0, lt=1.0)
    """Intensities are multiplied by a factor in [1 - brightness, 1 + brightness]. Where the plan
    normalises by z-scores, that is a change of contrast about the mean of the scan."""
    strong: bool = False
    """Change the contrast by up to half and blur every other pair, on top of the brightness."""
    augmentation: AugmentationConfig = AugmentationConfig()
    """Rotation, scaling and changes of intensity, on top of flips, turns and brightness."""
    foreground: float = Field(default=1 / 3, ge=0.0, le=1.0)
    """Fraction of the labelled crops that are placed over a foreground voxel."""
    workers: NonNegativeInt = 1
    """Threads that read crops ahead; the batches do not depend on their number."""

    @property
    def batch(self) -> tuple[int, int]:
        """Labelled and unlabelled crops of a step. Those of the plan are filled in before."""
        labelled, unlabelled = BATCH
        return (
            labelled if self.labelled_batch is None else self.labelled_batch,
            unlabelled if self.unlabelled_batch is None else self.unlabelled_batch,
        )


class NetworkConfig(Settings):
    """Which network, and how wide."""

    name: str = "light-unet"
    """A network of this package, or `monai:NAME`."""
    filters: PositiveInt | None = None
    """Channels of the finest level; each level below doubles them. If not given: for `light-unet`
    the plan's, else 16."""
    strides: tuple[tuple[int, ...], ...] | None = None
    """For `light-unet`, one entry a level below the finest: voxels along each axis that become
    one. The plan's if not given."""
    normalisation: Literal["batch", "instance"] = "batch"
    """Of the maps of `light-unet`. batch: by statistics of the batch, and by running statistics at
    test time, so that the prediction for a voxel depends on its surroundings only through the
    convolutions. instance: by the statistics of each crop, which every voxel of it then depends on;
    such networks predict well in windows of the crop's size alone."""
    statistics: Literal["separate", "joint"] = "separate"
    """What BatchNorm of `light-unet` takes its statistics of while it is trained. separate: the
    labelled crops of a batch, and by themselves the unlabelled ones. joint: all crops together, as
    the releases do; labels then also move what the network makes of unlabelled crops."""
    decoder: Literal["convolution", "pointwise"] = "convolution"
    """Of `light-unet`. convolution: kernels of 3 voxels along each axis at every level but the
    finest. pointwise: kernels of one voxel everywhere, which takes less time and is less exact."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further arguments of a network that is not ours, e.g. of `monai:SegResNet`."""

    @property
    def width(self) -> int:
        """Channels of the finest level. Those of the plan are filled in before."""
        return self.filters or FILTERS


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"lr": 0.05, "weight_decay": 5e-4, "schedule": "poly", "warmup": 0.0},
    "adam": {"lr": 1e-3, "weight_decay": 0.0, "schedule": "constant", "warmup": 0.0},
    "adamw": {"lr": 2e-3, "weight_decay": 0.01, "schedule": "cosine", "warmup": 0.05},
}
"""Settings of each optimizer where nothing else is given: those of `sgd` are the paper's."""


class OptimizerConfig(Settings):
    """What moves the weights, and how its learning rate changes over a run.

    `name` gives the settings that are not given by themselves.
    """

    name: Literal["sgd", "adam", "adamw"] = "adamw"
    """What moves the weights; each has defaults of its own for the settings below."""
    lr: float = Field(default=2e-3, gt=0)
    """Largest learning rate."""
    momentum: float = Field(default=0.9, ge=0, lt=1)
    """Of SGD; for Adam and AdamW the first beta."""
    second_beta: float = Field(default=0.999, ge=0, lt=1)
    """Of Adam and AdamW."""
    nesterov: bool = False
    """Nesterov's form of the momentum; of SGD alone."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Fraction of the weights that is taken off, times the learning rate."""
    schedule: Literal["poly", "cosine", "step", "constant"] = "cosine"
    """How the learning rate changes after the warm-up: `poly` and `cosine` fall to zero at the end
    of the run, `step` multiplies it by `drop_factor` after every `drop_every` steps."""
    poly_power: float = Field(default=0.9, ge=0)
    """Exponent of the schedule `poly`."""
    drop_every: PositiveInt = 2500
    """Steps between two drops of the schedule `step`; by default those of UA-MT's release."""
    drop_factor: float = Field(default=0.1, gt=0, lt=1)
    """Factor of each drop of the schedule `step`."""
    restart: bool = False
    """Begin the schedule anew with each stage of a method that has stages, such as `bcp`."""
    warmup: float = Field(default=0.05, ge=0, lt=1)
    """Fraction of the steps in which the learning rate rises linearly to its largest value."""
    clip_norm: float | None = Field(default=None, gt=0)
    """Largest norm of each network's gradient; none by default."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Take what is not given from the optimizer, so that a run records it."""
        if not isinstance(values, dict):
            return values
        name = values.get("name", cls.model_fields["name"].default)
        known = OPTIMIZERS.get(name, {}) if isinstance(name, str) else {}
        return {**known, **values, "name": name}


class TrainingConfig(Settings):
    """Length of a run, and how often it saves and validates. All but `minutes` counts in steps."""

    steps: PositiveInt | None = None
    """The plan's if not given, or 2000."""
    minutes: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Time that the steps of a run may take on this machine, validation and saving included; the
    number of steps is measured at the start and recorded in `steps`."""
    save_every: PositiveInt = 200
    """Steps between two checkpoints `last`."""
    validate_every: PositiveInt = 200
    """Steps between two validations."""
    select_on: Literal["validation", "test"] = "validation"
    """Cases that choose `best`. With test cases the result is no estimate of anything, as in much
    of the literature; every table and report of such a run says so."""
    unlabelled_weight: Literal["adaptive", "scheduled"] = "adaptive"
    """What decides how much unlabelled crops count, on top of the method's own weights. adaptive:
    nothing until labels alone teach little more (running Dice on labelled crops), less where two
    networks disagree before they teach each other, and less while a structure fades from the
    pseudo-labels or that Dice falls. scheduled: the method's schedule alone, as in the papers."""
    ema_decay: float = Field(default=0.99, ge=0, lt=1)
    """Fraction of the averaged weights that each step keeps: an exponential moving average (EMA)
    over about 1 / (1 - ema_decay) steps. Validation and prediction use it. 0: none."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """auto: that of the plan if it has one, else bf16 where the device has instructions for it and
    a trial shows that it is faster, else fp32. On CPUs, convolutions whose gradients torch computes
    wrongly in bf16 stay in fp32. What was taken stands in the run's facts, and a resumed run takes
    the same."""
    compile: bool = False
    """Compile the networks with torch.compile."""
    channels_last: bool = False
    """Store maps with their channels last, which GPUs are faster with in half precision. On CPUs
    it is slower."""
    checkpointing: bool = False
    """Keep of each pass the maps between its levels alone and compute the others again: less
    memory, more time, the same result."""

    @property
    def length(self) -> int:
        """Steps in all. Those of the plan are filled in before."""
        return self.steps or STEPS


class InferenceConfig(Settings):
    """How a whole scan is covered by windows."""

    window: Literal["crop", "auto"] = "crop"
    """Size of the windows. crop: that of the crops of the training. auto: the whole scan, or as
    much of it as `memory_gb` allows, for networks of convolutions and normalisation by running
    statistics (`network.normalisation: batch`), which no statistics of a window enter. Other
    networks, and all with a `stride`, have windows of the crop's size. auto is faster, but less
    accurate where a network sees beyond its crops' length (docs/explanation/decisions.md)."""
    memory_gb: PositiveFloat = 2.0
    """Bound on the estimated memory of windows that are larger than the crop."""
    overlap: tuple[float, ...] | float = 0.5
    """What neighbouring windows have in common, as a fraction of the crop, for all axes or one
    value each."""
    stride: tuple[PositiveInt, ...] | None = None
    """Voxels from a window to the next along each axis, in place of `overlap`."""
    weights: Literal["gaussian", "uniform"] = "gaussian"
    """How much each voxel of a window counts where windows overlap."""
    batch: PositiveInt = 2
    """Windows that go through the network at once."""


class Config(Settings):
    """All settings of a run."""

    recipe: Recipe = "common"
    """Where the settings of the training come from: the same for all methods (`common`), those
    of the method's authors (`released`), or those of the paper's experiments (`paper`). A preset or
    `--recipe` states it; single settings may still be changed."""
    seed: NonNegativeInt = 0
    """Seed of all random choices."""
    method: MethodChoice = MethodChoice()
    data: DataConfig = DataConfig()
    network: NetworkConfig = NetworkConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    inference: InferenceConfig = InferenceConfig()
    tracking: TrackingConfig = TrackingConfig()

    @model_validator(mode="wrap")
    @classmethod
    def _in_plain_words(
        cls, values: Any, validate: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        """Have `Config(...)` in Python name the setting that was meant, as `checked` does."""
        try:
            return validate(values)
        except ValidationError as error:
            if info.context:  # `checked` explains it, with the file that the values are from
                raise
            raise in_plain_words(cls, error, "settings", {}) from None


ADDED_LATER: dict[str, dict[str, Any]] = {
    "data": {
        "room": 0.0,
        "fold": None,
        "slice_sampling": "by_case",
        "augmentation": AugmentationConfig(strength="off").model_dump(mode="json"),
    },
    "network": {"normalisation": "instance", "statistics": "joint", "decoder": "pointwise"},
    "optimizer": {
        "name": "sgd",
        "schedule": "poly",
        "warmup": 0.0,
        "second_beta": 0.999,
        "nesterov": False,
        "drop_every": 2500,
        "drop_factor": 0.1,
        "restart": False,
    },
    "training": {"ema_decay": 0.0, "unlabelled_weight": "scheduled", "minutes": None},
    "loss": LossConfig().model_dump(mode="json"),
    "inference": {"window": "crop", "memory_gb": InferenceConfig().memory_gb},
    "method": {"negative_gate": "class", "scales": 1, "average_decay": 0.99},
}
"""Settings that runs of 0.1.0 do not have, with the values that leave such a run as it was."""


def recorded_settings(config: Config) -> dict[str, Any]:
    """All settings that a result depends on, without those that say what was always so.

    A run of an older version has the same ones, so that it can be resumed and is found again.
    """
    unused = {} if config.network.name == "light-unet" else {"network": set(ADDED_LATER["network"])}
    left_out: dict[str, Any] = {**SAME_RESULT, **unused, "recipe": True, "tracking": True}
    settings = config.model_dump(mode="json", exclude=left_out)
    # Older versions had numbers where there may be none now.
    settings["network"]["filters"] = config.network.width
    settings["training"]["steps"] = config.training.length
    for group, neutral in ADDED_LATER.items():
        kept = settings[group].items()
        settings[group] = {
            key: value for key, value in kept if key not in neutral or value != neutral[key]
        }
    return settings if settings["loss"] else {k: v for k, v in settings.items() if k != "loss"}


def parse_config(values: dict[str, Any], source: str) -> Config:
    """Check plain values read from `source` against the known settings."""
    return checked(Config, values, source)


def parse_recorded(values: Any, source: str) -> Config:
    """The settings of a run as its folder has them.

    Older runs lack the settings that were added later, and have others by their old names.
    """
    if not isinstance(values, dict):
        raise UserError(f"{source} holds no settings; restore it, or train into a new folder")
    filled = {"recipe": "unrecorded", **values}
    for group in ("data", "network", "optimizer", "training", "inference"):
        if isinstance(values.get(group), dict):
            filled[group] = ADDED_LATER[group] | values[group]
    if isinstance(values.get("method"), dict):
        filled["method"] = with_new_names(values["method"])
    return parse_config(filled, source)
