"""Short runs that start from other weights, for what tests compare."""

from pathlib import Path

import pytest
import torch

from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.runs.folder import load_checkpoint
from tracoco.training import trainer as training
from tracoco.training.train import train

SHORT = ["network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]", "training.save_every=1"]


def start(
    project: Project, out: Path, *settings: str, steps: int = 2, **options: object
) -> dict[str, torch.Tensor]:
    """Train a little; the weights that it ended with."""
    config = load_config(None, [*SHORT, f"training.steps={steps}", *settings])
    train(project, config, out, device="cpu", **options)  # type: ignore[arg-type]  # as given
    return dict(load_checkpoint(out / "last.pt")["method"])


def first_weights(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, torch.Tensor]]:
    """The weights of each method before its first step, and the number of that step."""
    seen: list[dict[str, torch.Tensor]] = []
    fit = training.Trainer.fit

    def noted(trainer: training.Trainer, *arguments: object, **more: object) -> object:
        state = {name: value.clone() for name, value in trainer.method.state_dict().items()}
        seen.append(state | {"step": torch.tensor(trainer.step)})
        return fit(trainer, *arguments, **more)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(training.Trainer, "fit", noted)
    return seen


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(first[name], value) for name, value in second.items())
