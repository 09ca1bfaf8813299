"""Weights from elsewhere in the networks of a method: read, renamed, matched by name and shape."""

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tracoco.errors import UserError, did_you_mean
from tracoco.methods.method import Method
from tracoco.networks.from_monai import OnlyOutput
from tracoco.networks.network import Network
from tracoco.runs.build import run_method
from tracoco.runs.folder import RunFolder, load_checkpoint, method_state
from tracoco.runs.weights_origin import Loaded, Names, Rules
from tracoco.settings import read_yaml
from tracoco.text import listed

State = dict[str, Tensor]
SUFFIXES = (".pt", ".pth")
WITHIN = ("state_dict", "network_weights")
"""Keys under which files of PyTorch, MONAI and nnU-Net keep the weights of a network."""
WRAPPERS = ("module.", "_orig_mod.")
"""What distributed and compiled networks put before all of their names."""


def read_rules(path: Path) -> Rules:
    """Read a mapping file: lines `their.prefix: our.prefix`."""
    found = read_yaml(path)
    valid = isinstance(found, dict) and found
    if not valid or not all(isinstance(part, str) for pair in found.items() for part in pair):
        raise UserError(
            f"{path} must have lines 'their.prefix: our.prefix', e.g. 'backbone.conv1: "
            "encoder.stages.0.0'"
        )
    return dict(found)


def renamed(state: Mapping[str, Tensor], rules: Rules) -> State:
    """The same weights by our names: for each name the longest rule that it begins with holds."""
    unused = [rule for rule in rules if not any(_begins(name, rule) for name in state)]
    if unused:
        raise UserError(
            f"no weight begins with '{unused[0]}', which --init-map has; "
            f"{did_you_mean(unused[0], _beginnings(state))}"
        )
    found: State = {}
    for name, value in state.items():
        fitting = [rule for rule in rules if _begins(name, rule)]
        rule = max(fitting, key=len, default=None)
        ours = name if rule is None else (rules[rule] + name[len(rule) :]).lstrip(".")
        if ours in found:
            raise UserError(f"--init-map gives two weights the name '{ours}'; correct its lines")
        found[ours] = value
    return found


def _begins(name: str, rule: str) -> bool:
    """Whether a rule is the name or its first parts; half of a part does not count."""
    return name == rule or name.startswith(f"{rule}.") or rule == ""


def _beginnings(names: Iterable[str]) -> list[str]:
    """The names up to each of their dots."""
    parts = (name.split(".") for name in names)
    return list(dict.fromkeys(".".join(each[:n]) for each in parts for n in range(1, len(each))))


def read_file(path: Path) -> State:
    """The weights in a file, by their names there; nothing in the file is executed."""
    if path.suffix not in SUFFIXES:
        raise UserError(
            f"{path} is no weights file that can be read; give a {' or '.join(SUFFIXES)} file with "
            "a state dict, or the folder of a run"
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as tensors alone, and no code in it is executed; save the "
            "network's state_dict() to a file of its own"
        ) from error
    if isinstance(content, dict) and "method" in content and RunFolder(path.parent).begun:
        return run_weights(path)
    state = _state(content)
    if not state:
        raise UserError(
            f"{path} holds no weights; give a state dict, or one under the key "
            f"{' or '.join(repr(key) for key in WITHIN)}"
        )
    return state


def _state(content: Any) -> State:
    """The tensors of a state dict, without what wrappers put before their names."""
    if not isinstance(content, dict):
        return {}
    for key in WITHIN:
        if isinstance(content.get(key), dict):
            content = content[key]
    state = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    while state and (prefix := next((p for p in WRAPPERS if _all_begin(state, p)), "")):
        state = {name.removeprefix(prefix): value for name, value in state.items()}
    return state


def _all_begin(names: Iterable[str], prefix: str) -> bool:
    return all(name.startswith(prefix) for name in names)


def run_weights(checkpoint: Path) -> State:
    """The weights of the network that a run of any method predicts with, or has pre-trained."""
    folder = RunFolder(checkpoint.parent)
    method = run_method(folder.config(), folder.plan())
    method.load_state_dict(method_state(load_checkpoint(checkpoint)))
    (first, *_) = _networks_in(method.inference_network())
    return dict(first.state_dict())


def load_networks(method: Method, state: State, source: str) -> Loaded:
    """Give every network of a method the weights that fit it; what does not fit stays drawn.

    Output layers of several networks that learn stay drawn too: else the networks would be one and
    the same, and could teach each other nothing.
    """
    learning = [each for part in method.trained_networks() for each in _networks_in(part)]
    kinds = tuple({type(network) for network in learning})
    networks = [part for part in method.modules() if isinstance(part, (*kinds, Network))]
    results = []
    for network in networks:
        kept = _output_layer(network) if len(learning) > 1 else ""
        offered = {n: v for n, v in state.items() if not (kept and n.startswith(kept))}
        results.append(_load(network, offered))
    first = results[networks.index(learning[0])]
    if not first.tensors:
        ours, theirs = (
            sorted({".".join(n.split(".")[:2]) for n in s})
            for s in (learning[0].state_dict(), state)
        )
        raise UserError(
            f"none of the weights of {source} fits the network: their names begin with "
            f"{listed(theirs, 3)}, the network's with {listed(ours, 3)}; use the same settings of "
            "the network, or give the names that belong together by --init-map FILE"
        )
    _check_different(learning, source)
    filled = sum(result.tensors > 0 for result in results)
    return replace(first, networks=filled, peers=len(learning))


def _networks_in(part: nn.Module) -> list[nn.Module]:
    """The networks of this package in a part of a method, or the part itself, unwrapped."""
    ours: list[nn.Module] = [each for each in part.modules() if isinstance(each, Network)]
    return ours or [part.network if isinstance(part, OnlyOutput) else part]


def _output_layer(network: nn.Module) -> str:
    """Beginning of the names of the layer that gives the logits: the last one with weights."""
    if isinstance(network, Network):
        return "head."
    layers = [name for name, part in network.named_modules() if [*part.parameters(recurse=False)]]
    return f"{layers[-1]}."


def _load(network: nn.Module, state: State) -> Loaded:
    """Fill one network, and say what came of it."""
    own = network.state_dict()
    fitting = {name: state[name] for name in own if _fits(own[name], state.get(name))}
    network.load_state_dict(fitting, strict=False)
    sizes = {name: weight.numel() for name, weight in network.named_parameters()}
    return Loaded(
        networks=1,
        peers=1,
        tensors=len(fitting),
        tensors_of=len(own),
        fraction=sum(n for name, n in sizes.items() if name in fitting) / sum(sizes.values()),
        missing=Names.of([name for name in own if name not in state]),
        unexpected=Names.of([name for name in state if name not in own]),
        other_shape=Names.of([name for name in own if name in state and name not in fitting]),
    )


def _fits(own: Tensor, given: Tensor | None) -> bool:
    return given is not None and own.shape == given.shape


def _check_different(networks: list[nn.Module], source: str) -> None:
    """Refuse weights that make two networks that learn one and the same."""
    first = dict(networks[0].named_parameters())
    for network in networks[1:]:
        second = dict(network.named_parameters())
        same = first.keys() == second.keys() and all(
            _fits(first[name], second[name]) and torch.equal(first[name], second[name])
            for name in first
        )
        if same:
            raise UserError(
                f"{source} would make two networks of the method the same, which then teach each "
                "other nothing; use a method of one network, e.g. supervised"
            )
