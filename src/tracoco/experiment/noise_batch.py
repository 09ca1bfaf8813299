"""A batch of noise, to learn from it what a step of a training takes."""

import torch

from tracoco.config import Config
from tracoco.data.batches import Batch, Crops
from tracoco.geometry import Index
from tracoco.methods import method_row
from tracoco.project.plan import Plan


def noise_batch(config: Config, plan: Plan, size: Index) -> Batch:
    """Crops of this size in pairs that overlap by three quarters; only what the method looks at."""
    row = method_row(config.method.name)
    labelled, unlabelled = config.data.batch
    count = labelled + (unlabelled if row.taught else 0)
    random = torch.Generator().manual_seed(0)

    def crops(place: Index, length: int) -> Crops:
        shape = (*size[:-1], length)
        values = torch.rand(count, plan.channels, *shape, generator=random)
        return Crops(values, torch.ones(count, *shape, dtype=torch.bool), (place,) * count)

    labels = torch.randint(plan.classes, (labelled, *size), generator=random)
    first = crops((0,) * len(size), size[-1])
    second = crops(tuple(length // 4 for length in size), size[-1] if row.pairs else 0)
    return Batch(first, second, labels, tuple(map(str, range(count))))
