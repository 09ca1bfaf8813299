"""What a run's folder says of how the run began, how it is computed and how it ended."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tracoco.runs.weights_origin import StartingWeights

VERSIONS = ("tracoco", "torch", "numpy", "python", "git")
"""What a result may depend on besides the settings."""


@dataclass(frozen=True, slots=True)
class Computed:
    """How a run is really computed, with a line for each setting that it had to do without."""

    precision: str = "fp32"
    compile: bool = False
    channels_last: bool = False
    checkpointing: bool = False
    fused_optimizer: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """The weights after the last step against those from before unlabelled crops counted."""

    supervised_dice: float
    """On the cases that choose, before unlabelled crops began to count."""
    last_dice: float
    """The same after the last step."""

    @property
    def supervised(self) -> bool:
        """Whether the run ends with the weights of its supervised part, which scored higher."""
        return self.supervised_dice > self.last_dice


@dataclass(frozen=True, slots=True)
class Imported:
    """The released weights that a run was made of, without a training."""

    file: str
    sha256: str = ""
    preset: str = ""
    naming: str = ""
    """Whose names the tensors of the file have."""
    unused: tuple[str, ...] = ()
    """Tensors that the network has no place for."""
    intensities: str = ""
    cases: str = ""
    """What is known of the cases that the weights were trained on."""


@dataclass(frozen=True, slots=True)
class PseudoLabelFacts:
    """The pseudo-labels of an earlier run that a run learns from."""

    folder: str
    hash: str = ""
    threshold: float = 0.0
    """Probability below which a voxel does not count."""
    counted: float = 0.0
    """Fraction of the voxels that count."""
    class_fractions: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What was true when a run began, and what is known of it since; older runs say less."""

    labelled_share: float | None = None
    """Fraction of the voxels of the labelled scans that have a structure."""
    global_batch: int | None = None
    """Crops of a step, over all processes."""
    world_size: int | None = None
    threads: int | None = None
    device: str | None = None
    machine: str | None = None
    select_on: str | None = None
    hidden_labels: int = 0
    watermark: str = ""
    init_from: StartingWeights | None = None
    pseudo_labels: PseudoLabelFacts | None = None
    splits: str | None = None
    """Hash of the split; that of the prepared cases is `store`."""
    store: str | None = None
    computed: Computed | None = None
    imported: Imported | None = None
    ended_with: Ending | None = None
    tracoco: str | None = None
    torch: str | None = None
    numpy: str | None = None
    python: str | None = None
    git: str | None = None

    @property
    def versions(self) -> dict[str, str]:
        """Those that were recorded."""
        found = {name: getattr(self, name) for name in VERSIONS}
        return {name: version for name, version in found.items() if version is not None}

    def to_json(self) -> dict[str, Any]:
        """As facts.json has them: what is not known is left out."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        known: dict[str, Any] = json.loads(json.dumps(values))
        return known


@dataclass(frozen=True, slots=True)
class Identity:
    """What must be the same for a run to go on as if it had never been stopped."""

    settings: Mapping[str, object]
    """Those that are recorded, by group."""
    mirrored_axes: tuple[int, ...]
    splits: str
    """Hash of the split, as those of the plan and of the prepared cases."""
    plan: str
    data: str
    processes: int
    starting_weights: str | None
    pseudo_labels: str | None

    def to_checkpoint(self) -> dict[str, Any]:
        """As every checkpoint carries it, by the names that errors use."""
        return {
            "loss settings": None,  # the common loss is not recorded, as in older checkpoints
            **{f"{group} settings": values for group, values in self.settings.items()},
            "mirrored axes": list(self.mirrored_axes) or None,  # older checkpoints have none
            "splits": self.splits,
            "plan": self.plan,
            "data": self.data,
            "number of processes": self.processes,
            "starting weights": self.starting_weights,
            "pseudo-labels": self.pseudo_labels,
        }
