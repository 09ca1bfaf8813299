import math

import pytest
import torch
from samples import make_batch, make_method, measured
from torch import Tensor, nn

from tracoco.methods.method import StepOutput
from tracoco.methods.patchcl import Embedder, PatchCL, distribution_contrast
from tracoco.networks import build_network
from tracoco.networks.network import with_features
from tracoco.testing.steps import after_steps

PAST_THE_RAMP = 1000


def make(dimensions: int = 2, classes: int = 2, **settings: object) -> PatchCL:
    method = make_method("patchcl", dimensions, classes, 30, 2, **{"queue": 16} | settings)
    assert isinstance(method, PatchCL)
    return method


def weights(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach().clone()


def answer_with(network: nn.Module, *logits: float) -> None:
    """Let a network give every voxel the same logits."""
    with torch.no_grad():
        for name, parameter in network.get_submodule("head").named_parameters():
            parameter.copy_(torch.tensor(logits) if name == "bias" else parameter * 0)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_agreement_by_hand_and_its_ramp(dimensions: int) -> None:
    """(3/4, 1/4) against (1/2, 1/2): 1/16 in each class, times 4."""
    method = make(dimensions)
    answer_with(method.student.network, math.log(3), 0.0)
    answer_with(method.teacher.network.get_submodule("network"), 0.0, 0.0)
    for step, ramp in [(15, math.exp(-1.25)), (30, 1.0), (PAST_THE_RAMP, 1.0)]:
        term = method(make_batch(dimensions), step).terms["consistency"]
        assert term.item() == pytest.approx(4 * ramp / 16, rel=1e-4)


def test_padding_has_no_say() -> None:
    method = make()
    batch = make_batch(2)
    batch.first.valid[:] = False
    terms = method(batch, PAST_THE_RAMP).terms
    assert {name: term.item() for name, term in terms.items()} == dict.fromkeys(terms, 0.0)
    assert all(term.requires_grad for term in terms.values())
    assert method.contrast.queues.filled.sum() == 0


def test_at_first_only_labelled_crops_are_looked_at() -> None:
    method = make()
    batch = make_batch(2)
    batch.first.values[2:] = torch.nan
    output = method(batch, method.pretrain_steps - 1)
    terms = output.terms
    assert sorted(terms) == ["contrast", "supervised"]
    assert all(term.isfinite() for term in terms.values())
    assert list(measured(method.health(output, batch))) == ["patches"]
    assert method.pretrain_steps == 3


@pytest.mark.parametrize(("step", "crops"), [(0, 2), (PAST_THE_RAMP, 4)])
def test_labels_and_then_also_pseudo_labels_cut_patches_out(step: int, crops: int) -> None:
    """A crop is one patch here, and labels are all foreground, as is what the teacher says.

    What the student says does not count.
    """
    method = make()
    answer_with(method.student.network, 9.0, 0.0)
    answer_with(method.teacher.network.get_submodule("network"), 0.0, 9.0)
    batch = make_batch(2)
    batch.labels[:] = 1
    output = method(batch, step)
    assert method.contrast.queues.filled.tolist() == [0, crops]
    assert output.pseudo_labels[0].tolist() == [*[False] * crops, *[True] * crops]
    assert method.health(output, batch).further["patches"] == pytest.approx(0.5)


def test_the_contrast_is_that_of_the_students_patches_with_the_queues_of_the_teacher() -> None:
    method = make(contrast_weight=3.0).eval()
    batch = make_batch(2, size=(16, 16, 16))
    batch.labels[0], batch.labels[1] = 0, 1
    with torch.no_grad():
        for parameter in method.teacher.parameters():
            parameter.mul_(1.5)
    found = method(batch, 0).terms["contrast"]
    crops = batch.first.values[:2]
    keys = method.teacher.network.embed(crops)  # type: ignore[operator]  # an Embedder
    torch.testing.assert_close(method.contrast.queues.embeddings[:, 0], keys)
    options = {"temperature": 0.2, "spread": 4.0, "negatives": 4096.0}
    own = method.student.embed(crops)
    label, classes = torch.tensor([0, 1]), method.contrast.queues.distributions()
    torch.testing.assert_close(
        found, 3 * distribution_contrast(own, label, classes, **options).mean()
    )


def test_embeddings_have_length_one_and_depend_on_their_own_patch_alone() -> None:
    student = make(3).student.eval()
    patches = torch.rand(3, 1, 16, 16, 16)
    together = student.embed(patches)
    torch.testing.assert_close(together.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(student.embed(patches[1:2]), together[1:2])


def test_patches_leave_batch_norm_s_statistics_alone() -> None:
    network = build_network("unet", channels=1, classes=2, dimensions=2, filters=4)
    student = Embedder(with_features(network, "patchcl")).train()
    before = {name: buffer.clone() for name, buffer in student.named_buffers()}
    student.embed(torch.rand(3, 1, 32, 32))
    assert any(name.endswith("running_mean") for name in before)
    assert all(torch.equal(buffer, before[name]) for name, buffer in student.named_buffers())


@pytest.mark.parametrize("classes", [2, 4])
def test_the_contrast_teaches_encoder_and_projector_but_neither_decoder_nor_teacher(
    classes: int,
) -> None:
    method = make(classes=classes)
    batch = make_batch(2, classes)
    batch.labels[0], batch.labels[1] = 0, classes - 1
    method(batch, 0).terms["contrast"].backward()
    for part in (method.student.network.encoder, method.student.projector):
        assert sum(p.grad.abs().sum() for p in part.parameters() if p.grad is not None) > 0
    others = [method.student.network.decoder, method.student.network.head, method.teacher]
    assert all(p.grad is None for part in others for p in part.parameters())


def test_descent_brings_patches_of_a_class_together() -> None:
    method = make(contrast_weight=1.0, spread=0.0)
    batch = make_batch(2, labelled=4)
    batch.labels[:2], batch.labels[2:] = 0, 1
    batch.first.values[2:4] *= 0.1
    optimizer = torch.optim.SGD(method.student.parameters(), lr=0.05)
    losses = []
    for step in range(20):
        torch.manual_seed(0)
        loss = method(batch, 0).terms["contrast"]
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_step(StepOutput({}), make_batch(2), step)
    assert losses[-1] < losses[1]


def test_a_class_that_no_crop_has_is_no_trouble() -> None:
    method = make(classes=4)
    batch = make_batch(2, 4)
    batch.labels[:] = 2
    terms = method(batch, 0).terms
    torch.stack(list(terms.values())).sum().backward()
    assert method.contrast.queues.filled.tolist() == [0, 0, 2, 0]
    grads = [p.grad for p in method.student.parameters() if p.grad is not None]
    assert all(grad.isfinite().all() for grad in grads)


def test_the_teacher_averages_network_and_projector() -> None:
    method = make(decay=0.75)
    start = weights(method.teacher)
    with torch.no_grad():
        for parameter in method.student.parameters():
            parameter.add_(1.0)
    method.after_step(StepOutput({}), make_batch(2), 3)
    torch.testing.assert_close(weights(method.teacher), start + 0.25)
    assert method.inference_network() is method.student.network


@pytest.mark.parametrize("saved_at", [2, 3, 4])
def test_saved_and_built_anew_a_run_goes_on_alike(saved_at: int) -> None:
    """The queues and the thresholds are part of what is saved."""
    found = []
    for save in (None, saved_at):
        method = after_steps(make, range(6), save)
        chooser = method.contrast.chooser
        kept = [method.contrast.queues.embeddings.flatten(), chooser.thresholds, chooser.steps]
        found.append(torch.cat([weights(method), *kept]))
    assert torch.equal(*found)
