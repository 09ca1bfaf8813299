import math
from functools import partial

import pytest
import torch
from fixed_decoders import Told
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.errors import UserError
from tracoco.inference.folding import ready_to_predict
from tracoco.methods import build_method
from tracoco.methods.mc_net import MCNet, MCNetPlus
from tracoco.methods.method import Method, RunFacts
from tracoco.methods.parts.decoders import MeanOfDecoders, SeveralDecoders
from tracoco.networks import build_network
from tracoco.settings import MethodChoice
from tracoco.testing.steps import after_steps, differing

PAST_THE_RAMP = 1000
UNSURE = 0.146654
"""(S(0.6) - 0.6)^2, with S(0.6) = 0.6^10 / (0.6^10 + 0.4^10) = 0.98295."""


def make(dimensions: int = 3, **settings: object) -> MCNet:
    method = make_method("mc-net", dimensions, 2, 30, 2, **settings)
    assert isinstance(method, MCNet)
    return method


def make_plus(dimensions: int = 3, **settings: object) -> MCNetPlus:
    method = make_method("mc-net-plus", dimensions, 2, 30, 2, **settings)
    assert isinstance(method, MCNetPlus)
    return method


def told(*probabilities: tuple[float, ...], **settings: object) -> MCNet:
    method = make(**settings)  # type: ignore[arg-type]  # any setting
    method.decoders = Told(*probabilities)  # type: ignore[assignment]  # a stand-in
    return method


@pytest.mark.parametrize("decoders", [2, 3])
def test_the_consistency_by_hand_and_its_ramp_in_3d(decoders: int) -> None:
    method = told(*[(0.6, 0.4)] * decoders)
    pairs = decoders * (decoders - 1)
    # Two fifths of 30 steps.
    for step, ramp in [(0, math.exp(-5)), (6, math.exp(-1.25)), (12, 1.0), (PAST_THE_RAMP, 1.0)]:
        consistency = method(make_batch(), step).terms["consistency"].item()
        assert consistency == pytest.approx(2 * ramp * pairs * UNSURE, rel=1e-4)


def test_in_2d_the_weight_is_a_tenth_of_that_and_rises_through_the_run() -> None:
    method = told((0.6, 0.4), (0.6, 0.4), dimensions=2)
    for step, ramp in [(15, math.exp(-1.25)), (30, 1.0)]:
        consistency = method(make_batch(2), step).terms["consistency"].item()
        assert consistency == pytest.approx(0.2 * ramp * 2 * UNSURE, rel=1e-4)


def test_weight_ramp_and_temperature_are_settings() -> None:
    method = told((0.6, 0.4), (0.6, 0.4), unsupervised_weight=3.0, rampup_steps=10, temperature=0.5)
    expected = 3 * 2 * (0.36 / 0.52 - 0.6) ** 2
    assert method(make_batch(), 10).terms["consistency"].item() == pytest.approx(expected, rel=1e-4)


def test_the_supervised_losses_of_the_decoders_are_added() -> None:
    batch = make_batch()
    alone = told((0.6, 0.4), (0.6, 0.4))(batch, 0).terms["supervised"].item()
    assert told(*[(0.6, 0.4)] * 3)(batch, 0).terms["supervised"].item() == pytest.approx(
        1.5 * alone
    )


def test_labelled_crops_must_agree_too_but_padding_need_not() -> None:
    method = told((0.6, 0.4), (0.6, 0.4))
    batch = make_batch()
    batch.first.valid[2:] = False
    assert method(batch, 12).terms["consistency"].item() == pytest.approx(2 * 2 * UNSURE, rel=1e-4)
    batch.first.valid[:] = False
    assert method(batch, 12).terms["consistency"].item() == 0.0


@pytest.mark.parametrize("detached", [False, True])
def test_the_targets_are_detached_if_asked(detached: bool) -> None:  # noqa: FBT001 - a parameter
    method = told((0.5, 0.5), (0.9, 0.1), detached=detached)
    method(make_batch(), 12).terms["consistency"].backward()
    gradient = method.decoders.logits[0].grad  # type: ignore[index]  # of the stand-in
    # The slope of the sharpening is ten times steeper than what is left of it.
    assert gradient[0].item() == pytest.approx(-0.5 if detached else -4.5, abs=1e-2)  # type: ignore[index]  # it has one


def test_the_plus_has_three_decoders_and_predicts_with_the_first() -> None:
    method = make_plus().eval()
    assert isinstance(method, MCNetPlus)
    assert len(method.decoders.branches) == 3
    assert method.inference_network() is method.decoders.first
    crops = torch.rand(1, 1, 16, 16, 16)
    with torch.no_grad():
        expected = method.decoders(crops)[0].softmax(dim=1)
        method.decoders.others = nn.ModuleList()
        torch.testing.assert_close(method.predict(crops), expected)


def test_the_mean_of_the_decoders_predicts_or_the_first() -> None:
    assert isinstance(make().inference_network(), MeanOfDecoders)
    method = make(predict_with="first")
    assert method.inference_network() is method.decoders.first


