"""This package's loss terms on the fixed inputs of `release_values.json`, by the name of a case.

The inputs are the explicit numbers of `release_inputs.py`. What the releases make of them was
worked out apart from this package, in plain numpy from the formulas that the file states.
"""

from functools import partial
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.release_inputs import (
    BINARY,
    EVERYWHERE,
    FIRST,
    LABEL,
    LAST,
    PEER,
    PREDICTION,
    SECOND,
    SURE,
    THIRD,
    TWO,
    WEIGHTS,
    Ours,
    Passes,
    Told,
    batch_of,
    numbers,
)
from tracoco import build_method
from tracoco.geometry import Box
from tracoco.losses import consistency
from tracoco.losses.crc import semi_supervised_loss
from tracoco.losses.supervised import class_dice_losses, supervised_loss
from tracoco.losses.translation import Overlap
from tracoco.losses.weighting import masked_mean, most_likely, sigmoid_rampup
from tracoco.methods import (
    bcp,
    caml,
    dcnet,
    dhc,
    dmd,
    dtc,
    ict,
    lg_er_mt,
    masked_autoencoder,
    patchcl,
    ps_mt,
    scc,
    sdcl,
    ss_net,
    tracoco_as_released,
    tri_u_mt,
    urpc,
)
from tracoco.methods.parts import context_contrast, independence, two_heads
from tracoco.methods.parts.weak_to_strong import LabelledView
from tracoco.networks import build_network
from tracoco.settings import LossConfig


def labels_of(form: LossConfig, logits: Tensor, label: Tensor) -> Ours:
    """What labels teach, in one of the forms that releases have."""
    return Ours(logits, lambda z: supervised_loss(z, label, None, form))


def unsure_teacher(logits: Tensor) -> Tensor:
    """UA-MT at its first step: the mean of the teacher's passes is its prediction here."""
    threshold = 0.75 + 0.25 * sigmoid_rampup(0, 1)
    return consistency.mse_loss(
        logits, PREDICTION, consistency.normalised_entropy(PREDICTION) < threshold
    )


def unsure_student(logits: Tensor) -> Tensor:
    """AC-MT at its first step."""
    unsure = consistency.normalised_entropy(logits.detach().softmax(dim=1))
    return consistency.mse_loss(logits, PREDICTION, unsure >= 0.75 + 0.2 * sigmoid_rampup(0, 1))


def confident(logits: Tensor) -> Tensor:
    """PS-MT, with the mean logits of two teachers."""
    both = ((SECOND + THIRD) / 2).softmax(dim=1)
    return ps_mt.confident_ce_loss(logits, both, EVERYWHERE, threshold=0.5)


def cross_teaching(logits: Tensor) -> Tensor:
    """Each network's hard labels teach the other by their Dice."""
    return (
        class_dice_losses(logits, most_likely(SECOND)).mean()
        + class_dice_losses(SECOND, most_likely(FIRST)).mean()
    )


def independent(logits: Tensor) -> Tensor:
    """MC-CauSSL's consistency; its targets have no gradient."""
    return consistency.mutual_loss([logits, SECOND, THIRD], temperature=0.5, detached=True)


def contrast(features: Tensor) -> Tensor:
    """CAC in both directions."""
    second = numbers([0.5, 0.9, -0.1], [0.1, 0.7, 0.9], [0.8, 0.2, 0.6])
    bank = numbers([0.3, 0.9, 0.2], [-0.7, 0.1, 0.6], [0.9, 0.4, -0.1], [0.2, -0.8, 0.5])
    own = context_contrast.Points(
        F.normalize(features, dim=1), numbers(0.6, 0.95, 0.8), torch.tensor([0, 1, 1])
    )
    other = context_contrast.Points(
        F.normalize(second, dim=1), numbers(0.9, 0.7, 0.78), torch.tensor([0, 1, 0])
    )
    strangers = context_contrast.Bank(F.normalize(bank, dim=1), torch.tensor([1, 0, 1, 2]))
    return context_contrast.contrast_loss(own, other, strangers, threshold=0.75, temperature=0.1)


def relation(features: Tensor) -> Tensor:
    """CAML's second term."""
    peer, bank = numbers([0.1, 0.15], [-0.2, 0.25]), numbers([0.3, 0.1], [-0.2, 0.4], [0.5, -0.3])
    return caml.relation_loss(features, peer, bank, temperature=0.1)


def separation(features: Tensor) -> Tensor:
    """SS-Net's term of one class."""
    prototypes = numbers([0.9, 0.1, 0.4], [-0.3, 1.1, 0.2])
    return ss_net.separation_loss(features, prototypes, numbers(0.5, -1.0, 2.0))


