# %% [markdown]
# # Your own loop, with a network of MONAI
#
# The losses and crop pairs of this package work in any training loop. Here two small networks of
# MONAI learn from 2 labelled and 8 unlabelled volumes with the terms of the paper: the supervised
# loss, confident regional cross-entropy (CRC), and translation consistency. Nothing needs a
# project.

# %%
import torch
from matplotlib import pyplot as plt
from monai.networks.nets import UNet

import tracoco as tc

generator = torch.Generator().manual_seed(0)
torch.manual_seed(0)

# %% [markdown]
# ## Volumes
#
# Each has a bright ball to find, a dark ball, and noise.


# %%
def make_volume(size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """An image [1, X, Y, Z] and its label [X, Y, Z]."""
    grid = torch.stack(torch.meshgrid(*[torch.arange(size)] * 3, indexing="ij")).float()
    centres = [torch.empty(3, 1, 1, 1).uniform_(8, 24, generator=generator) for _ in range(2)]
    dark, bright = ((grid - centre).norm(dim=0) < 6 for centre in centres)
    noise = torch.randn(dark.shape, generator=generator)
    return (1.0 * bright - 0.5 * (dark & ~bright) + 0.5 * noise)[None], bright.long()


labelled = [make_volume() for _ in range(2)]
unlabelled = [make_volume()[0] for _ in range(8)]
test = [make_volume() for _ in range(4)]

# %% [markdown]
# ## A crop pair
#
# Two crops of one volume, and the box of their overlap as each of them sees it. The label can be
# cropped along as a further channel.

# %%
first, second, overlap = tc.crop_pair(unlabelled[0], (24, 24, 24), generator)
here, there = overlap
assert torch.equal(first[:, *here.slices], second[:, *there.slices])
here, there

# %% [markdown]
# ## Two networks and the loss terms
#
# Both networks see the first and the second crops. On unlabelled crops each learns from the
# other, and each must give the same prediction in the overlap of its two crops.

# %%
networks = [UNet(3, 1, 2, channels=(8, 16, 32), strides=(2, 2), norm="instance") for _ in range(2)]
weights = [weight for network in networks for weight in network.parameters()]
optimizer = torch.optim.AdamW(weights, lr=5e-3)


def draw_batch() -> tuple[list[tc.TensorPair], torch.Tensor]:
    """Crop pairs of both labelled and of two unlabelled volumes, and the labels of the former."""
    pairs, labels = [], []
    for image, label in labelled:
        first, second, overlap = tc.crop_pair(torch.cat([image, label[None]]), (24,) * 3, generator)
        pairs.append((first[:1], second[:1], overlap))
        labels.append(first[1].long())
    for index in torch.randperm(len(unlabelled), generator=generator)[:2]:
        pairs.append(tc.crop_pair(unlabelled[index], (24,) * 3, generator))
    return pairs, torch.stack(labels)


def loss_terms(step: int, steps: int) -> dict[str, torch.Tensor]:
    """The weighted terms of one step."""
    pairs, labels = draw_batch()
    first = torch.stack([pair[0] for pair in pairs])
    second = torch.stack([pair[1] for pair in pairs])
    logits = [(network(first), network(second)) for network in networks]
    views = [(a.log_softmax(1), b.log_softmax(1)) for a, b in logits]
    free = [a[len(labels) :] for a, _ in logits]
    weight = tc.losses.cosine_rampup(step, steps)
    targets = (free[0].softmax(1), free[1].softmax(1))
    crc = tc.losses.semi_supervised_loss((free[0], free[1]), targets)
    overlap = tc.losses.Overlap([pair[2] for pair in pairs])
    translation = tc.losses.translation_terms(views, overlap)
    supervised = [tc.losses.supervised_loss(a[: len(labels)], labels) for a, _ in logits]
    return {
        "supervised": supervised[0] + supervised[1],
        "crc": weight * crc,
        **{name: weight * term for name, term in translation.items()},
    }


# %%
history: list[dict[str, float]] = []
for step in range(100):
    terms = loss_terms(step, 100)
    optimizer.zero_grad()
    torch.stack(list(terms.values())).sum().backward()
    optimizer.step()
    history.append({name: term.item() for name, term in terms.items()})

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for name in history[0]:
    axes.plot([terms[name] for terms in history], label=name)
axes.set(xlabel="step", ylabel="weighted loss")
axes.legend()
plt.show()

# %% [markdown]
# ## The result on volumes that were not trained on


# %%
def dice(image: torch.Tensor, label: torch.Tensor) -> float:
    """Dice of the first network's prediction."""
    with torch.no_grad():
        found = networks[0].eval()(image[None])[0].argmax(dim=0)
    return float(2 * (found * label).sum() / (found.sum() + label.sum()))


scores = [dice(image, label) for image, label in test]
print(f"Dice of {len(scores)} test volumes: {100 * sum(scores) / len(scores):.1f} %")
