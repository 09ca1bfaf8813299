"""A TraCoCo step: against the released one, in time and memory, and what of it is not networks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn

from benchmarks.agreement import check_close
from benchmarks.alternatives import released_step
from benchmarks.material import draw_batch, plain_plan
from benchmarks.memory import in_tidy_process, watched_memory
from benchmarks.network_passes import bare_passes, count_crops, kernel_share
from benchmarks.row import Row, faster, part
from benchmarks.timing import best_of
from tracoco.data.batch import Batch
from tracoco.geometry import Size
from tracoco.presets import load_config
from tracoco.processes import StopRequest
from tracoco.runs.build import run_method
from tracoco.training.acceleration import accelerate
from tracoco.training.distributed import Process
from tracoco.training.logger import RunLogger, SilentDisplay
from tracoco.training.trainer import Trainer

RATE = 1e-3
"""Small: the same batch again and again must not lead the weights astray."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is trained, and how often it is timed."""

    network: str
    title: str
    crop: Size
    rounds: int
    most: float
    """Fraction of a step that may be something else than the networks' passes."""

    def __str__(self) -> str:
        return f"{self.title}, crops of {' x '.join(map(str, self.crop))}"


VNET = Setting("vnet", "VNet", (64, 64, 48), rounds=1, most=0.05)
LIGHT = Setting("light-unet", "light UNet", (48, 40, 24), rounds=8, most=0.15)
IN_FP32 = ("training.precision=fp32",)
AS_0_1_0 = (
    *IN_FP32,
    "network.normalisation=instance",
    "network.decoder=pointwise",
    "optimizer.name=sgd",
    "method.pseudo_labels=clean",
    "training.unlabelled_weight=scheduled",
    "training.ema_decay=0",
)
"""What made a step in 0.1.0."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A method in training, and the batch that it is given."""

    trainer: Trainer
    batch: Batch
    logger: RunLogger

    @classmethod
    def of(
        cls,
        setting: Setting,
        folder: Path,
        *,
        thin: bool = False,
        changes: tuple[str, ...] = IN_FP32,
    ) -> "Subject":
        """Everything as a run would have it, but for the files that crops come from.

        With thin networks a step is what it is around its networks: they are one small
        convolution each.
        """
        settings = [f"network.name={setting.network}", f"data.crop={list(setting.crop)}", *changes]
        settings += [f"optimizer.lr={RATE}", "training.steps=100000", "training.save_every=100000"]
        config = load_config(None, settings)
        method = run_method(config, plain_plan(setting.crop))
        if thin:
            method.networks = nn.ModuleList([nn.Conv3d(1, 2, 1), nn.Conv3d(1, 2, 1)])
        folder.mkdir(parents=True)
        process = Process(0, 1, torch.device("cpu"))
        batch = draw_batch(setting.crop)
        acceleration = accelerate(method, config.training, process.device, batch.first.values.shape)
        shares = {"background": 0.7, "organ": 0.3}
        trainer = Trainer(
            method,
            config,
            folder,
            process,
            identity={"run": "benchmark"},
            acceleration=acceleration,
            labelled_fractions=shares,
        )
        logger = RunLogger(folder, 0, shares, SilentDisplay(), advice=method.advice)
        return cls(trainer, batch, logger)

    @property
    def networks(self) -> list[nn.Module]:
        """The two networks, for all who step with them."""
        return self.trainer.method.trained_networks()

    def step(self) -> None:
        """Our whole step, its line in the log included."""
        self.trainer.fit([self.batch], self.logger, StopRequest())

    def released(self) -> Callable[[], None]:
        """The released step on the same networks and the same batch."""
        optimizers = [
            torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9, weight_decay=1e-4)
            for network in self.networks
        ]
        return partial(released_step, self.networks, optimizers, self.batch)

    def bare(self) -> None:
        """The passes of our step with the simplest loss there is."""
        self.trainer.optimizer.zero_grad(set_to_none=True)
        bare_passes(self.networks, self.batch)


