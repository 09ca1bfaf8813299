"""Windows are as large as the network and the memory allow, and answers stay what they were."""

from collections.abc import Callable
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from samples import StandIn
from torch import Tensor, nn

from tracoco.config import InferenceConfig
from tracoco.geometry import Size
from tracoco.inference.any_size import window_needs
from tracoco.inference.predictor import Predictor
from tracoco.inference.sliding_window import chosen_cover, predict_volume
from tracoco.inference.windows import Demand, window_places
from tracoco.methods.method import evaluating
from tracoco.networks import build_network
from tracoco.networks.network import Decoder, Encoder, Network
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.training.step_cost import PeakMemory
from tracoco.training.train import train

AUTO = InferenceConfig(window="auto")


class Trained(StandIn):
    """A method of one network, which a test brings."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def inference_network(self) -> nn.Module:
        return self.network


class Near(Network):
    """Sees two voxels to each side, and halves nothing but the pairs of its stride."""

    dimensions = 3

    def __init__(self) -> None:
        torch.manual_seed(0)
        first = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU())
        head = nn.Conv3d(4, 2, 3, padding=1)
        nothing: Any = nn.Identity()
        super().__init__(Encoder([first]), nothing, head, (4, 4))

    def make_decoder(self, up: object) -> Decoder:
        raise AssertionError(f"no decoder for {up} is needed")


def network(name: str, dimensions: int, crop: Size = (16, 16, 16), **settings: object) -> nn.Module:
    torch.manual_seed(0)
    common = {"channels": 1, "classes": 2, "dimensions": dimensions, "filters": 4, "crop": crop}
    return build_network(name, **common, **settings).eval()  # type: ignore[arg-type]  # by name


def batch_unet(dimensions: int) -> Trained:
    return Trained(network("light-unet", dimensions, normalisation="batch"))


def test_a_whole_scan_is_one_window_as_long_as_the_stride_allows() -> None:
    # Three halvings: 35 becomes 40, 48 stays; 9 is less than the crop, which stays the least.
    cover = chosen_cover(batch_unet(3), (35, 48, 9), (16, 16, 16), AUTO)
    assert cover.window == (40, 48, 16)


def test_slices_are_whole_and_stay_slices() -> None:
    cover = chosen_cover(batch_unet(2), (7, 35, 12), (1, 16, 16), AUTO)
    assert cover.window == (1, 40, 16)
    seen = []

    def note(crops: Tensor) -> Tensor:
        seen.append(tuple(crops.shape))
        return torch.cat([1 - crops, crops], dim=1)

    volume = torch.rand(1, 7, 35, 12)
    torch.testing.assert_close(predict_volume(note, volume, *cover)[1], volume[0])
    assert seen == [(2, 1, 40, 16)] * 3 + [(1, 1, 40, 16)]


@pytest.mark.parametrize(
    ("name", "dimensions", "settings"),
    [
        ("light-unet", 3, {"normalisation": "instance"}),
        ("light-unet", 2, {"normalisation": "instance"}),
        ("unet", 3, {}),  # instance normalisation
        ("unet", 2, {}),  # interpolates with aligned corners
        ("transunet", 2, {}),
    ],
)
def test_networks_that_see_the_size_of_a_window_keep_the_crop(
    name: str, dimensions: int, settings: dict[str, Any]
) -> None:
    method = Trained(network(name, dimensions, **settings))
    crop = (16, 16, 16) if dimensions == 3 else (1, 16, 16)
    config = AUTO
    assert chosen_cover(method, (40, 40, 40), crop, config) == (crop, config, crop)


def test_networks_of_others_and_of_no_kind_keep_the_crop() -> None:
    config, crop = AUTO, (16, 16, 16)
    assert chosen_cover(StandIn(), (40, 40, 40), crop, config).window == crop
    pytest.importorskip("monai")
    method = Trained(network("monai:AttentionUnet", 3))
    assert chosen_cover(method, (40, 40, 40), crop, config).window == crop


@pytest.mark.parametrize("settings", [{}, {"window": "auto", "stride": (8, 8, 8)}])
def test_settings_keep_the_crop(settings: dict[str, object]) -> None:
    config = InferenceConfig.model_validate(settings)
    crop = (16, 16, 16)
    assert chosen_cover(batch_unet(3), (40, 40, 40), crop, config) == (crop, config, crop)


def test_a_vnet_may_have_large_windows() -> None:
    method = Trained(network("vnet", 3))
    assert chosen_cover(method, (40, 40, 20), (16, 16, 16), AUTO).window == (
        48,
        48,
        32,
    )


def test_too_little_memory_splits_a_scan_evenly() -> None:
    method, crop, shape = batch_unet(3), (16, 16, 16), (96, 48, 48)
    voxel = window_needs([method.network]).voxel_bytes  # type: ignore[list-item]  # one of ours
    # Two parts of the longest axis, with 8 voxels in common: (96 + 8) / 2 = 52, that is 56.
    half = InferenceConfig(window="auto", memory_gb=1.2 * 56 * 48 * 48 * voxel / 1e9)
    cover = chosen_cover(method, shape, crop, half)
    assert (cover.window, cover.config.batch) == ((56, 48, 48), 1)
    places = window_places(shape, *cover[:2])
    assert [box.start for box in places] == [(0, 0, 0), (40, 0, 0)]
    # With next to nothing, windows are the crop's.
    cover = chosen_cover(method, shape, crop, InferenceConfig(window="auto", memory_gb=1e-6))
    assert cover.window == crop
    assert window_places(shape, *cover[:2]) == window_places(shape, crop, InferenceConfig())


@given(
    shape=st.tuples(*[st.integers(1, 120)] * 3),
    overlap=st.sampled_from([0.0, 0.25, 0.5, 0.75]),
    memory=st.floats(1e-6, 0.2),
)
def test_windows_are_within_memory_or_the_crops_and_cover_all(
    shape: Size, overlap: float, memory: float
) -> None:
    method, crop = METHOD, (16, 16, 16)
    config = InferenceConfig(window="auto", overlap=overlap, memory_gb=memory)
    window, told, _ = chosen_cover(method, shape, crop, config)
    assert all(n % 8 == 0 and n >= 16 for n in window)
    shared = tuple(round(16 * overlap) for _ in crop)
    demand = Demand(shape, window_needs([method.network]))  # type: ignore[list-item]  # one of ours
    assert demand.bytes_for(window) <= memory * 1e9 or window == crop
    assert 1 <= told.batch <= config.batch
    padded = tuple(map(max, shape, window))
    boxes = window_places(padded, window, told)
    for axis in range(3):
        starts = sorted({box.start[axis] for box in boxes})
        assert starts[0] == 0
        assert starts[-1] == padded[axis] - window[axis]
        gaps = [b - a for a, b in pairwise(starts)]
        assert all(gap <= window[axis] - shared[axis] for gap in gaps)


METHOD = batch_unet(3)


@pytest.mark.parametrize(
    ("name", "dimensions"), [("light-unet", 3), ("light-unet", 2), ("vnet", 3)]
)
@pytest.mark.parametrize("filters", [4, 16])
def test_the_estimate_is_above_the_counted_memory(name: str, dimensions: int, filters: int) -> None:
    size = (64, 64, 32)[:dimensions]
    built = build_network(name, channels=1, classes=4, dimensions=dimensions, filters=filters)
    assert isinstance(built, Network)
    memory = PeakMemory()
    empty, crops = memory.without_values(built.eval()), memory.make(torch.empty, 1, 1, *size)
    with torch.no_grad(), memory:
        empty(crops).float().softmax(dim=1)
    estimate = window_needs([built]).voxel_bytes * prod(size)
    assert memory.peak_bytes <= estimate <= 2.5 * memory.peak_bytes


def predictions(method: Trained, volume: Tensor, crop: Size, config: InferenceConfig) -> Tensor:
    cover = chosen_cover(method, volume.shape[1:], crop, config)
    with evaluating(method):
        return predict_volume(method.predict, volume, *cover)


def inner(border: int) -> Callable[[Tensor], Tensor]:
    return lambda maps: maps[:, border:-border, border:-border, border:-border]


def test_one_large_window_says_what_the_middles_of_small_ones_say() -> None:
    # The network sees two voxels far: in windows of 8 at every voxel, the middle 4 are exact.
    method, volume = Trained(Near()), torch.rand(1, 18, 14, 12)
    whole = predictions(method, volume, (8, 8, 8), AUTO)
    exact = torch.zeros_like(whole)
    with evaluating(method):
        for box in window_places((18, 14, 12), (8, 8, 8), InferenceConfig(stride=(4, 2, 4))):
            middle = (slice(2, 6),) * 3
            place = tuple(slice(start + 2, start + 6) for start in box.start)
            exact[:, *place] = method.predict(volume[None, :, *box.slices])[0][:, *middle]
    torch.testing.assert_close(inner(2)(whole), inner(2)(exact))


def test_split_windows_say_what_one_says_but_for_their_borders() -> None:
    method, volume = Trained(Near()), torch.rand(1, 64, 16, 16)
    whole = predictions(method, volume, (8, 8, 8), AUTO)
    config = InferenceConfig(window="auto", memory_gb=1.6e-3, overlap=0.5)
    cover = chosen_cover(method, volume.shape[1:], (8, 8, 8), config)
    assert len(window_places((64, 16, 16), *cover[:2])) > 1
    split = predictions(method, volume, (8, 8, 8), config)
    assert 0 < (split - whole).abs().max() < 0.05
    same = (split - whole).abs().amax(dim=(0, 2, 3)) < 1e-5
    assert same.float().mean() > 0.5


@pytest.mark.parametrize("normalisation", ["batch", "instance"])
def test_a_run_of_an_older_version_predicts_as_before(
    project: Project, tmp_path: Path, normalisation: str
) -> None:
    run = tmp_path / "run"
    changes = ["method.name=supervised", "training.steps=2", "data.crop=[16, 16, 16]"]
    changes += ["network.filters=4", "data.workers=0", f"network.normalisation={normalisation}"]
    changes += ["inference.window=auto"]
    train(project, load_config(None, changes), run, device="cpu")
    image = project.load_cases()[0].images[0]
    now = Predictor.load(run, device="cpu")
    settings = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    assert settings["inference"].pop("window") == "auto"
    del settings["inference"]["memory_gb"]
    (run / "config.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    old = Predictor.load(run, device="cpu")
    assert (old.config.window, old.cover((40, 40, 40)).window) == ("crop", (16, 16, 16))
    wide = normalisation == "batch"
    assert now.cover((40, 40, 40)).window == ((40, 40, 40) if wide else (16, 16, 16))
    maps = [each(image, maps=["probability"]).maps["probability"].levels for each in (old, now)]
    assert (maps[0] != maps[1]).any() == wide
