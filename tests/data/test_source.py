from dataclasses import replace

import numpy as np
import pytest
import torch
from samples import PLAIN

from tracoco.config import DataConfig
from tracoco.data.batch import Batch
from tracoco.data.crop_pair import CropRule
from tracoco.data.source import BatchSource, Shard, Stream, batches
from tracoco.project.folder import Project
from tracoco.project.store import Store


def source(project: Project, **settings: int) -> BatchSource:
    splits = project.load_splits()
    rule = CropRule((16, 12, 8), (0, 1), turns=True, config=DataConfig(**PLAIN | settings))
    return BatchSource(Store(project.store_root), splits.labelled, splits.unlabelled, rule, seed=7)


def assert_equal(a: Batch, b: Batch) -> None:
    assert a.cases == b.cases
    assert a.first.start == b.first.start
    for here, there in ((a.first, b.first), (a.second, b.second)):
        assert torch.equal(here.values, there.values)
        assert torch.equal(here.valid, there.valid)
    assert torch.equal(a.labels, b.labels)


def test_labelled_crops_come_first_and_only_they_have_labels(project: Project) -> None:
    batch = source(project)[0]
    splits = project.load_splits()
    assert batch.labelled_count == 2
    assert set(batch.cases[:2]) <= set(splits.labelled)
    assert set(batch.cases[2:]) <= set(splits.unlabelled)
    assert batch.first.values.shape == (4, 1, 16, 12, 8)
    assert batch.first.values.dtype == torch.float32
    assert batch.labels.shape == (2, 16, 12, 8)
    assert batch.labels.dtype == torch.uint8
    assert batch.to(torch.device("cpu")).labels.dtype == torch.int64


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_is_a_function_of_its_step_whatever_the_workers(
    project: Project, workers: int
) -> None:
    made = source(project)
    for step, batch in zip(range(5, 9), batches(made, 5, 9, workers), strict=True):
        assert_equal(batch, made[step])


def test_steps_and_seeds_differ(project: Project) -> None:
    made = source(project)
    other = replace(made, seed=8)
    assert not torch.equal(made[0].first.values, made[1].first.values)
    assert not torch.equal(made[0].first.values, other[0].first.values)


def test_two_processes_make_the_parts_of_a_larger_batch(project: Project) -> None:
    whole = source(project, labelled_batch=2, unlabelled_batch=4)[3]
    made = source(project, labelled_batch=1, unlabelled_batch=2)
    first, second = (replace(made, shard=Shard(rank, 2))[3] for rank in range(2))
    assert (*first.cases[:1], *second.cases[:1], *first.cases[1:], *second.cases[1:]) == whole.cases
    assert torch.equal(torch.cat([first.labels, second.labels]), whole.labels)


def test_labelled_crops_do_not_depend_on_the_unlabelled_ones(project: Project) -> None:
    alone, together = source(project, unlabelled_batch=0)[3], source(project)[3]
    assert alone.cases == together.cases[:2]
    assert torch.equal(alone.first.values, together.first.values[:2])


def test_overlaps_are_derived_from_the_places(project: Project) -> None:
    batch = source(project)[0]
    for index, (here, there) in enumerate(batch.overlaps):
        first = batch.first.values[index][:, *here.slices]
        assert torch.equal(first, batch.second.values[index][:, *there.slices])
    assert 0 < batch.mean_shift <= 0.5


def test_a_slice_thick_crop_gives_2d_batches(project: Project) -> None:
    made = source(project)
    flat = replace(made.rule, size=(1, 12, 8), plane=(1, 2))
    batch = replace(made, rule=flat)[0]
    assert batch.first.values.shape == (4, 1, 12, 8)
    assert batch.first.valid.shape == (4, 12, 8)
    assert batch.labels.shape == (2, 12, 8)
    assert all(len(start) == 2 for start in batch.first.start)


def test_the_loader_leaves_torchs_generator_alone(project: Project) -> None:
    torch.manual_seed(3)
    expected = [float(torch.rand(())) for _ in range(2)]
    torch.manual_seed(3)
    assert [float(torch.rand(())) for _ in batches(source(project), 0, 2, 0)] == expected


def test_moving_keeps_everything(project: Project) -> None:
    batch = source(project)[0]
    assert_equal(batch, batch.to(torch.device("cpu")))
    assert np.isfinite(batch.first.values.numpy()).all()


@pytest.mark.parametrize("size", [(16, 12, 8), (1, 12, 8)])
def test_without_pairs_the_first_crops_are_bitwise_the_same(
    project: Project, size: tuple[int, ...]
) -> None:
    made = source(project)
    paired, alone = (
        replace(made, rule=replace(made.rule, size=size, pairs=pairs))[4] for pairs in (True, False)
    )
    assert alone.second.values.numel() == alone.second.valid.numel() == 0
    assert_equal(paired, replace(alone, second=paired.second))
    assert alone.second.start == paired.second.start
    assert alone.mean_shift == paired.mean_shift


@pytest.mark.parametrize("size", [(16, 12, 8), (1, 12, 8), (40, 12, 8)])
@pytest.mark.parametrize("pairs", [True, False])
def test_no_tensor_of_a_batch_overlaps_itself_so_that_it_can_be_pinned(
    project: Project, size: tuple[int, ...], *, pairs: bool
) -> None:
    # torch pins a tensor by copying it into memory with the same strides, and refuses to write to
    # memory where two elements share a place. This is the rule that it asks.
    made = source(project)
    batch = replace(made, rule=replace(made.rule, size=size, pairs=pairs))[0]
    first, second = batch.first, batch.second
    for tensor in (first.values, first.valid, second.values, second.valid, batch.labels):
        assert torch._debug_has_internal_overlap(tensor) == 0
        torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)


def test_pinning_reaches_every_tensor(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    batch, pinned = source(project)[0], list[torch.Tensor]()

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(tensor)
        return tensor

    # There is no GPU here; that these tensors can be pinned is what the test above asks.
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    batch.pin_memory()
    first, second = batch.first, batch.second
    expected = (first.values, first.valid, second.values, second.valid, batch.labels)
    assert {id(tensor) for tensor in pinned} == {id(tensor) for tensor in expected}


def test_every_slice_is_drawn_equally_often_if_asked(project: Project) -> None:
    made = source(project)
    config = DataConfig(**PLAIN, slice_sampling="uniform", labelled_batch=2, unlabelled_batch=0)
    by_slice = replace(made, rule=replace(made.rule, size=(1, 12, 8), plane=(1, 2), config=config))
    slices = {id_: made.store.case(id_).shape[0] for id_ in made.labelled}
    steps = sum(slices.values()) // 2
    drawn = [
        (pair.case, pair.first.box.start[0])
        for step in range(steps)
        for pair in by_slice._pairs(Stream.LABELLED, 2, step)
    ]
    # One lap: no slice twice, and all but the one that is left over if their number is odd.
    assert len(set(drawn)) == len(drawn) == 2 * steps
    assert set(drawn) <= {(id_, index) for id_, count in slices.items() for index in range(count)}
