"""The one loop. It knows loss terms by name and nothing of the method that made them."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tracoco.config import Config
from tracoco.data.batch import Batch
from tracoco.errors import Stopped, UserError
from tracoco.methods.health import PseudoLabelHealth
from tracoco.methods.method import Method, StepOutput, evaluating
from tracoco.processes import StopRequest
from tracoco.runs.facts import Ending
from tracoco.runs.folder import (
    Checkpoint,
    check_identity,
    load_checkpoint,
    save_checkpoint,
    supervised_weights,
)
from tracoco.runs.log import StepRecord
from tracoco.training import contract
from tracoco.training.acceleration import Acceleration, accelerate
from tracoco.training.distributed import Process
from tracoco.training.fit_result import FitResult
from tracoco.training.logger import RunLogger
from tracoco.training.optimizer import (
    AveragedWeights,
    OverflowGuard,
    build_optimizer,
    learning_rate,
)
from tracoco.training.pseudo_label_monitor import UnlabelledWeight, structure_overlaps

Validate = Callable[[Method], float]
"""Gives the mean Dice of the cases that choose the best checkpoint."""


class Trainer:
    """A method, its optimizer, and the folder that keeps them safe."""

    def __init__(  # noqa: PLR0913 - each is given by its name
        self,
        method: Method,
        config: Config,
        folder: Path,
        process: Process,
        *,
        identity: Checkpoint,
        acceleration: Acceleration | None = None,
        labelled_fractions: Mapping[str, float] | None = None,
    ) -> None:
        """Put the parts of a run together.

        Args:
            method: with its first weights.
            config: the settings.
            folder: of the run.
            process: this process and its device.
            identity: is carried by every checkpoint and must be the same when it is resumed.
            acceleration: how the method was accelerated; if not given, it is accelerated here.
            labelled_fractions: of each class, background first; for the adaptive weight.
        """
        self.acceleration = acceleration or accelerate(method, config.training, process.device)
        self.method = method.to(process.device)
        self.config, self.folder, self.process, self.identity = config, folder, process, identity
        self.optimizer = build_optimizer(
            method, config.optimizer, fused=self.acceleration.fused_optimizer
        )
        self.scaler = torch.amp.GradScaler(
            process.device.type, enabled=self.acceleration.precision == "fp16"
        )
        self.overflow = OverflowGuard(method, self.scaler)
        adaptive = config.training.unlabelled_weight == "adaptive" and config.data.batch[1]
        self.class_names = tuple(labelled_fractions or ())
        fractions = tuple((labelled_fractions or {}).values())
        self.unlabelled = UnlabelledWeight(fractions) if adaptive and method.adaptive else None
        self.step = 0
        self.best: float | None = None
        self.unvalidated: StepRecord | None = None
        if self.acceleration.compile:  # the networks, since a loss slices another overlap each step
            for network in method.trained_networks():
                network.compile()
        self.wrapped: Callable[[Batch, int], StepOutput] = process.wrap(
            self.method, idle_networks=method.idle_networks
        )
        decay = config.training.ema_decay  # once all processes have the same weights
        self.averaged = AveragedWeights(self.method, decay) if decay else None

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        path = self.folder / "last.pt"
        if not path.exists():
            return
        checkpoint = load_checkpoint(path, self.process.device)
        check_identity(checkpoint, self.identity, path)
        self._restore(checkpoint)
        if self.unlabelled:
            self.unlabelled.load_state_dict(checkpoint["unlabelled"])
        self.step, self.best = checkpoint["step"], checkpoint["best"]
        self.overflow.skipped = list(checkpoint.get("skipped", []))  # older ones do not have it
        if left := checkpoint.get("unvalidated"):
            self.unvalidated = StepRecord.from_json(left)

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Take over all that learns: weights, optimizer and averages."""
        self.method.load_state_dict(checkpoint["method"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        for group in self.optimizer.param_groups:  # not the device that the checkpoint is from
            group["fused"] = self.acceleration.fused_optimizer or None
        self.scaler.load_state_dict(checkpoint["scaler"])
        if self.averaged:
            self.averaged.load_state_dict(checkpoint["averaged"])

    def fit(
        self,
        batches: Iterable[Batch],
        logger: RunLogger | None,
        stop: StopRequest,
        validate: Validate | None = None,
        choose_ending: bool = True,  # noqa: FBT001, FBT002 - named by its one caller
    ) -> FitResult:
        """Take the steps left from `self.step`; `validate` chooses `best`, and maybe the ending."""
        if self.unvalidated:
            if signal := self._end_step(self.unvalidated, logger, validate, 0):
                return FitResult(self.step, signal, self.process.leads)
            self.save("last.pt")  # which asks for that validation no more
        for batch in batches:
            record, signal = self._take_step(batch.to(self.process.device), stop)
            signal = self._end_step(record, logger, validate, signal)
            if signal or self._due(self.config.training.save_every):
                self.save("last.pt")
            if signal:
                return FitResult(self.step, signal, self.process.leads)
        ended_with, signal = self._keep_the_better(validate if choose_ending else None)
        return FitResult(self.step, signal, self.process.leads, ended_with)

    def _end_step(
        self, record: StepRecord, logger: RunLogger | None, validate: Validate | None, signal: int
    ) -> int:
        """Validate if it is due, and log; a stop leaves both to the resumed run."""
        if validate and self._due(self.config.training.validate_every):
            self.unvalidated = record
            if not signal:
                record, signal = self._validate(record, validate)
            if signal:
                return signal
            self.unvalidated = None
        if logger:
            logger.write(record)
        return signal

    def _take_step(self, batch: Batch, stop: StopRequest) -> tuple[StepRecord, int]:
        """One step of the optimizer; its record, and the signal that asks to stop, or 0."""
        began = self.process.clock()
        # Noise and dropout are a function of seed, step and rank: no generator state is saved.
        torch.manual_seed(step_seed(self.config.seed, self.step, self.process.rank))
        rate = self._set_rate()
        self.method.train()
        self.method.before_step(batch, self.step)
        self.overflow.remember()
        self.optimizer.zero_grad(set_to_none=True)  # now, so that maps can have their memory
        if self.unlabelled and self.unlabelled.value == 0:
            batch = replace(batch, unlabelled_counts=False)
        name = self.config.method.name
        with self._autocast(), contract.named_failure(name, batch, self.step):
            output = self.wrapped(batch, self.step)
        terms = self._weighted(contract.checked_terms(name, output))
        values = {name: float(term.detach()) for name, term in terms.items()}
        finite, signal = self._agree(values, batch, stop)
        moved = finite and self._descend(torch.stack(list(terms.values())).sum())
        if moved:
            self.method.after_step(output, batch, self.step)
            if self.averaged:
                self.averaged.update(self.step)
        else:
            self.overflow.undo(self.step, batch.cases)
        record = StepRecord(
            step=self.step,
            loss=sum(values.values()),
            terms=values,
            rate=rate,
            shift=batch.mean_shift,
            health=self.method.health(output, batch) if moved else PseudoLabelHealth(),
            seconds=self.process.clock() - began,
            skipped=() if moved else batch.cases,
        )
        if self.unlabelled:
            record = self._watch(self.unlabelled, batch, record)
        self.step += 1
        if self.unlabelled and self.unlabelled.began == self.step:
            self.save(supervised_weights(self.step))
        return record, signal

    def _weighted(self, terms: dict[str, Tensor]) -> dict[str, Tensor]:
        """The loss terms; an adaptive weight multiplies those that do not come from labels."""
        if not self.unlabelled:
            return terms
        labelled, weight = self.method.labelled_terms, self.unlabelled.value
        contract.check_labelled_terms(self.config.method.name, terms, labelled)
        return {name: term if name in labelled else weight * term for name, term in terms.items()}

    def _watch(self, weight: UnlabelledWeight, batch: Batch, record: StepRecord) -> StepRecord:
        """Let the weight of unlabelled crops follow what this step shows; the record with it.

        The weights that predict are asked for the labelled crops. All processes decide alike.
        """
        used = weight.record()
        weight.see(record.health)
        due = weight.due(self.step)
        if due:
            labelled = slice(batch.labelled_count)
            with self._as_predicting():
                found = self.method.predict(batch.first.values[labelled])
            overlaps = structure_overlaps(found, batch.labels, batch.first.valid[labelled])
            figures = self.process.mean_of_some(weight.mean_figures())
            weight.decide(self.step, self.process.mean(overlaps), figures)
            if weight.lost:
                path = self.folder / supervised_weights(weight.supervised_until)
                self._restore(load_checkpoint(path, self.process.device))
        return replace(
            record,
            unlabelled=used,
            restrained=tuple(self.class_names[index] for index in weight.fading),
            lost=tuple(self.class_names[index] for index in weight.lost) if due else (),
        )

    @contextmanager
    def _as_predicting(self) -> Iterator[None]:
        """The method has its averaged weights in here, if there are any, and is as at test time."""
        averaged = self.averaged.applied() if self.averaged else nullcontext()
        with averaged, evaluating(self.method):
            yield

    def _agree(self, values: dict[str, float], batch: Batch, stop: StopRequest) -> tuple[bool, int]:
        """Whether the loss of every process is finite, and the signal that asks any to stop, or 0.

        A loss that is not finite ends the run, except in fp16, where it is an overflow.
        """
        broken = not all(map(math.isfinite, values.values()))
        rank, signal = self.process.largest([self.process.rank + 1 if broken else 0, stop.signal])
        if self.scaler.is_enabled():
            return rank == 0, signal
        if broken:
            raise contract.not_finite(self.config.method.name, self.step, values, batch)
        if rank:
            raise UserError(
                f"step {self.step}: stopped, since the loss of rank {rank - 1} is not finite"
            )
        return True, signal

    def _descend(self, loss: Tensor) -> bool:
        """One step of the optimizer; false where a gradient overflowed and the scaler skips it."""
        scale = self.scaler.get_scale()
        self.scaler.scale(loss).backward()
        limit = self.config.optimizer.clip_norm
        if limit is not None:
            self.scaler.unscale_(self.optimizer)
            for group in self.optimizer.param_groups:
                nn.utils.clip_grad_norm_(group["params"], limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return self.scaler.get_scale() >= scale  # it is lowered after an overflow alone

    def _set_rate(self) -> float:
        training, optimizer = self.config.training, self.config.optimizer
        rate = learning_rate(self.step, training.length, optimizer, self.method.pretrain_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("rate_factor", 1.0)
        return rate

    def _autocast(self) -> torch.autocast:
        dtype = self.acceleration.dtype
        return torch.autocast(self.process.device.type, dtype=dtype, enabled=dtype is not None)

    def _due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.config.training.length

    def _validate(self, record: StepRecord, validate: Validate) -> tuple[StepRecord, int]:
        """Add the score of the cases that choose, and keep the best; a signal cuts this short."""
        dice, signal = self._scored(validate) if self.process.leads else (None, 0)
        (signal,) = self.process.largest([signal])
        if dice is None:
            return record, signal
        if self.best is None or dice > self.best:
            self.best, self.unvalidated = dice, None
            self.save("best.pt")
        if self.config.training.select_on == "test":
            return replace(record, test_dice=dice), 0
        return replace(record, validation_dice=dice), 0

    def _scored(self, validate: Validate) -> tuple[float | None, int]:
        """The mean Dice by the weights that predict, or the signal that cut this short."""
        try:
            with self._as_predicting():
                return validate(self.method), 0
        except Stopped as stopped:
            return None, stopped.signal

    def _keep_the_better(self, validate: Validate | None) -> tuple[Ending | None, int]:
        """End with the weights of the supervised part where these validate better, if any.

        Also the signal that cut this short: a resumed run begins here then.
        """
        until = self.unlabelled.supervised_until if self.unlabelled else None
        if not self.process.leads or self.averaged is None or until is None or validate is None:
            return None, 0
        path = self.folder / supervised_weights(until)
        last, signal = self._scored(validate)
        if last is None:
            return None, signal
        latest = {name: value.clone() for name, value in self.averaged.state_dict().items()}
        self.averaged.load_state_dict(load_checkpoint(path, self.process.device)["averaged"])
        supervised, signal = self._scored(validate)
        ending = None if supervised is None else Ending(supervised, last)
        if ending and ending.supervised:
            self.save("last.pt")
        else:
            self.averaged.load_state_dict(latest)
        return ending, signal

    def save(self, name: str) -> None:
        """Write all that the run needs to go on from here; the process that leads does it."""
        if self.process.leads:
            state = {
                "method": self.method.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "step": self.step,
                "best": self.best,
                "skipped": self.overflow.skipped,
            }
            if self.unvalidated:
                state["unvalidated"] = self.unvalidated.to_json()
            if self.unlabelled:
                state["unlabelled"] = self.unlabelled.state_dict()
            if self.averaged:
                state["averaged"] = self.averaged.state_dict()
            save_checkpoint(self.folder / name, self.identity | state)


def step_seed(seed: int, step: int, rank: int) -> int:
    """A seed for torch's generators at one step of one process."""
    return int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0])
