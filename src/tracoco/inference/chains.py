"""Layers of a network of which it is certain that one feeds the next and nothing else."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from torch import nn

Place = tuple[nn.Module, str]
"""The module that holds a layer, and the layer's name there."""

IDLE = (nn.Identity, nn.Dropout, nn.Dropout2d, nn.Dropout3d)
"""Layers that do nothing at test time."""


def layer_at(place: Place) -> nn.Module:
    """The layer that is there now."""
    layer: nn.Module = getattr(*place)
    return layer


def neighbours(network: nn.Module) -> Iterator[tuple[Place, Place]]:
    """Places of two layers that follow one another at test time.

    Both lie in one `Sequential`, are used nowhere else, and nobody watches or changes what goes
    in or comes out.
    """
    uses = Counter(part for _, part in network.named_modules(remove_duplicate=False))
    found = set()
    for chain in network.modules():
        if not _is_chain(chain):
            continue
        busy = [place for place in _layers(chain) if not isinstance(layer_at(place), IDLE)]
        for pair in pairwise(busy):
            layers = [layer_at(place) for place in pair]
            shared = any(uses[layer] > 1 or is_hooked(layer) for layer in layers)
            if not shared and layers[0] not in found:  # chains lie in chains
                found.add(layers[0])
                yield pair


def _is_chain(module: nn.Module) -> bool:
    """Whether a module calls its layers one after the other and does nothing else."""
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _layers(chain: nn.Module) -> Iterator[Place]:
    """The layers of a chain, and of the chains in it, in the order of their calls."""
    for name, layer in vars(chain)["_modules"].items():  # also one that comes a second time
        if _is_chain(layer) and not is_hooked(layer):
            yield from _layers(layer)
        else:
            yield chain, name


def is_hooked(layer: nn.Module) -> bool:
    """Whether others watch or change what goes in or comes out, as weight normalisation does."""
    hooks = vars(layer)
    return bool(hooks["_forward_hooks"] or hooks["_forward_pre_hooks"])
