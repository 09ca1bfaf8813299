"""The examples run, and do what they say."""

import re
import runpy
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch
from examples.monai_crop_pairs import RandCropPaird, make_loader
from examples.plain_pytorch_loop import train
from monai.transforms import Compose

import tracoco as tc

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_plain_loop_learns_the_structure(capsys: pytest.CaptureFixture[str]) -> None:
    assert train(steps=1) < 0.3
    assert train(steps=25) > 0.6
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("step 24: supervised ")
    assert all(name in last for name in ("crc", "translation", "entropy"))


def test_the_monai_example_runs_as_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "monai_crop_pairs.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("translation" in line for line in lines)


def test_the_transform_crops_image_and_label_in_the_same_places() -> None:
    volume = torch.arange(20.0**3).reshape(1, 20, 20, 20)
    crop = Compose([RandCropPaird(["image", "label"], (8, 8, 8))])
    crop.set_random_state(seed=3)
    found = crop({"image": volume, "label": -volume})
    here, there = found["overlap"]
    assert torch.equal(found["label"], -found["image"])
    assert torch.equal(found["label_second"], -found["image_second"])
    assert torch.equal(found["image"][:, *here.slices], found["image_second"][:, *there.slices])
    assert not torch.equal(found["image"], found["image_second"])
    again = crop({"image": volume, "label": -volume})
    assert not torch.equal(again["image"], found["image"])
    crop.set_random_state(seed=3)
    assert torch.equal(crop({"image": volume, "label": -volume})["image"], found["image"])


def test_batches_of_the_loader_have_an_overlap_for_each_pair() -> None:
    case = {"image": torch.rand(1, 12, 12, 12), "label": torch.zeros(1, 12, 12, 12)}
    (batch,) = make_loader([case, case], (8, 8, 8))
    assert batch["image"].shape == batch["image_second"].shape == (2, 1, 8, 8, 8)
    for index, (here, there) in enumerate(batch["overlap"].boxes):
        first = batch["image"][index][:, *here.slices]
        assert torch.equal(first, batch["image_second"][index][:, *there.slices])


def test_the_snippets_of_the_guide_run() -> None:
    page = EXAMPLES.parent / "docs" / "how-to" / "own-training-loop.md"
    section = page.read_text(encoding="utf-8")
    blocks = [block.group() for block in re.finditer(r"(?:^    .*\n)+", section, re.MULTILINE)]
    assert len(blocks) == 2
    convolution = partial(torch.nn.Conv3d, 1, 2, 3, padding=1)
    volume = torch.rand(1, 20, 20, 20)
    names: dict[str, Any] = {
        "tc": tc,
        "volume": volume,
        "network": convolution(),
        "peer": convolution(),
        "make_network": convolution,
        "pairs": [tc.crop_pair(volume, (8, 8, 8)) for _ in range(4)],
        "labels": torch.ones(2, 8, 8, 8),
        "optimizer": torch.optim.SGD([torch.zeros(1)]),
        "crops": volume[None],
    }
    for block in blocks:
        code = dedent(block).replace("64", "8").replace("1000", "2")
        exec(code, names)  # noqa: S102 - what the guide shows
    assert names["peer_loss"].requires_grad
    assert names["probability"].shape == (1, 2, 20, 20, 20)
