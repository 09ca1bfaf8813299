"""The latest embeddings of each class, and how they are distributed."""

import torch
from torch import Tensor, nn

from tracoco.losses.distribution_contrast import ClassDistributions


class ClassQueues(nn.Module):
    """One queue a class; the newest embeddings push the oldest out. Saved with the weights."""

    embeddings: Tensor
    filled: Tensor

    def __init__(self, classes: int, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("embeddings", torch.zeros(classes, length, width))
        self.register_buffer("filled", torch.zeros(classes, dtype=torch.long))

    @torch.no_grad()
    def push(self, embeddings: Tensor, label: Tensor) -> None:
        """Put embeddings [N, D] of some classes, [N], in front of those that are there."""
        classes, length, _ = self.embeddings.shape
        for value in range(classes):
            new = embeddings[label == value].to(self.embeddings.dtype)
            self.embeddings[value] = torch.cat([new, self.embeddings[value]])[:length]
            self.filled[value] = (self.filled[value] + len(new)).clamp(max=length)

    @torch.no_grad()
    def distributions(self) -> ClassDistributions:
        """Mean and covariance of what each queue holds."""
        places = torch.arange(self.embeddings.shape[1], device=self.filled.device)
        held = (places < self.filled.unsqueeze(1)).unsqueeze(2)
        count = self.filled.clamp(min=1).reshape(-1, 1, 1)
        with torch.autocast(self.embeddings.device.type, enabled=False):
            mean = (self.embeddings * held).sum(dim=1, keepdim=True) / count
            apart = (self.embeddings - mean) * held
            covariance = apart.mT @ apart / count
        return ClassDistributions(mean.squeeze(1), covariance, self.filled > 0)