def class_vectors(labelled: Tensor) -> Tensor:
    """SCC's contrast of two classes."""
    unlabelled = numbers([[0.9, 0.1], [0.35, 0.65]], [[0.25, 0.75], [0.5, 0.5]])
    return scc.class_contrast(labelled.float(), unlabelled.float(), temperature=1.0).double()


def filters(own: Tensor) -> Tensor:
    """CauSSL's dependence of two filters on three others."""
    others = numbers([0.5, -1.0, 2.0], [1.0, 0.0, 1.0], [0.3, 0.3, -0.4])
    return independence.dependence(own, others, numbers([0.2, 1.0, -0.5], [1.5, -0.3, 0.4]))


def patches(embeddings: Tensor) -> Tensor:
    """PatchCL's contrast with three classes, all of them present."""
    means = numbers([0.5, 0.2], [-0.1, 0.7], [0.3, -0.4])
    spreads = numbers(
        [[0.02, 0.01], [0.01, 0.03]], [[0.05, 0.0], [0.0, 0.01]], [[0.01, -0.005], [-0.005, 0.02]]
    )
    present = torch.ones(3, dtype=torch.bool)
    classes = patchcl.ClassDistributions(means.float(), spreads.float(), present)
    losses = patchcl.distribution_contrast(
        embeddings, torch.tensor([0, 1]), classes, temperature=0.5, spread=4.0, negatives=4096.0
    )
    return losses.mean()


def three_tasks(logits: Tensor) -> Tensor:
    """Tri-U-MT's consistency with a teacher of two passes."""

    def outputs(masks: Tensor, distances: Tensor, pictures: Tensor) -> tri_u_mt.TaskOutputs:
        return tri_u_mt.TaskOutputs(masks, 2 * distances.sigmoid() - 1, pictures.sigmoid())

    teacher = Passes(
        outputs(PEER, SECOND[:, 2:], FIRST[:, :2] / 2),
        outputs(LAST, THIRD[:, 2:], SECOND[:, 1:] / 2),
    )
    targets = tri_u_mt.ask_teacher(teacher, TWO, dropout=0.0, noise=0.0, passes=2)  # type: ignore[arg-type]  # a stand-in
    own = tri_u_mt.unit_maps(outputs(logits, FIRST[:, 2:], THIRD[:, :2]))
    return tri_u_mt.target_loss(own, targets, EVERYWHERE)


def square_distances(maps: Tensor) -> Tensor:
    """Signed distances of a square of 3 voxels in a crop of 5."""
    label = torch.zeros(1, 5, 5, dtype=torch.long)
    label[:, 1:4, 1:4] = 1
    valid = torch.ones_like(label, dtype=torch.bool)
    target = two_heads.signed_distances(label, valid, 2).double()
    return two_heads.distance_loss(maps[None, None], target, valid.unsqueeze(1))


def discriminated(verdict: Tensor) -> Tensor:
    """SASSNet's network, where its discriminator says this of the unlabelled crops."""
    build = partial(
        build_network, name="light-unet", channels=1, classes=2, dimensions=2, filters=4
    )
    settings = {"unsupervised_weight": 1.0, "discriminator_filters": 4}
    method = build_method("sassnet", build, classes=2, steps=1, dimensions=2, settings=settings)
    discriminator = method.get_submodule("discriminator")
    discriminator.part = Told(verdict, verdict.detach())
    label = torch.zeros(2, 16, 16, dtype=torch.long)
    term: Tensor = method(batch_of((16, 16), label), 1).terms["adversarial"]
    return term


def copy_pasted(logits: Tensor) -> Tensor:
    """The sum of BCP's terms; the box is the first half of a column of four voxels."""
    box = torch.tensor([True, True, False, False]).reshape(4, 1)
    settings = {"pretrain": 0.0, "largest_component": False}
    column = logits.reshape(2, 2, 4, 1)
    guessed = F.one_hot(torch.tensor([[1, 0, 0, 1], [0, 1, 1, 0]]), 2).movedim(-1, 1)
    method = build_method("bcp", nn.Identity, classes=2, steps=1, dimensions=2, settings=settings)
    method.loss = LossConfig(
        cross_entropy=0.5, dice=0.5, dice_background=True, dice_per_crop=True, dice_linear=True
    )
    # Single precision as in a run: that of the sum is the last digit of the page.
    method.student = Told(column[:1], column[1:])
    teacher = method.get_submodule("teacher")
    teacher.network = Told(*guessed.reshape(2, 2, 4, 1).float().split(1))
    with patch.object(bcp, "draw_box", return_value=box):
        terms = method(batch_of((4, 1), BINARY), 1).terms
    return torch.stack(list(terms.values())).sum()