def transposed(method: Method) -> list[int]:
    """Transposed convolutions of each decoder."""
    kinds = (nn.ConvTranspose2d, nn.ConvTranspose3d)
    decoders = method.get_submodule("decoders")
    assert isinstance(decoders, SeveralDecoders)
    return [
        sum(isinstance(part, kinds) for part in branch.decoder.modules())
        for branch in decoders.branches
    ]


@pytest.mark.parametrize(("dimensions", "expected"), [(2, [0, 3]), (3, [3, 0])])
def test_without_a_value_the_ways_up_are_the_releases(dimensions: int, expected: list[int]) -> None:
    assert transposed(make(dimensions=dimensions, decoders=None)) == expected


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_first_decoder_is_the_networks_own(dimensions: int) -> None:
    assert transposed(make(dimensions=dimensions)) == [0, 3]


@pytest.mark.parametrize(
    ("network", "dimensions", "expected"),
    [("vnet", 3, [4, 0, 0]), ("unet", 2, [0, 4, 0]), ("unet", 3, [0, 4, 0])],
)
def test_on_the_releases_networks_that_is_the_releases_order(
    network: str, dimensions: int, expected: list[int]
) -> None:
    facts = RunFacts(2, 1, dimensions, 30, 1, 2)
    build = partial(
        build_network, name=network, channels=1, classes=2, dimensions=dimensions, filters=4
    )
    for name in ("mc-net-plus", "mc-caussl"):
        assert transposed(build_method(MethodChoice(name=name), build, facts)) == expected


def test_the_ways_up_are_a_setting() -> None:
    assert len(make(decoders=("linear", "linear", "linear")).decoders.branches) == 3
    with pytest.raises(UserError, match="decoders"):
        make(decoders=("linear",))


def test_health_compares_the_first_two_decoders_on_unlabelled_crops() -> None:
    method = told((0.25, 0.75), (0.75, 0.25), (0.5, 0.5))
    batch = make_batch()
    batch.first.valid[3, :8] = False
    output = method(batch, 0)
    assert measured(method.health(output, batch)) == pytest.approx(
        {
            "class/0": 0.0,
            "class/1": 1.0,
            "agreement": 0.0,
            "distance": 0.5 * (4096 + 2048) / 2,
        }
    )


class ToldAtScales(Told):
    """Stands for decoders at two scales: coarse probabilities first, then fine ones."""

    def __init__(self, coarse: list[tuple[float, ...]], fine: list[tuple[float, ...]]) -> None:
        super().__init__(*coarse, *fine)
        self.count = len(fine)

    def at_scales(self, crops: Tensor) -> list[list[Tensor]]:
        predictions = self(crops)
        return [predictions[: self.count], predictions[self.count :]]


def told_at_scales(coarse: list[tuple[float, ...]], fine: list[tuple[float, ...]]) -> MCNetPlus:
    method = make_plus(scales=2)
    method.decoders = ToldAtScales(coarse, fine)  # type: ignore[assignment]  # a stand-in
    return method


SURE, UNDECIDED = (0.9999, 0.0001), (0.6, 0.4)


def test_at_several_scales_the_consistency_is_their_mean_by_hand() -> None:
    # Six ordered pairs of decoders at each scale; sure decoders that agree have no distance.
    mixed = told_at_scales([UNDECIDED] * 3, [SURE] * 3)
    assert mixed(make_batch(), 12).terms["consistency"].item() == pytest.approx(
        2 * (6 * UNSURE + 0) / 2, rel=1e-4
    )
    both = told_at_scales([UNDECIDED] * 3, [UNDECIDED] * 3)
    found = both(make_batch(), 12).terms["consistency"].item()
    assert found == pytest.approx(2 * 6 * UNSURE, rel=1e-4)


def test_scales_are_not_compared_with_each_other() -> None:
    method = told_at_scales([SURE] * 3, [SURE[::-1]] * 3)
    assert method(make_batch(), 12).terms["consistency"].item() == pytest.approx(0.0, abs=1e-6)


def test_at_several_scales_the_supervised_loss_is_their_mean() -> None:
    batch = make_batch()
    coarse, fine = (
        told(*[each] * 3)(batch, 0).terms["supervised"].item() for each in (UNDECIDED, (0.2, 0.8))
    )
    method = told_at_scales([UNDECIDED] * 3, [(0.2, 0.8)] * 3)
    assert coarse != pytest.approx(fine)
    assert method(batch, 0).terms["supervised"].item() == pytest.approx((coarse + fine) / 2)