def rows(work: Path) -> list[Row]:
    """Speed and memory against the release, then what is not networks, of a heavy and a light."""
    heavy, light = (Subject.of(each, work / each.network) for each in (VNET, LIGHT))
    against, whole = released_row(heavy)
    return [
        against,
        overhead_row(VNET, heavy, whole, work),
        memory_row(work),
        overhead_row(LIGHT, light, best_of(LIGHT.rounds, light.step)[0], work),
        earlier_row(work),
    ]


def earlier_row(work: Path) -> Row:
    """A step as runs have it by default, against that of the first version."""
    ours = Subject.of(LIGHT, work / "default", changes=())
    theirs = Subject.of(LIGHT, work / "0.1.0", changes=AS_0_1_0)
    seconds = best_of(LIGHT.rounds, ours.step, theirs.step, warm=True)
    return faster(
        f"a TraCoCo step by default, {LIGHT}, 2 + 2 pairs",
        "the step of 0.1.0: fp32, a pointwise decoder, each crop normalised by itself",
        (seconds[0], seconds[1]),
        1.4,
        f"Ours computes in {ours.trainer.acceleration.precision} and has convolutions of three "
        "voxels in its decoder. Its step also moves the averaged weights.",
    )


def released_row(subject: Subject) -> tuple[Row, float]:
    """Our step against the release's, each with its own losses and optimizers; and our seconds.

    Crops are counted in the calls that warm everything up.
    """
    released = subject.released()
    ours, theirs = (count_crops(subject.networks, step) for step in (subject.step, released))
    check_close("crops of the released step, with gradient and without", theirs, (24, 8), 0)
    seconds = best_of(VNET.rounds, subject.step, released, warm=True)
    row = faster(
        f"a TraCoCo step, {VNET}, 2 + 2 pairs",
        "the released step, same networks and crops",
        (seconds[0], seconds[1]),
        1.2,
        f"Through the networks go {ours[0]} crops with gradient and {ours[1]} without; in the "
        f"release {theirs[0]} and {theirs[1]}.",
    )
    return row, seconds[0]


def memory_row(work: Path) -> Row:
    """The peaks of a step, each in a process of its own."""
    ours, theirs = (
        in_tidy_process(peak_of_step, work / f"memory-{released}", released=released)
        for released in (False, True)
    )
    return part(
        f"peak memory of a TraCoCo step, {VNET}",
        "the released step, same networks and crops",
        (ours, theirs),
        "MB",
        0.85,
        "Anonymous memory of the whole process, torch included; a fresh process each, in which "
        "freed blocks go back to the system at once.",
    )


def peak_of_step(folder: Path, *, released: bool) -> float:
    """Peak memory of this process in MB while it takes a step."""
    subject = Subject.of(VNET, folder)
    step = subject.released() if released else subject.step
    with watched_memory() as peak:
        step()
    return peak.mb


def overhead_row(setting: Setting, subject: Subject, whole: float, work: Path) -> Row:
    """What a step does besides the networks' forward and backward passes.

    It is timed around networks that do next to nothing: a difference of two long steps would be
    lost in what such times wander by.

    Args:
        setting: what was trained.
        subject: the same, which has just taken a step.
        whole: seconds of that step.
        work: a folder for files that nobody keeps.
    """
    thin = Subject.of(setting, work / f"{setting.network}-thin", thin=True)
    step, passes = best_of(15, thin.step, thin.bare)
    (update,) = best_of(5, subject.trainer.optimizer.step)
    around, kernels = step - passes, kernel_share(subject.bare)
    valid = whole - around - update
    shares = {
        "convolutions and matrix products": kernels * valid,
        "other layers of the networks": (1 - kernels) * valid,
        "optimizer": update,
        "losses, CutMix, noise, health, logging": around,
    }
    told = ", ".join(f"{name} {100 * value / whole:.1f} %" for name, value in shares.items())
    return part(
        f"all but the networks' passes in a TraCoCo step, {setting}",
        "the whole step",
        (around + update, whole),
        "s",
        setting.most,
        "Timed around networks of one small convolution, less their own passes, and the optimizer "
        f"of the true networks. The step's time: {told}.",
    )