def strong_view(logits: Tensor) -> Tensor:
    """FixMatch's second term, where a voxel counts from a confidence of 0.55 on."""
    square = partial(torch.unflatten, dim=-1, sizes=(2, 2))
    settings = {"threshold": 0.55, "cutmix": False}
    method = build_method(
        "fixmatch", nn.Identity, classes=3, steps=1, dimensions=2, settings=settings
    )
    method.network = Told(square(torch.cat([FIRST, SECOND])), square(logits))
    term: Tensor = method(batch_of((2, 2), LABEL), 0).terms["strong"]
    return term


def two_teachers(logits: Tensor) -> Tensor:
    """AD-MT's second term, where a voxel counts from a probability of 0.69 on."""
    square = partial(torch.unflatten, dim=-1, sizes=(2, 2))
    settings: dict[str, object] = {"threshold": 0.69, "cutmix": False, "pseudo_labels": "clean"}
    settings["unsupervised_weight"] = 1.0
    method = build_method("ad-mt", nn.Identity, classes=3, steps=1, dimensions=2, settings=settings)
    method.student = Told(square(torch.cat([FIRST, 1.5 * FIRST.flip(0)])), square(logits))
    for number, told in enumerate((SECOND, THIRD)):
        method.get_submodule(f"teachers.{number}").network = Told(square(told))
    term: Tensor = method(batch_of((2, 2), LABEL), 1).terms["teachers"]
    return term


