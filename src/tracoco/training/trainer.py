"""The one loop. It knows loss terms by name and nothing of the method that made them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tracoco.config import Config
from tracoco.data.batches import Batch
from tracoco.errors import UserError
from tracoco.methods.method import Method, evaluating
from tracoco.training.arrangement import Arrangement, arrange
from tracoco.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from tracoco.training.journal import Journal
from tracoco.training.run_log import Record
from tracoco.training.signals import StopRequest
from tracoco.training.team import Team

Validate = Callable[[Method], dict[str, float]]
MOST_SKIPPED = 20
"""Steps in a row that may overflow in fp16. The scale of the loss, 65,536 at first, is halved after
each, so that by then it is below 1 and lowering it further would not help."""


@dataclass(frozen=True, slots=True)
class FitResult:
    """How a run ended."""

    steps: int
    """Steps that are done and saved."""
    signal: int
    """The signal that stopped the run before its end, or 0."""
    leads: bool = True
    """Whether this process is the one to tell the user."""


class Trainer:
    """A method, its optimizer, and the folder that keeps them safe."""

    def __init__(
        self,
        method: Method,
        config: Config,
        folder: Path,
        team: Team,
        *,
        identity: Checkpoint,
        arrangement: Arrangement | None = None,
    ) -> None:
        """Put the parts of a run together.

        Args:
            method: with its first weights.
            config: the settings.
            folder: of the run.
            team: this process and its device.
            identity: is carried by every checkpoint and must be the same when it is resumed.
            arrangement: how the method was arranged; if not given, it is arranged here.
        """
        self.arrangement = arrangement or arrange(method, config.training, team.device)
        self.method = method.to(team.device)
        self.config, self.folder, self.team, self.identity = config, folder, team, identity
        optimizer = config.optimizer
        self.optimizer = torch.optim.SGD(
            method.parameter_groups(),
            lr=optimizer.lr,
            momentum=optimizer.momentum,
            weight_decay=optimizer.weight_decay,
            fused=self.arrangement.fused_optimizer or None,
        )
        self.scaler = torch.amp.GradScaler(
            team.device.type, enabled=self.arrangement.precision == "fp16"
        )
        self.step = 0
        self.skipped = 0
        """Steps in a row, up to this one, that overflowed and moved nothing."""
        self.best: float | None = None
        if self.arrangement.compile:  # the networks, since a loss slices another overlap each step
            for network in method.trained_networks():
                network.compile()
        self.wrapped: Callable[[Batch, int], dict[str, Tensor]] = team.wrap(
            self.method, idle_networks=method.idle_networks
        )

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        path = self.folder / "last.pt"
        if not path.exists():
            return
        checkpoint = load_checkpoint(path, self.team.device)
        for key, expected in self.identity.items():
            if checkpoint.get(key) != expected:
                raise UserError(
                    f"{path} was saved with other {key}: {checkpoint.get(key)}, now {expected}; "
                    "resume with the same, or train into a new folder"
                )
        self.method.load_state_dict(checkpoint["method"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        for group in self.optimizer.param_groups:  # not the device that the checkpoint is from
            group["fused"] = self.arrangement.fused_optimizer or None
        self.scaler.load_state_dict(checkpoint["scaler"])
        self.step, self.best = checkpoint["step"], checkpoint["best"]

    def fit(
        self,
        batches: Iterable[Batch],
        journal: Journal | None,
        stop: StopRequest,
        validate: Validate | None = None,
    ) -> FitResult:
        """Take the steps that are left; `batches` starts at `self.step`."""
        for batch in batches:
            record, signal = self._take_step(batch.to(self.team.device), stop)
            if validate and self._due(self.config.training.validate_every):
                record |= self._validate(validate)
            if journal:
                journal.write(record)
            if signal or self._due(self.config.training.save_every):
                self._save("last.pt")
            if signal:
                return FitResult(self.step, signal, self.team.leads)
        return FitResult(self.step, 0, self.team.leads)

    def _take_step(self, batch: Batch, stop: StopRequest) -> tuple[Record, int]:
        """One step of the optimizer; its record, and the signal that asks to stop, or 0."""
        began = self.team.clock()
        # Noise and dropout are a function of seed, step and rank: no generator state is saved.
        torch.manual_seed(step_seed(self.config.seed, self.step, self.team.rank))
        rate = self._set_rate()
        self.method.train()
        buffers = self._kept_buffers()
        self.method.before_step(batch, self.step)
        self.optimizer.zero_grad(set_to_none=True)  # now, so that maps can have their memory
        with self._autocast():
            terms = self.wrapped(batch, self.step)
        loss = torch.stack(list(terms.values())).sum()
        values = {name: float(term.detach()) for name, term in terms.items()}
        signal = self._agree(values, batch, stop)
        skipped = self._descend(loss)
        if skipped:
            self._restore(buffers, batch)
        else:
            self.skipped = 0
            self.method.after_step(self.step)
        record: Record = {
            "step": self.step,
            "loss": sum(values.values()),
            "terms": values,
            "rate": rate,
            "shift": batch.mean_shift,
            "health": {} if skipped else self.method.health(batch),
            "seconds": self.team.clock() - began,
        }
        if skipped:
            record["skipped"] = self.skipped
        self.step += 1
        return record, signal

    def _agree(self, values: dict[str, float], batch: Batch, stop: StopRequest) -> int:
        """Stop every process if one of them must: on a loss that is not finite, or on a signal.

        In fp16 such a loss is an overflow, which the scaler answers by skipping the step.
        """
        finite = all(map(math.isfinite, values.values()))
        broken = not finite and not self.scaler.is_enabled()
        rank, signal = self.team.largest([self.team.rank + 1 if broken else 0, stop.signal])
        if broken:
            terms = ", ".join(f"{name} {value:g}" for name, value in values.items())
            raise UserError(
                f"step {self.step}: the loss is not finite ({terms}) on cases "
                f"{', '.join(batch.cases)}; look at these scans, or lower optimizer.lr"
            )
        if rank:
            raise UserError(
                f"step {self.step}: stopped, since the loss of rank {rank - 1} is not finite"
            )
        return signal

    def _kept_buffers(self) -> list[Tensor]:
        """Copies of statistics, banks and thresholds, which a pass that overflows would spoil."""
        return [b.clone() for b in self.method.buffers()] if self.scaler.is_enabled() else []

    def _restore(self, buffers: list[Tensor], batch: Batch) -> None:
        """Undo a step that was skipped; end the run if too many in a row were."""
        with torch.no_grad():
            for buffer, before in zip(self.method.buffers(), buffers, strict=True):
                buffer.copy_(before)
        self.skipped += 1
        if self.skipped >= MOST_SKIPPED:
            raise UserError(
                f"step {self.step}: the last {self.skipped} steps overflowed in fp16 and were "
                f"skipped, this one on cases {', '.join(batch.cases)}; use "
                "training.precision=bf16 or fp32, or lower optimizer.lr"
            )

    def _descend(self, loss: Tensor) -> bool:
        """One step of the optimizer; true where the scaler has skipped it."""
        scale = self.scaler.get_scale()
        self.scaler.scale(loss).backward()
        limit = self.config.optimizer.clip_norm
        if limit is not None:
            self.scaler.unscale_(self.optimizer)
            for group in self.optimizer.param_groups:
                nn.utils.clip_grad_norm_(group["params"], limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale() < scale  # it is lowered after an overflow alone

    def _set_rate(self) -> float:
        settings = self.config.optimizer
        left = 1 - self.step / self.config.training.steps
        rate = float(settings.lr * left**settings.poly_power)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("rate_factor", 1.0)
        return rate

    def _autocast(self) -> torch.autocast:
        dtype = self.arrangement.dtype
        return torch.autocast(self.team.device.type, dtype=dtype, enabled=dtype is not None)

    def _due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.config.training.steps

    def _validate(self, validate: Validate) -> Record:
        """Score the cases that choose; the best checkpoint so far is kept as `best.pt`."""
        if not self.team.leads:
            return {}
        with evaluating(self.method):
            scores = validate(self.method)
        if self.best is None or scores["dice"] > self.best:
            self.best = scores["dice"]
            self._save("best.pt")
        return {self.config.training.select_on: scores}

    def _save(self, name: str) -> None:
        if self.team.leads:
            state = {
                "method": self.method.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "step": self.step,
                "best": self.best,
            }
            save_checkpoint(self.folder / name, self.identity | state)


def step_seed(seed: int, step: int, rank: int) -> int:
    """A seed for torch's generators at one step of one process."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0])
