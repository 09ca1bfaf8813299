"""Masked autoencoder: which voxels are hidden, what counts, and what a run of it is for."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from samples import make_batch, make_method
from typer.testing import CliRunner

from tracoco.cli import app
from tracoco.data.batch import Batch
from tracoco.errors import UserError
from tracoco.inference.predictor import Predictor
from tracoco.methods.masked_autoencoder import (
    MaskedAutoencoder,
    block_masks,
    reconstruction_loss,
)
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.reporting.page import write_report
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log
from tracoco.training.train import train

SHORT = ["network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]", "training.steps=3"]
PRETRAINED = [*SHORT, "method.name=masked-autoencoder"]


def autoencoder(dimensions: int = 3) -> MaskedAutoencoder:
    method = make_method("masked-autoencoder", dimensions)
    assert isinstance(method, MaskedAutoencoder)
    return method


def test_the_loss_is_the_mean_square_over_hidden_voxels_and_channels() -> None:
    crops = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[0.0, 0.0], [0.0, 2.0]]]])  # [1, 2, 2, 2]
    made = torch.tensor([[[[9.0, 0.0], [3.0, 1.0]], [[9.0, 1.0], [0.0, 2.0]]]])
    counted = torch.tensor([[[False, True], [False, True]]])
    # Two voxels of two channels: (4 + 1) / 2 and (9 + 0) / 2.
    torch.testing.assert_close(reconstruction_loss(made, crops, counted), torch.tensor(3.5))
    assert reconstruction_loss(made, crops, counted & False) == 0


@pytest.mark.parametrize(
    ("size", "block", "side", "hidden"),
    [
        ((32, 32), 8, 8, 12),
        ((32, 32), 16, 8, 12),  # at most a quarter of the crop
        ((16, 16, 16), 16, 4, 48),
        ((64, 64, 64), 16, 16, 48),
    ],
)
def test_whole_blocks_are_hidden_as_many_in_each_crop(
    size: tuple[int, ...], block: int, side: int, hidden: int
) -> None:
    torch.manual_seed(0)
    masks = block_masks(3, size, block, 0.75)
    assert masks.shape == (3, *size)
    assert masks.dtype == torch.bool
    corners = masks[:, *([slice(None, None, side)] * len(size))]
    spread = corners
    for axis in range(1, len(size) + 1):
        spread = spread.repeat_interleave(side, dim=axis)
    assert torch.equal(spread, masks)
    assert corners.flatten(1).sum(dim=1).tolist() == [hidden] * 3
    assert not torch.equal(masks[0], masks[1])


def test_blocks_are_cut_off_at_the_end_and_never_all_or_none_is_hidden() -> None:
    assert block_masks(2, (10, 7), 3, 0.5).shape == (2, 10, 7)
    for ratio in (0.01, 0.99):
        masks = block_masks(4, (6, 6), 16, ratio).flatten(1)
        assert masks.any(dim=1).all()
        assert not masks.all(dim=1).any()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_neither_labels_nor_padding_count_and_hidden_voxels_are_not_seen(dimensions: int) -> None:
    method, batch = autoencoder(dimensions).eval(), make_batch(dimensions)

    def loss(given: Batch) -> float:
        torch.manual_seed(3)
        return float(method(given, 0).terms["reconstruction"].detach())

    known = loss(batch)
    assert loss(replace(batch, labels=1 - batch.labels)) == known
    torch.manual_seed(3)
    hidden = block_masks(4, batch.first.values.shape[2:], 16, 0.75)
    # The loss by hand, from what the network makes of crops without their hidden voxels.
    crops = batch.first.values
    with torch.no_grad():
        made = method.reconstruct(method.network(crops * ~hidden.unsqueeze(1)))
    by_hand = (made - crops)[hidden.unsqueeze(1)].square().mean()
    assert known == pytest.approx(float(by_hand), rel=1e-5)
    # What is hidden and padding may be anything.
    padding = torch.zeros_like(hidden)
    padding[1, :4] = True
    padded = replace(batch.first, valid=~padding)
    changed = torch.where((hidden & padding).unsqueeze(1), 100.0, crops)
    assert (hidden & padding).any()
    first, second = replace(padded, values=crops), replace(padded, values=changed)
    assert loss(replace(batch, first=first)) == loss(replace(batch, first=second))
    assert loss(replace(batch, first=replace(batch.first, values=changed))) != known


def test_all_crops_teach_encoder_decoder_and_its_head_alone() -> None:
    method = autoencoder()
    assert not [name for name, _ in method.named_parameters() if name.startswith("network.head")]
    method(make_batch(), 0).terms["reconstruction"].backward()
    assert all(parameter.grad is not None for parameter in method.parameters())


@pytest.fixture(scope="module")
def pretrained(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "features"
    train(project, load_config(None, PRETRAINED), out, device="cpu")
    return out


def test_a_run_is_not_validated_and_its_loss_counts_from_the_first_step(pretrained: Path) -> None:
    log = read_log(RunFolder(pretrained).log_file)
    assert len(log) == 3
    assert all(record.terms["reconstruction"] > 0 for record in log)
    assert all(record.validation_dice is None and record.unlabelled is None for record in log)
    assert not RunFolder(pretrained).checkpoint("best").exists()


def test_to_predict_is_refused_with_the_next_command(pretrained: Path, tmp_path: Path) -> None:
    named = f"tracoco train PROJECT --method tracoco --init-from {pretrained}"
    with pytest.raises(UserError, match="learns features and no segmentation") as refused:
        Predictor.load(pretrained, device="cpu")
    assert named in str(refused.value)
    line = ["predict", str(pretrained), str(tmp_path), str(tmp_path / "out")]
    found = CliRunner().invoke(app, line)
    assert isinstance(found.exception, UserError)
    assert not (tmp_path / "out").exists()
    page = write_report(pretrained).read_text(encoding="utf-8")
    assert named in page
    assert "tracoco predict" not in page


def test_the_command_ends_with_what_comes_next(project: Project, tmp_path: Path) -> None:
    settings = [part for each in SHORT for part in ("--set", each)]
    line = ["train", str(project.root), "--method", "masked-autoencoder", *settings]
    found = CliRunner().invoke(app, [*line, "-o", str(tmp_path / "run")])
    assert found.exit_code == 0, found.output
    last = found.stdout.splitlines()[-1]
    run = tmp_path / "run"
    assert last == f"next: tracoco train {project.root} --method tracoco --init-from {run}"


def test_a_network_without_feature_maps_is_refused(project: Project, tmp_path: Path) -> None:
    pytest.importorskip("monai")
    config = load_config(None, [*PRETRAINED, "network.name=monai:SegResNet", "network.filters=8"])
    with pytest.raises(UserError, match="'masked-autoencoder' needs the feature maps"):
        train(project, config, tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()