OVERLAP = Overlap([(Box((0,), (4,)), Box((0,), (4,)))] * 2)
SURE_CLASSES = dcnet.sure_classes((FIRST, SECOND), torch.tensor(0.45))
HIDDEN = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 1]], dtype=torch.bool)
DISTANCES = numbers([[2.0, -1.0, -0.5, 4.0]], [[-3.0, 1.0, 0.2, -0.8]])
"""Signed distances, in thousandths."""
MIXED_LABEL = torch.tensor([[1, 0, 2, 2], [0, 1, 2, 0]])
MIXED_WEIGHT = numbers(0.5, 0.5, 1.0, 1.0).expand(2, 4)
"""SDCL's voxels: the first two of each crop have pseudo-labels."""
DIFFER = most_likely(FIRST) != most_likely(SECOND)
CASES: dict[str, Ours] = {
    "half CE and squared Dice of the foreground": labels_of(
        LossConfig(cross_entropy=0.5, dice=0.5), TWO, BINARY
    ),
    "half CE and squared Dice of all classes": labels_of(
        LossConfig(cross_entropy=0.5, dice=0.5, dice_background=True), FIRST, LABEL
    ),
    "squared Dice of the foreground": labels_of(LossConfig(cross_entropy=0.0), TWO, BINARY),
    "half linear Dice of the foreground": labels_of(
        LossConfig(cross_entropy=0.0, dice=0.5, dice_linear=True, dice_smooth=1e-8), TWO, BINARY
    ),
    "squared Dice of all classes": labels_of(
        LossConfig(cross_entropy=0.0, dice_background=True), FIRST, LABEL
    ),
    "cross-entropy": labels_of(LossConfig(dice=0.0), FIRST, LABEL),
    "mean-teacher": Ours(FIRST, lambda z: consistency.mse_loss(z, PREDICTION)),
    "ua-mt": Ours(FIRST, unsure_teacher),
    "ict": Ours(FIRST[:1], lambda z: consistency.mse_loss(z, ict.blend(PREDICTION, numbers(0.25)))),
    "ac-mt": Ours(FIRST, unsure_student),
    "entropy": Ours(FIRST, lambda z: masked_mean(consistency.normalised_entropy(z.softmax(dim=1)))),
    "lg local": Ours(
        FIRST, lambda z: lg_er_mt.similarity_loss(z.softmax(dim=1), PREDICTION, EVERYWHERE)
    ),
    "lg global": Ours(
        FIRST,
        lambda z: lg_er_mt.information_difference(z.softmax(dim=1), PREDICTION, EVERYWHERE),
    ),
    "lg entropy": Ours(
        FIRST, lambda z: masked_mean(consistency.normalised_entropy(z.softmax(dim=1)))
    ),
    "fixmatch": Ours(FIRST, strong_view),
    "unimatch": Ours(
        FIRST, lambda z: LabelledView(z, EVERYWHERE, most_likely(SECOND), SURE).dice(z)
    ),
    "cps": Ours(
        FIRST,
        lambda z: semi_supervised_loss(
            (z, SECOND), (FIRST.softmax(dim=1), PREDICTION), None, consistency.ce_loss
        ),
    ),
    "cross-teaching": Ours(FIRST, cross_teaching),
    "ps-mt": Ours(FIRST, confident),
    "dmd": Ours(
        TWO,
        lambda z: dmd.soft_dice_loss((z / 2).softmax(dim=1), (PEER / 2).softmax(dim=1), EVERYWHERE),
    ),
    "mc-net": Ours(TWO, lambda z: consistency.mutual_loss([z, PEER])),
    "mc-net-plus": Ours(TWO, lambda z: consistency.mutual_loss([z, PEER, LAST])),
    "mc-caussl cons": Ours(FIRST, independent),
    "mc-caussl dep": Ours(numbers([1.0, 1.0, 0.5], [0.0, 2.0, -1.0]), filters),
    "urpc": Ours(FIRST, lambda z: urpc.pyramid_loss([z, SECOND, THIRD], EVERYWHERE)),
    "dtc": Ours(
        TWO, lambda z: dtc.dual_task_loss(z, DISTANCES / 1000, EVERYWHERE, steepness=1500.0)
    ),
    "dtc distances": Ours(
        DISTANCES, lambda k: dtc.dual_task_loss(TWO, k / 1000, EVERYWHERE, steepness=1500.0)
    ),
    "sdm": Ours((torch.arange(25, dtype=torch.float64) / 25 - 0.5).reshape(5, 5), square_distances),
    "sassnet adv": Ours(numbers([0.3, -0.2], [1.1, 0.4]), discriminated),
    "ss-net sep": Ours(numbers([0.6, -0.8, 0.3], [1.0, 0.5, -0.2], [-0.4, 0.9, 1.2]), separation),
    "ss-net dist2": Ours(
        TWO, lambda z: consistency.prediction_distance(z.softmax(dim=1), PEER.softmax(dim=1))
    ),
    "ss-net dist3": Ours(
        FIRST, lambda z: consistency.prediction_distance(z.softmax(dim=1), PREDICTION)
    ),
    "scc": Ours(numbers([[0.7, 0.3], [0.2, 0.8]], [[0.6, 0.4], [0.45, 0.55]]), class_vectors),
    "cac": Ours(numbers([0.6, 0.8, 0.1], [-0.2, 0.9, 0.5], [1.0, -0.3, 0.4]), contrast),
    "caml o": Ours(numbers([0.2, -0.1], [0.05, 0.3]), relation),
    "bcp": Ours(TWO, copy_pasted),
    "sdcl correct": Ours(FIRST, lambda z: sdcl.correct_loss(z, MIXED_LABEL, MIXED_WEIGHT, DIFFER)),
    "sdcl erase": Ours(FIRST, lambda z: sdcl.erase_loss(z, MIXED_LABEL, MIXED_WEIGHT, DIFFER)),
    "ad-mt": Ours(FIRST, two_teachers),
    "crossmatch": Ours(
        TWO,
        lambda z: LabelledView(
            z, EVERYWHERE, most_likely(PEER), PEER.softmax(dim=1).amax(dim=1) >= 0.65
        ).dice(z, background=False),
    ),
    "dhc ce": Ours(
        FIRST, lambda z: dhc.weighted_cross_entropy(z, most_likely(SECOND), EVERYWHERE, WEIGHTS)
    ),
    "dhc dice": Ours(FIRST, lambda z: dhc.weighted_dice_loss(z, LABEL, EVERYWHERE, WEIGHTS)),
    "dhc rarity": Ours(numbers(900, 90, 10), lambda counts: dhc.rarity(counts.detach())[1]),
    "dcnet dc": Ours(
        FIRST,
        lambda z: dcnet.follow_loss((z, SECOND), SURE_CLASSES, EVERYWHERE, temperature=0.5),
    ),
    "dcnet ce": Ours(
        FIRST,
        lambda z: dcnet.cross_label_loss(
            (z, SECOND), SURE_CLASSES, EVERYWHERE, everywhere=torch.tensor(data=False)
        ),
    ),
    "dcnet at": Ours(FIRST, lambda z: dcnet.attention_loss(z, SECOND, EVERYWHERE)),
    "tri-u-mt": Ours(TWO, three_tasks),
    "patchcl": Ours(F.normalize(numbers([0.6, 0.8], [-0.3, 0.9]), dim=1), patches),
    "masked": Ours(
        FIRST[:, :1], lambda z: masked_autoencoder.reconstruction_loss(z, SECOND[:, :1], HIDDEN)
    ),
    "tracoco crc": Ours(
        TWO,
        lambda z: tracoco_as_released.binary_crc(
            z, PEER.softmax(dim=1), EVERYWHERE, gamma=0.65, beta=0.35
        ),
    ),
    "tracoco spatial": Ours(
        TWO, lambda z: tracoco_as_released.spatial_divergence(z, PEER, OVERLAP)
    ),
    "tracoco entropy": Ours(
        TWO, lambda z: tracoco_as_released.clamped_negative_entropy(z, PEER, OVERLAP)
    ),
}
"""By the names that the file has for them."""
