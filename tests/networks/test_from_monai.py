"""Networks of MONAI behind the same `build_network`, and what a user is told where one fails."""

import re
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.networks import build_network, check_crop, from_monai
from tracoco.networks.from_monai import Needs, build_monai, monai_class
from tracoco.networks.network import with_features

pytest.importorskip("monai")

SIZES = {2: (32, 48), 3: (32, 16, 16)}


def build(name: str, crop: tuple[int, ...], *, filters: int = 8, **options: Any) -> nn.Module:
    return build_network(
        f"monai:{name}",
        channels=2,
        classes=3,
        dimensions=len(crop),
        filters=filters,
        options=options,
        crop=crop,
    )


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize(
    "name", ["AttentionUnet", "BasicUNetPlusPlus", "DynUNet", "SegResNet", "UNet", "UNETR"]
)
def test_logits_come_out_at_the_size_of_the_crop_and_teach_every_weight(
    name: str, dimensions: int
) -> None:
    torch.manual_seed(0)
    network = build(name, SIZES[dimensions])
    assert network.training
    logits = network(torch.randn(2, 2, *SIZES[dimensions]))
    assert logits.shape == (2, 3, *SIZES[dimensions])
    logits.square().mean().backward()
    # Heads of the nested UNet and norms of UNETR that nothing uses are not to learn.
    idle = {"BasicUNetPlusPlus": 6, "UNETR": 24}.get(name, 0)
    assert sum(not weight.requires_grad for weight in network.parameters()) == idle
    assert all((p.grad is not None) == p.requires_grad for p in network.parameters())


def test_the_dynamic_network_is_an_nnunet() -> None:
    # 32 x 16 x 16: two halvings of all, one more of the first. Widths 8, 16, 32, 64.
    network = build("DynUNet", (32, 16, 16))
    kinds = {type(part) for part in network.modules()}
    assert {nn.InstanceNorm3d, nn.LeakyReLU, nn.ConvTranspose3d} <= kinds
    assert nn.BatchNorm3d not in kinds
    coarsest = network.get_submodule("bottleneck.conv1.conv")
    assert isinstance(coarsest, nn.Conv3d)
    assert coarsest.out_channels == 64
    assert coarsest.stride == (2, 1, 1)


@pytest.mark.parametrize("crop", [(36, 20, 7), (50, 44), (16, 16, 4)])
def test_the_dynamic_network_fits_itself_to_odd_crops(crop: tuple[int, ...]) -> None:
    assert build("DynUNet", crop, filters=4)(torch.zeros(1, 2, *crop)).shape == (1, 3, *crop)


def test_options_reach_the_network() -> None:
    shallow = build("SegResNet", (16, 16), blocks_down=[1, 1], blocks_up=[1])
    deep = build("SegResNet", (16, 16))
    assert len(list(shallow.parameters())) < len(list(deep.parameters()))
    norm = build("DynUNet", (16, 16), norm_name=["GROUP", {"num_groups": 4}])
    assert any(isinstance(part, nn.GroupNorm) for part in norm.modules())


def test_one_seed_gives_one_network_and_the_trial_leaves_no_trace() -> None:
    states = []
    for _ in range(2):
        torch.manual_seed(0)
        states.append(build("SegResNetDS", (16, 16, 16)).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    counts = [value for key, value in states[0].items() if key.endswith("num_batches_tracked")]
    assert counts
    assert not any(counts)


def test_without_monai_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "monai.networks.nets", None)
    message = "network 'monai:UNet' needs MONAI: pip install 'tracoco[monai]'"
    for refuse in (lambda: check_crop("monai:UNet", (16, 16)), lambda: build("UNet", (16, 16))):
        with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
            refuse()


@pytest.mark.parametrize("name", ["SegResnt", "monai", "Sequence", "__name__"])
def test_a_name_that_is_no_network_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"MONAI has no network '{name}'"):
        check_crop(f"monai:{name}", (16, 16))


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(UserError, match=r"did you mean 'SegResNet'\?"):
        monai_class("monai:SegResnt")


def test_a_network_of_other_dimensions_is_refused() -> None:
    with pytest.raises(UserError, match=r"'monai:HoVerNet' is not for 3D; .* 'monai:DynUNet'"):
        build("HoVerNet", (32, 32, 32))


def test_arguments_that_do_not_fit_are_listed_with_the_reason() -> None:
    pattern = r"cannot be built .* with init_filters=4, .*: num_channels \(4\) must be divisible by"
    with pytest.raises(UserError, match=pattern):
        build("SegResNet", (16, 16), filters=4)


def test_a_crop_that_does_not_fit_is_refused_before_training() -> None:
    pattern = r"'monai:SegResNet' cannot take crop \(36, 32\): .*10.*9.*; set data.crop to "
    with pytest.raises(UserError, match=pattern):
        build("SegResNet", (36, 32))


def test_a_crop_of_which_one_voxel_is_left_to_normalise_is_refused() -> None:
    with pytest.raises(UserError, match=r"crop \(16, 16, 16\): Expected more than 1 spatial"):
        build("BasicUNet", (16, 16, 16))


@pytest.mark.parametrize(
    ("name", "options", "got"),
    [
        ("DenseNet121", {}, r"\(1, 3\)"),
        ("SegResNetVAE", {}, "a tuple"),
        ("DynUNet", {"deep_supervision": True}, r"\(1, 2, 3, 64, 64\)"),
    ],
)
def test_anything_but_one_tensor_of_logits_is_refused(
    name: str, options: dict[str, Any], got: str
) -> None:
    with pytest.raises(UserError, match=rf"gives {got} for crop .* logits \(1, 3, 64, 64\)"):
        build(name, (64, 64), **options)


def test_a_method_that_needs_features_cannot_have_them() -> None:
    with pytest.raises(UserError, match=r"'cac' needs the feature maps .* UNet does not give"):
        with_features(build("UNet", (16, 16)), "cac")


def test_a_network_is_not_built_without_a_crop() -> None:
    with pytest.raises(ValueError, match="is built for a 3D crop, not for None"):
        build_network("monai:UNet", channels=1, classes=2, dimensions=3, filters=4)


class NotOnMeta(nn.Module):
    """Looks at a value, which the meta device does not have; counts what it is given."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(in_channels)
        self.head = nn.Conv2d(in_channels, out_channels, 1)

    def forward(self, crops: Tensor) -> Tensor:
        logits: Tensor = self.head(self.norm(crops))
        return logits if logits.mean().item() < 1e6 else logits * 0


def test_a_network_that_the_meta_device_cannot_run_is_tried_with_zeros(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(from_monai, "monai_class", lambda _: NotOnMeta)
    network = build_monai("monai:NotOnMeta", Needs(2, 3, 4, (8, 8)), {})
    assert isinstance(network, NotOnMeta)
    assert network.norm.num_batches_tracked is not None
    assert network.norm.num_batches_tracked.item() == 0


def test_a_missing_package_of_monais_own_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def needy(in_channels: int, out_channels: int) -> nn.Module:
        raise ImportError(f"No module named 'einops' for {in_channels} and {out_channels}.\nMore.")

    monkeypatch.setattr(from_monai, "monai_class", lambda _: needy)
    pattern = "'monai:X' needs another package, install it: No module named 'einops' for 2 and 3$"
    with pytest.raises(UserError, match=pattern):
        build_monai("monai:X", Needs(2, 3, 4, (8, 8)), {})
