from functools import partial

import pytest
import torch
from torch import Tensor

from tracoco.methods.method import RunFacts
from tracoco.methods.tri_u_mt import TaskOutputs, ThreeTasks, task_losses
from tracoco.networks import build_network


def make(
    dimensions: int, classes: int, network: str = "light-unet", channels: int = 1
) -> ThreeTasks:
    facts = RunFacts(classes, channels, dimensions, 10, 1, 2)
    build = partial(
        build_network, network, channels=channels, classes=classes, dimensions=dimensions, filters=4
    )
    torch.manual_seed(0)
    return ThreeTasks("tri-u-mt", build, facts).eval()


def prediction(distances: Tensor, pictures: Tensor, classes: int = 2) -> TaskOutputs:
    logits = torch.zeros(len(distances), classes, *distances.shape[2:])
    return TaskOutputs(logits, distances, pictures)


@pytest.mark.parametrize(("dimensions", "classes"), [(2, 2), (2, 4), (3, 2), (3, 4)])
def test_all_decoders_answer_at_the_resolution_of_the_crops(dimensions: int, classes: int) -> None:
    tasks = make(dimensions, classes, channels=2)
    size = (16,) * dimensions
    crops = torch.rand(3, 2, *size)
    found = tasks.outputs(crops)
    assert found.logits.shape == (3, classes, *size)
    assert found.distances.shape == (3, classes - 1, *size)
    assert found.pictures.shape == (3, 2 * classes, *size)
    assert 0 < found.pictures.min() < found.pictures.max() < 1
    torch.testing.assert_close(found.logits, tasks(crops))
    assert torch.equal(found[slice(1, 2)].pictures, found.pictures[1:2])


@pytest.mark.parametrize("network", ["light-unet", "unet"])
def test_the_reconstruction_sees_the_coarsest_map_alone(
    network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = make(2, 2, network)
    features = tasks.network.encode(torch.rand(2, 1, 16, 16))
    found = []
    for shift in (0.0, 1.0):
        changed = [*(fine + shift for fine in features[:-1]), features[-1]]
        monkeypatch.setattr(tasks.network, "encode", lambda _, maps=changed: maps)
        found.append(tasks.outputs(torch.rand(2, 1, 16, 16)))
    assert torch.equal(found[0].pictures, found[1].pictures)
    assert not torch.allclose(found[0].distances, found[1].distances)
    assert not torch.allclose(found[0].logits, found[1].logits)


def test_dropout_leaves_out_whole_channels_of_the_coarsest_map(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = make(3, 2)
    seen: list[list[Tensor]] = []
    decode = tasks.network.decode

    def note(features: list[Tensor]) -> Tensor:
        seen.append(features)
        return decode(features)

    monkeypatch.setattr(tasks.network, "decode", note)
    crops = torch.rand(2, 1, 16, 16, 16)
    whole = tasks.network.encode(crops)
    tasks.outputs(crops, dropout=0.5)
    kept = seen[0][-1].flatten(2)
    gone = (kept == 0).all(dim=2)
    assert 0.2 < gone.float().mean() < 0.8
    torch.testing.assert_close(kept[~gone], 2 * whole[-1].flatten(2)[~gone])
    assert all(torch.equal(*pair) for pair in zip(seen[0][:-1], whole[:-1], strict=True))


def test_both_tasks_by_hand() -> None:
    labels = torch.tensor([[[0, 0, 1, 1, 1, 0, 0]]])  # distances 1, 1/2, 0, -1, 0, 1/2, 1
    crops = torch.full((1, 1, 1, 7), 0.5)
    valid = torch.ones(1, 1, 7, dtype=torch.bool)
    said = prediction(torch.zeros(1, 1, 1, 7), torch.zeros(1, 2, 1, 7))
    distance, picture = task_losses(said, labels, crops, valid)
    assert distance.item() == pytest.approx((1 + 0.25 + 1 + 0.25 + 1) / 7)
    assert picture.item() == pytest.approx(0.25 / 2)  # one of the two classes at each voxel
    valid[:, :, 5:] = False  # distances 1, 1/2, 0, -2/3, -1
    distance, picture = task_losses(said, labels, crops, valid)
    assert distance.item() == pytest.approx((1 + 0.25 + 4 / 9 + 1) / 5)
    assert picture.item() == pytest.approx(0.25 / 2)


def test_a_picture_has_the_channels_of_the_crop_class_by_class() -> None:
    labels = torch.tensor([[[0, 1, 2]]])
    crops = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]).reshape(1, 2, 1, 3)
    wanted = torch.tensor(
        [[0.1, 0, 0], [0.4, 0, 0], [0, 0.2, 0], [0, 0.5, 0], [0, 0, 0.3], [0, 0, 0.6]]
    )
    said = prediction(torch.zeros(1, 2, 1, 3), wanted.reshape(1, 6, 1, 3), classes=3)
    valid = torch.ones(1, 1, 3, dtype=torch.bool)
    assert task_losses(said, labels, crops, valid)[1].item() == 0.0


def test_classes_that_a_crop_does_not_have_say_nothing_of_distances() -> None:
    labels = torch.stack([torch.tensor([[0, 0, 1, 1, 1, 0, 0]]), torch.zeros(1, 7).long()])
    crops, valid = torch.zeros(2, 1, 1, 7), torch.ones(2, 1, 7, dtype=torch.bool)
    distances = torch.full((2, 2, 1, 7), 0.9)
    distances[0, 0] = torch.tensor([1, 0.5, 0, -1, 0, 0.5, 1])
    said = prediction(distances, torch.zeros(2, 3, 1, 7), classes=3)
    assert task_losses(said, labels, crops, valid)[0].item() == 0.0
    nothing = task_losses(said[slice(1, 2)], labels[1:], crops[1:], valid[1:])
    assert nothing[0].item() == 0.0
