import math

import torch
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.data.batch import Batch, Crops
from tracoco.geometry import Box
from tracoco.methods.cac import CAC
from tracoco.methods.method import StepOutput
from tracoco.methods.parts.context_contrast import (
    EMPTY,
    Points,
    crop_agreement,
    draw_places,
    take_places,
)


def make(dimensions: int = 3, **settings: object) -> CAC:
    method = make_method("cac", dimensions, 2, 32, 2, **settings)
    assert isinstance(method, CAC)
    return method


def drawn(*labels: int) -> Points:
    """One point a label; its feature tells which it is."""
    features = torch.zeros(len(labels), 128)
    features[:, 0] = torch.tensor(labels)
    return Points(features, torch.ones(len(labels)), torch.tensor(labels))


def test_places_are_inside_the_scan_and_none_comes_twice() -> None:
    valid = torch.zeros(1, 6, 5, dtype=torch.bool)
    valid[0, 2:5, 1:4] = True
    box = Box((1, 2), (4, 3))
    (places,) = draw_places(valid, [box], limit=100)
    assert sorted(places.tolist()) == [3, 4, 6, 7, 9, 10]  # rows 1 to 3, columns 0 and 1
    (few,) = draw_places(valid, [box], limit=4)
    assert len(set(few.tolist())) == 4
    assert set(few.tolist()) <= set(places.tolist())


def test_a_padded_overlap_has_no_places() -> None:
    (places,) = draw_places(torch.zeros(1, 4, 4, dtype=torch.bool), [Box((0, 0), (2, 2))], 5)
    assert places.tolist() == []


def test_taken_places_are_the_same_voxels_of_a_volume_in_both_crops() -> None:
    torch.manual_seed(0)
    volume = torch.rand(1, 12, 12, 12)
    first, second = (
        torch.stack([volume[:, a : a + 8, a : a + 8, a : a + 8] for a in starts])
        for starts in ((0, 4), (3, 1))
    )
    here = [Box((3, 3, 3), (5, 5, 5)), Box((0, 0, 0), (5, 5, 5))]
    there = [Box((0, 0, 0), (5, 5, 5)), Box((3, 3, 3), (5, 5, 5))]
    places = draw_places(torch.ones(2, 8, 8, 8, dtype=torch.bool), here, limit=20)
    taken = take_places(first, here, places)
    assert taken.shape == (40, 1)
    assert torch.equal(taken, take_places(second, there, places))
    assert not torch.equal(taken, take_places(second, here, places))


class Pixelwise(nn.Module):
    """A network whose features depend on nothing but the voxel."""

    def __init__(self) -> None:
        super().__init__()
        self.head: nn.Module = nn.Conv3d(4, 2, 1)

    def encode(self, crops: Tensor) -> list[Tensor]:
        return [crops]

    def decode(self, features: list[Tensor]) -> Tensor:
        return torch.cat([features[0] ** power for power in range(1, 5)], dim=1)


def shifted_batch() -> Batch:
    """Crops that are cut out of volumes, so that the two of a pair agree where they overlap."""
    batch = make_batch()
    volumes = torch.rand(4, 1, 19, 19, 19)
    first, second = volumes[..., :16, :16, :16], volumes[..., 3:, 3:, 3:]
    parts = zip((batch.first, batch.second), (first, second), strict=True)
    crops = [Crops(values, part.valid, part.start) for part, values in parts]
    return Batch(crops[0], crops[1], batch.labels, batch.cases)


def test_a_network_that_sees_single_voxels_sees_the_same_in_both_crops() -> None:
    torch.manual_seed(0)
    contrast = make(noise=0.0).contrast
    found = contrast(Pixelwise(), shifted_batch(), 5)
    assert crop_agreement(found.labels) == 1.0
    assert found.labels.shape == (2, 2 * 2048)
    torch.testing.assert_close(found.confidence[0], found.confidence[1])


def test_each_crop_has_noise_of_its_own() -> None:
    torch.manual_seed(0)
    contrast = make(noise=0.2).contrast
    first, second = contrast(Pixelwise(), shifted_batch(), 5).confidence
    assert not torch.equal(first, second)


def test_the_bank_holds_this_step_and_the_one_before() -> None:
    contrast = make(bank=8).contrast
    assert contrast._remember(drawn(0, 1), drawn(1)).label.sort().values.tolist() == [0, 1, 1]
    assert contrast._remember(drawn(2), drawn(3)).label.sort().values.tolist() == [0, 1, 1, 2, 3]
    bank = contrast._remember(drawn(5), drawn(4))
    assert bank.label.sort().values.tolist() == [2, 3, 4, 5]
    assert torch.equal(bank.features[:, 0], bank.label.float())
    assert contrast.bank_labels.tolist()[2:] == [EMPTY, EMPTY]