def test_health_is_of_the_finest_scale() -> None:
    method = told_at_scales([(0.9, 0.1)] * 3, [(0.25, 0.75)] * 3)
    batch = make_batch()
    output = method(batch, 0)
    assert method.health(output, batch).class_fractions[1] == 1.0


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_every_scale_answers_at_the_size_of_the_crops_and_its_heads_learn(
    dimensions: int, classes: int
) -> None:
    method = make_method("mc-net-plus", dimensions, classes, 30, 2, scales="all")
    assert isinstance(method, MCNetPlus)
    batch = make_batch(dimensions, classes)
    scales = method.decoders.at_scales(batch.first.values)
    shape = (4, classes, *[16] * dimensions)
    assert [[tuple(each.shape) for each in logits] for logits in scales] == [[shape] * 3] * 3
    terms = method(batch, PAST_THE_RAMP).terms
    for name in ("supervised", "consistency"):
        method.zero_grad()
        terms[name].backward(retain_graph=True)
        for parameter_name, parameter in method.named_parameters():
            assert parameter.grad is not None, f"{name}: {parameter_name} is not connected"
        heads = coarse_heads(method)
        assert len(heads) == 3 * 2
        for head in heads:
            assert head.weight.grad is not None
            assert head.weight.grad.abs().sum() > 0, name


def coarse_heads(method: MCNetPlus) -> list[nn.Conv2d | nn.Conv3d]:
    """Those of the first decoder, then those of the second and of the third."""
    parts = method.decoders.coarse_heads.modules()
    return [part for part in parts if isinstance(part, nn.Conv2d | nn.Conv3d)]


def test_unlabelled_crops_teach_the_heads_of_all_scales() -> None:
    method, batch = make_plus(2, scales="all"), make_batch(2)
    batch.first.valid[: batch.labelled_count] = False
    torch.stack(list(method(batch, PAST_THE_RAMP).terms.values())).sum().backward()
    for head in coarse_heads(method):
        assert head.weight.grad is not None
        assert head.weight.grad.abs().sum() > 0


def test_two_scales_are_the_two_finest_levels() -> None:
    method = make_plus(scales=2)
    widths = method.decoders.first.decoder_channels
    assert len(widths) == 3
    assert [head.in_channels for head in coarse_heads(method)] == [widths[1]] * 3


def test_the_finest_scale_is_what_one_scale_is() -> None:
    one, several = make_plus(), make_plus(scales="all")
    crops = torch.rand(1, 1, 16, 16, 16)
    with torch.no_grad():
        expected = one.eval().decoders(crops)
        found = several.eval().decoders.at_scales(crops)[-1]
    torch.testing.assert_close(found, expected)
    left = set(several.state_dict()) - set(one.state_dict())
    assert left
    assert all(name.startswith("decoders.coarse_heads.") for name in left)


def test_one_scale_has_no_further_weights() -> None:
    names = make_plus().state_dict()
    assert not [name for name in names if "coarse" in name]
    assert list(names) == list(make_plus(scales=1).state_dict())


@pytest.mark.parametrize("predict_with", ["first", "mean"])
def test_only_the_finest_scale_predicts(predict_with: str) -> None:
    method = make_plus(scales="all", predict_with=predict_with).eval()
    crops = torch.rand(1, 1, 16, 16, 16)
    with torch.no_grad():
        finest = [logits.softmax(dim=1) for logits in method.decoders.at_scales(crops)[-1]]
        expected = finest[0] if predict_with == "first" else torch.stack(finest).mean(dim=0)
        for weight in method.decoders.coarse_heads.parameters():
            weight.fill_(float("nan"))
        torch.testing.assert_close(method.predict(crops), expected)
        torch.testing.assert_close(method.predict_members(crops)[0], expected)
    with ready_to_predict(method) as ready:
        torch.testing.assert_close(ready.predict(crops), expected, rtol=1e-4, atol=1e-5)


def test_a_checkpoint_with_several_scales_is_complete() -> None:
    build = partial(make_method, "mc-net-plus", 2, classes=3, scales="all")
    whole, resumed = (
        after_steps(build, (0, 3, 12, 20), saved_at, classes=3).state_dict()
        for saved_at in (None, 12)
    )
    assert differing(whole, resumed) == []
    assert any("coarse_heads" in name for name in whole)


def test_the_optimizer_owns_the_heads() -> None:
    method = make_plus(scales="all")
    owned = {id(weight) for group in method.parameter_groups() for weight in group["params"]}
    assert owned == {id(weight) for weight in method.parameters()}


def test_more_scales_than_levels_are_refused() -> None:
    with pytest.raises(UserError, match=r"3 levels; set method\.scales to at most 3"):
        make_plus(scales=4)
    for wrong in (0, "some"):
        with pytest.raises(UserError, match="scales"):
            make_plus(scales=wrong)
    with pytest.raises(UserError, match="'scales' is not a setting"):
        make(scales=2)


def test_the_papers_network_has_four_scales() -> None:
    network = partial(build_network, "vnet", channels=1, classes=2, dimensions=3, filters=2)
    choice = MethodChoice.model_validate({"name": "mc-net-plus", "scales": "all"})
    method = build_method(choice, network, RunFacts(2, 1, 3, 30, 1, 2))
    assert isinstance(method, MCNetPlus)
    with torch.no_grad():
        assert len(method.decoders.at_scales(torch.rand(1, 1, 32, 16, 16))) == 4
