"""TraCoCo in a plain PyTorch loop: two MONAI networks, 2 labelled and 8 unlabelled volumes.

    python examples/plain_pytorch_loop.py

Takes less than a minute on one CPU core and prints the Dice of volumes that were not trained on.
"""

import torch
from monai.networks.nets import UNet
from torch import Generator, Tensor, nn

import tracoco as tc

SHAPE, CROP = (32, 32, 32), (24, 24, 24)
LABELLED, UNLABELLED, TEST = 2, 8, 4
STEPS = 100


def make_volume(generator: Generator) -> tuple[Tensor, Tensor]:
    """A noisy image [1, X, Y, Z] of a bright and a dark ball, and the label of the bright one."""
    grid = torch.stack(torch.meshgrid(*map(torch.arange, SHAPE), indexing="ij")).float()
    balls = []
    for _ in range(2):
        centre = torch.empty(3, 1, 1, 1).uniform_(8, 24, generator=generator)
        radius = torch.empty(()).uniform_(5, 7, generator=generator)
        balls.append((grid - centre).norm(dim=0) < radius)
    dark, bright = balls[0] & ~balls[1], balls[1]
    noise = torch.randn(SHAPE, generator=generator)
    return (1.0 * bright - 0.5 * dark + 0.5 * noise)[None], bright.long()


def make_network() -> nn.Module:
    """A small network of MONAI with two classes."""
    network: nn.Module = UNet(3, 1, 2, channels=(8, 16, 32), strides=(2, 2), norm="instance")
    return network


def loss_terms(
    networks: nn.ModuleList, batch: list[tc.TensorPair], labels: Tensor, weight: float
) -> dict[str, Tensor]:
    """Eq. (1) of the paper; pairs with a label come first in the batch."""
    first = torch.stack([first for first, _, _ in batch])
    second = torch.stack([second for _, second, _ in batch])
    overlap = tc.losses.Overlap([overlap for _, _, overlap in batch])
    here, there = ([network(crops) for network in networks] for crops in (first, second))
    unlabelled = [logits[len(labels) :] for logits in here]
    views = [(a.log_softmax(1), b.log_softmax(1)) for a, b in zip(here, there, strict=True)]
    supervised = [tc.losses.supervised_loss(logits[: len(labels)], labels) for logits in here]
    crc = tc.losses.semi_supervised_loss(
        (unlabelled[0], unlabelled[1]), (unlabelled[0].softmax(1), unlabelled[1].softmax(1))
    )
    translation = tc.losses.translation_terms(views, overlap)
    return {
        "supervised": supervised[0] + supervised[1],
        "crc": weight * crc,
        **{name: weight * term for name, term in translation.items()},
    }


def draw_batch(
    labelled: list[tuple[Tensor, Tensor]], unlabelled: list[Tensor], generator: Generator
) -> tuple[list[tc.TensorPair], Tensor]:
    """Pairs of two labelled and of two unlabelled volumes, and the labels of the first crops."""
    with_label = [
        tc.crop_pair(torch.cat([image, label[None]]), CROP, generator) for image, label in labelled
    ]
    labels = torch.stack([first[1].long() for first, _, _ in with_label])
    pairs = [(first[:1], second[:1], overlap) for first, second, overlap in with_label]
    chosen = torch.randperm(len(unlabelled), generator=generator)[:2].tolist()
    return pairs + [tc.crop_pair(unlabelled[index], CROP, generator) for index in chosen], labels


def dice(networks: nn.ModuleList, volumes: list[tuple[Tensor, Tensor]]) -> float:
    """Mean Dice of the first network's predictions of whole volumes."""
    scores = []
    for image, label in volumes:
        with torch.no_grad():
            found = networks[0](image[None])[0].argmax(dim=0)
        scores.append(2 * (found * label).sum() / (found.sum() + label.sum()))
    return torch.stack(scores).mean().item()


def train(steps: int = STEPS, seed: int = 0) -> float:
    """Train both networks; the Dice of test volumes."""
    torch.manual_seed(seed)
    generator = Generator().manual_seed(seed)
    labelled = [make_volume(generator) for _ in range(LABELLED)]
    unlabelled = [make_volume(generator)[0] for _ in range(UNLABELLED)]
    test = [make_volume(generator) for _ in range(TEST)]
    networks = nn.ModuleList([make_network(), make_network()])
    optimizer = torch.optim.AdamW(networks.parameters(), lr=5e-3)
    for step in range(steps):
        batch, labels = draw_batch(labelled, unlabelled, generator)
        weight = tc.losses.cosine_rampup(step, steps)
        terms = loss_terms(networks, batch, labels, weight)
        optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimizer.step()
        if step % 20 == 0 or step == steps - 1:
            shown = "  ".join(f"{name} {term.item():.3f}" for name, term in terms.items())
            print(f"step {step}: {shown}")
    return dice(networks.eval(), test)


if __name__ == "__main__":
    print(f"Dice of {TEST} test volumes: {100 * train():.1f} %")