def test_the_bank_has_a_limit() -> None:
    torch.manual_seed(0)
    contrast = make(bank=8).contrast
    for _ in range(2):
        bank = contrast._remember(drawn(*range(10)), drawn(*range(10, 20)))
    assert len(bank.label) == 8
    assert min(bank.label) < 10 <= max(bank.label)  # of both crops


def test_features_in_the_bank_have_length_one_and_are_not_those_that_are_compared() -> None:
    contrast = make(positions=50, bank=400).contrast
    contrast(Pixelwise(), shifted_batch(), 5)
    lengths = contrast.bank_features.norm(dim=1)[contrast.bank_labels != EMPTY]
    torch.testing.assert_close(lengths, torch.ones(200))


def test_the_bank_is_drawn_from_all_of_both_crops_and_not_from_their_overlap() -> None:
    # Outside of the overlap, which begins at voxel 3 here and ends at 12 there, all is class 1.
    torch.manual_seed(0)
    batch = shifted_batch()
    for crops, inside in ((batch.first, slice(3, None)), (batch.second, slice(None, 13))):
        crops.values.fill_(1.0)
        crops.values[:, :, inside, inside, inside] = 0.0
    network = Pixelwise()
    with torch.no_grad():
        for parameter in network.head.parameters():
            parameter.zero_()
        network.head.get_parameter("weight")[1, 0] = 2.0
        network.head.get_parameter("bias")[0] = 1.0
    contrast = make(noise=0.0, bank=4000).contrast
    found = contrast(network, batch, 5)
    assert not found.labels.any()  # what is compared is in the overlap
    outside = 1 - (13 / 16) ** 3
    share = (contrast.bank_labels == 1).float().mean().item()
    assert abs(share - outside) < 0.05
    batch.second.valid[:] = False  # now the first crops alone fill half of it
    contrast(network, batch, 6)
    assert (contrast.bank_labels != EMPTY).sum() == 1000


def test_only_the_first_crops_move_the_running_statistics() -> None:
    network, batch = Pixelwise(), shifted_batch()
    network.head = nn.Sequential(nn.BatchNorm3d(4), nn.Conv3d(4, 2, 1))
    make(noise=0.0).contrast(network, batch, 5)
    expected = 0.1 * network.decode([batch.first.values]).mean(dim=(0, 2, 3, 4))
    torch.testing.assert_close(network.get_buffer("head.0.running_mean"), expected)


def test_the_bank_is_part_of_a_checkpoint() -> None:
    method, other = make(), make()
    method(make_batch(), 5)
    other.load_state_dict(method.state_dict())
    assert (other.contrast.bank_labels != EMPTY).sum() == 4096
    outcomes = []
    for each in (method, other):
        torch.manual_seed(3)
        outcomes.append(each(make_batch(seed=1), 6).terms["contrast"].item())
    assert outcomes[0] == outcomes[1]
    torch.manual_seed(3)
    forgetful = make()
    forgetful.load_state_dict(method.state_dict())
    forgetful.contrast.bank_labels.fill_(EMPTY)
    torch.manual_seed(3)
    assert forgetful(make_batch(seed=1), 6).terms["contrast"].item() != outcomes[0]


def test_the_contrast_starts_after_a_sixteenth_of_the_run() -> None:
    assert make().contrast.start_step == 2
    assert make(start_step=0).contrast.start_step == 0
    method = make(threshold=0.0, positions=200)
    terms = [method(make_batch(), step).terms["contrast"] for step in (1, 2)]
    assert terms[0].item() == 0.0
    assert terms[0].requires_grad
    assert terms[1].item() > 0.0


def test_the_weight_multiplies_the_contrast() -> None:
    found = []
    for weight in (0.1, 0.4):
        method = make(threshold=0.0, contrast_weight=weight)
        torch.manual_seed(0)
        found.append(method(make_batch(), 5).terms["contrast"].item())
    assert math.isclose(found[1], 4 * found[0], rel_tol=1e-5)


def test_pairs_without_a_voxel_inside_give_a_connected_zero() -> None:
    method = make(threshold=0.0)
    batch = make_batch()
    batch.first.valid[2:] = False
    output = method(batch, 5)
    terms = output.terms
    assert terms["contrast"].item() == 0.0
    torch.stack(list(terms.values())).sum().backward()
    assert all(p.grad is not None for p in method.contrast.parameters())
    assert method.health(output, batch).likely == 0.0


def test_figures_by_hand() -> None:
    labels = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 1]])
    confidence = torch.tensor([[0.9, 0.9, 0.6, 0.8], [0.7, 0.75, 0.7, 0.8]])
    output = StepOutput({}, (labels, confidence))
    assert measured(make().health(output, make_batch())) == {
        "class/0": 0.625,
        "class/1": 0.375,
        "likely": 0.5,
        "crop_agreement": 0.75,
    }
