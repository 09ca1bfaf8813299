"""Arguments by name, tried on signatures of the kinds that MONAI has; MONAI is not needed."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tracoco.errors import UserError
from tracoco.networks.from_monai import Needs, choose_arguments

FLAT = Needs(channels=1, classes=4, filters=8, crop=(16, 32))
SOLID = Needs(channels=2, classes=3, filters=8, crop=(16, 16, 32))


def choose(constructor: Callable[..., None], needs: Needs = SOLID, **options: Any) -> Any:
    return choose_arguments("monai:X", inspect.signature(constructor).parameters, needs, options)


def plain(spatial_dims: int, in_channels: int, out_channels: int, norm: str = "batch") -> None: ...
def sized(in_channels: int, num_classes: int, img_size: object, feature_size: int = 48) -> None: ...
def levelled(channels: object, strides: object, kernel_size: int = 3) -> None: ...
def dynamic(
    kernel_size: Any, strides: Any, upsample_kernel_size: Any, filters: Any = 0
) -> None: ...
def wide(init_filters: int = 8, features: object = (32, 32, 64, 128, 256, 32)) -> None: ...
def lonely(in_channels: int, backbone: str, pretrained: object = 1) -> None: ...
def further(in_channels: int, **rest: object) -> None: ...


def test_dimensions_channels_and_classes_are_those_of_the_run() -> None:
    assert choose(plain) == {"spatial_dims": 3, "in_channels": 2, "out_channels": 3}
    assert choose(plain, FLAT) == {"spatial_dims": 2, "in_channels": 1, "out_channels": 4}


def test_an_image_size_is_the_crop_and_a_feature_size_the_filters() -> None:
    expected = {"in_channels": 2, "num_classes": 3, "img_size": (16, 16, 32), "feature_size": 8}
    assert choose(sized) == expected


def test_levels_are_made_from_the_crop_where_there_is_no_default() -> None:
    # 16 and 32 halve to 4 and 8, then only the second to 4.
    assert choose(levelled, FLAT) == {
        "channels": (8, 16, 32, 64),
        "strides": ((2, 2), (2, 2), (1, 2)),
    }


def test_dynamic_networks_get_a_first_stride_of_one_and_a_kernel_a_level() -> None:
    assert choose(dynamic, FLAT) == {
        "kernel_size": ((3, 3),) * 4,
        "strides": ((1, 1), (2, 2), (2, 2), (1, 2)),
        "upsample_kernel_size": ((2, 2), (2, 2), (1, 2)),
        "filters": (8, 16, 32, 64),
    }


def test_widths_follow_the_filters_although_they_have_a_default() -> None:
    assert choose(wide) == {"init_filters": 8, "features": (8, 8, 16, 32, 64, 8)}


def test_nothing_is_downloaded_unless_asked_for() -> None:
    assert choose(lonely, backbone="b0")["pretrained"] is False
    assert choose(lonely, backbone="b0", pretrained=True)["pretrained"] is True


def test_options_come_last() -> None:
    assert choose(plain, norm="group")["norm"] == "group"
    assert choose(levelled, FLAT, channels=[4, 8], strides=[2]) == {
        "channels": [4, 8],
        "strides": [2],
    }


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"options.nrom: 'monai:X' has none; did you mean 'norm'\?"):
        choose(plain, nrom="group")


def test_what_the_run_decides_cannot_be_an_option() -> None:
    message = r"network.options.out_channels: the run decides it \(3\); leave it out"
    with pytest.raises(UserError, match=message):
        choose(plain, out_channels=5)


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(UserError, match=r"needs 'backbone'; give it as network.options.backbone"):
        choose(lonely)


def test_a_constructor_that_passes_arguments_on_takes_any_option() -> None:
    assert choose(further, groups=4) == {"in_channels": 2, "groups": 4}
