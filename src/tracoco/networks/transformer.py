"""A vision transformer on a map of features (Dosovitskiy et al. 2021), for maps of any size."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-6


class Transformer(nn.Module):
    """Each place of a map becomes a token; all tokens see one another in every layer."""

    def __init__(
        self, channels: int, hidden: int, *, layers: int, heads: int, grid: int, dropout: float
    ) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, hidden, kernel_size=1)
        self.places = nn.Parameter(torch.zeros(1, hidden, grid, grid))
        """What a token knows of its place, on a grid that is stretched over maps of other sizes."""
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(hidden, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden, EPSILON)

    def forward(self, maps: Tensor) -> Tensor:
        """[B, C, X, Y] to [B, hidden, X, Y]."""
        size = maps.shape[2:]
        places = F.interpolate(self.places, size=size, mode="bilinear")
        tokens = self.dropout((self.project(maps) + places).flatten(2).transpose(1, 2))
        for layer in self.layers:
            tokens = layer(tokens)
        seen: Tensor = self.norm(tokens).transpose(1, 2).unflatten(2, size)
        return seen


class Layer(nn.Module):
    """Attention, then two linear layers a token; each adds to what was there."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(hidden, EPSILON), Attention(hidden, heads))
        self.think = nn.Sequential(
            nn.LayerNorm(hidden, EPSILON),
            nn.Linear(hidden, 4 * hidden),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(4 * hidden, hidden),
            nn.Dropout(dropout),
        )
        self.apply(_initialise)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, tokens, hidden] in and out."""
        tokens = tokens + self.attend(tokens)
        thought: Tensor = tokens + self.think(tokens)
        return thought


class Attention(nn.Module):
    """Each token takes the mean of all, weighted by how well their keys answer its query."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.enter = nn.Linear(hidden, 3 * hidden)
        self.leave = nn.Linear(hidden, hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        """[B, tokens, hidden] in and out."""
        parts = self.enter(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind())
        left: Tensor = self.leave(seen.transpose(1, 2).flatten(2))
        return left


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)
