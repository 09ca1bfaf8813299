"""Steps that overflow in fp16: they are undone and counted, and too many of them end the run."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tracoco.errors import UserError

WINDOW, MOST_SKIPPED = 200, 20
"""A run ends when this many of its last steps were skipped."""
SMALLEST_SCALE = 2.0**-10
"""Of the loss. Gradients that overflow even then are wrong for another reason."""


class OverflowGuard:
    """Keeps what a pass may change besides weights, so that a skipped step leaves no trace.

    An infinite activation would otherwise stay in the running statistics of BatchNorm, or in a bank
    of features, for good.
    """

    def __init__(self, method: nn.Module, scaler: torch.amp.GradScaler) -> None:
        self._method, self._scaler = method, scaler
        self._buffers: list[Tensor] = []
        self._extra: list[tuple[nn.Module, Any]] = []
        self.skipped: list[int] = []
        """Steps that were skipped lately; part of a checkpoint."""

    def remember(self) -> None:
        """Copy statistics, banks and thresholds before a pass; in fp16 alone."""
        if self._scaler.is_enabled():
            self._buffers = [buffer.clone() for buffer in self._method.buffers()]
            self._extra = [
                (part, part.get_extra_state())
                for part in self._method.modules()
                if type(part).get_extra_state is not nn.Module.get_extra_state
            ]

    @torch.no_grad()
    def undo(self, step: int, cases: Sequence[str]) -> None:
        """Put back what was copied, and end the run if such steps are too many."""
        for buffer, before in zip(self._method.buffers(), self._buffers, strict=True):
            buffer.copy_(before)
        for part, state in self._extra:
            part.set_extra_state(state)
        self.skipped = [*(old for old in self.skipped if old > step - WINDOW), step]
        if len(self.skipped) >= MOST_SKIPPED or self._scaler.get_scale() < SMALLEST_SCALE:
            raise UserError(
                f"step {step}: {len(self.skipped)} of the last {WINDOW} steps overflowed in fp16 "
                f"and were skipped, this one on cases {', '.join(cases)}; look at these scans, use "
                "training.precision=bf16 or fp32, or lower optimizer.lr"
            )
