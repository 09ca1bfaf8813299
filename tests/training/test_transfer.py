"""`train --init-from` with pre-trained features and with weights from elsewhere."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from samples import make_method
from started_runs import SHORT, equal, first_weights, start
from torch import nn
from typer.testing import CliRunner

import tracoco as tc
from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.methods.method import Method
from tracoco.project.folder import Project
from tracoco.reporting.page import write_report
from tracoco.runs.folder import RunFolder, load_checkpoint, method_state
from tracoco.runs.weights_origin import Loaded, Names, StartingWeights
from tracoco.testing.steps import differing
from tracoco.training import trainer as training
from tracoco.training.transfer import load_networks, read_file, read_rules, renamed

State = dict[str, torch.Tensor]
SUPERVISED = "method.name=supervised"


@pytest.fixture(scope="module")
def features(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "features"
    start(project, out, "method.name=masked-autoencoder", steps=3)
    return out


def facts_of(run: Path) -> StartingWeights:
    found = RunFolder(run).facts().init_from
    assert found is not None
    return found


def loaded_of(run: Path) -> Loaded:
    found = facts_of(run).loaded
    assert found is not None
    return found


def network_state(run: Path, prefix: str = "network.") -> State:
    state = method_state(load_checkpoint(run / "last.pt"))
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def saved(path: Path, content: object) -> Path:
    torch.save(content, path)
    return path


def test_features_go_into_both_networks_and_their_averages_and_heads_stay_drawn(
    project: Project, features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = first_weights(monkeypatch)
    start(project, tmp_path / "run", init_from=features)
    start(project, tmp_path / "drawn")
    began, drawn = seen
    known = network_state(features)
    assert not [name for name in known if name.startswith("head")]
    parts = ("networks.0.", "networks.1.", "averages.0.network.", "averages.1.network.")
    for part in parts:
        assert equal({name: began[f"{part}{name}"] for name in known}, known)
        heads = [name for name in drawn if name.startswith(f"{part}head.")]
        assert heads
        assert equal({name: began[name] for name in heads}, {name: drawn[name] for name in heads})
    assert not torch.equal(began["networks.0.head.weight"], began["networks.1.head.weight"])
    facts = facts_of(tmp_path / "run")
    assert (facts.run, facts.step, facts.kind) == (str(features), 3, "features")
    loaded = loaded_of(tmp_path / "run")
    assert (loaded.networks, loaded.peers) == (4, 2)
    assert loaded.tensors == len(known) == loaded.tensors_of - 2
    assert loaded.missing == Names(2, ("head.weight", "head.bias"))
    assert loaded.fraction > 0.95
    assert "init_from.loaded.tensors" in write_report(tmp_path / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["mean-teacher", "mc-net", "tri-u-mt", "urpc", "patchcl"])
def test_every_kind_of_method_takes_features(name: str) -> None:
    source = make_method("masked-autoencoder", 2)
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(1)
    method = make_method(name, 2)
    loaded = load_networks(method, dict(source.network.state_dict()), "here")
    assert loaded.peers == 1
    first = next(part for part in method.modules() if type(part) is type(source.network))
    assert equal(dict(first.state_dict()), dict(source.network.state_dict()))
    if name == "mean-teacher":  # which starts as a copy of its student
        state = method.state_dict()
        assert all(
            torch.equal(value, state[key.replace("student.", "teacher.network.", 1)])
            for key, value in state.items()
            if key.startswith("student.")
        )


def test_a_run_from_features_resumes_exactly_and_keeps_what_was_loaded(
    project: Project, features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = start(project, tmp_path / "whole", SUPERVISED, steps=4, init_from=features)
    out = tmp_path / "run"
    save = training.Trainer.save

    def killed(trainer: training.Trainer, name: str) -> None:
        if trainer.step == 1:  # before the first checkpoint is there
            raise KeyboardInterrupt
        save(trainer, name)

    with monkeypatch.context() as patch:
        patch.setattr(training.Trainer, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            start(project, out, SUPERVISED, steps=4, init_from=features)
    before = facts_of(out)
    assert differing(start(project, out, SUPERVISED, steps=4, resume=True), whole) == []
    assert facts_of(out) == before == facts_of(tmp_path / "whole")


def test_features_of_another_network_are_refused_with_what_differs(
    project: Project, features: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"network.filters 4 there and 8 here.*--set 'network.f"):
        start(project, tmp_path / "run", "network.filters=8", init_from=features)
    assert not (tmp_path / "run").exists()
    # Another decoder only costs the decoder.
    start(project, tmp_path / "run", SUPERVISED, "network.decoder=pointwise", init_from=features)
    loaded = loaded_of(tmp_path / "run")
    assert loaded.other_shape.count > 0
    assert all(name.startswith("decoder.") for name in loaded.other_shape.first)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"network_weights": state, "name": "nnU-Net"},
        lambda state: {"state_dict": {f"module.{name}": value for name, value in state.items()}},
    ],
)
def test_a_file_is_read_in_each_of_its_forms(tmp_path: Path, wrap: Any) -> None:
    state = dict(nn.Linear(2, 3).state_dict())
    assert equal(read_file(saved(tmp_path / "weights.pth", wrap(state))), state)


def test_weights_of_a_network_of_monai_go_by_their_names(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nets = pytest.importorskip("monai.networks.nets")
    torch.manual_seed(5)
    theirs = nets.SegResNet(3, init_filters=8, in_channels=1, out_channels=2).state_dict()
    file = saved(tmp_path / "weights.pt", {f"module.{k}": v for k, v in theirs.items()})
    network = ("network.name=monai:SegResNet", "network.filters=8")
    seen = first_weights(monkeypatch)
    start(project, tmp_path / "one", *network, SUPERVISED, steps=1, init_from=file)
    one = {k.removeprefix("network."): v for k, v in seen[0].items() if k != "step"}
    assert equal(one, dict(theirs))
    loaded = loaded_of(tmp_path / "one")
    assert (loaded.fraction, loaded.tensors) == (1.0, len(theirs))
    assert facts_of(tmp_path / "one").step == 0
    start(project, tmp_path / "two", *network, "method.name=cps", steps=1, init_from=file)
    two = seen[1]
    drawn = [k for k in theirs if not torch.equal(two[f"networks.0.{k}"], theirs[k])]
    assert drawn == ["conv_final.2.conv.weight", "conv_final.2.conv.bias"]
    assert not torch.equal(two[f"networks.0.{drawn[0]}"], two[f"networks.1.{drawn[0]}"])


def test_the_checkpoint_of_a_run_gives_its_network_to_another_method(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(project, tmp_path / "cps", "method.name=cps", steps=1)
    with pytest.raises(UserError, match=r"method\.name cps there and supervised here") as refused:
        start(project, tmp_path / "run", SUPERVISED, init_from=tmp_path / "cps")
    assert f"--init-from {tmp_path / 'cps' / 'last.pt'}" in str(refused.value)
    seen = first_weights(monkeypatch)
    start(project, tmp_path / "run", SUPERVISED, init_from=tmp_path / "cps" / "last.pt")
    given = network_state(tmp_path / "cps", "networks.0.")
    assert equal(
        {f"network.{name}": value for name, value in given.items()},
        {name: value for name, value in seen[0].items() if name != "step"},
    )
    assert facts_of(tmp_path / "run").step == 1


def test_the_longest_rule_holds_and_only_whole_parts_count() -> None:
    names = ("net.a.weight", "net.a.b.weight", "net.ab.weight", "other")
    state = {name: torch.tensor(float(index)) for index, name in enumerate(names)}
    found = renamed(state, {"net": "x", "net.a": "y", "net.a.b": "z.z"})
    assert list(found) == ["y.weight", "z.z.weight", "x.ab.weight", "other"]
    assert [float(value) for value in found.values()] == [0, 1, 2, 3]
    assert list(renamed({"a.b": state["other"]}, {"a": ""})) == ["b"]
    with pytest.raises(UserError, match=r"no weight begins with 'nett', .*did you mean 'net'"):
        renamed(state, {"nett": "x"})
    with pytest.raises(UserError, match=r"two weights the name 'x\.weight'"):
        renamed(state, {"net.a": "x", "net.ab": "x"})


def test_a_map_brings_names_together_and_is_part_of_the_run(
    project: Project, features: Path, tmp_path: Path
) -> None:
    known = network_state(features)
    theirs = {k.replace("encoder.stages", "backbone"): v for k, v in known.items()}
    assert theirs.keys() != known.keys()
    file = saved(tmp_path / "weights.pt", theirs)
    start(project, tmp_path / "without", SUPERVISED, init_from=file)
    rules = tmp_path / "map.yaml"
    rules.write_text("backbone: encoder.stages\n", encoding="utf-8")
    out = tmp_path / "run"
    start(project, out, SUPERVISED, init_from=file, init_map=rules)
    less, all_ = (loaded_of(tmp_path / part) for part in ("without", "run"))
    assert less.tensors < all_.tensors == len(known)
    assert less.unexpected.count == less.tensors_of - less.tensors - 2
    assert facts_of(out).rules == {"backbone": "encoder.stages"}
    one, two = (
        load_checkpoint(tmp_path / part / "last.pt")["starting weights"]
        for part in ("without", "run")
    )
    assert one != two
    rules.write_text("backbone: encoder\n", encoding="utf-8")
    with pytest.raises(UserError, match="was started with another --init-map"):
        start(project, out, SUPERVISED, resume=True, init_from=file, init_map=rules)
    start(project, out, SUPERVISED, resume=True)


@pytest.mark.parametrize(
    ("text", "named"),
    [("", "must have lines"), ("- a\n", "must have lines"), ("a: 1\n", "must have lines")],
)
def test_a_map_without_pairs_is_refused(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "map.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=named):
        read_rules(path)
    path.write_text("a: [", encoding="utf-8")
    with pytest.raises(UserError, match="is not valid YAML"):
        read_rules(path)
    with pytest.raises(UserError, match="does not exist"):
        read_rules(tmp_path / "none.yaml")


def test_weights_that_fit_nowhere_and_files_without_weights_are_refused(
    project: Project, features: Path, tmp_path: Path
) -> None:
    out, rules = tmp_path / "run", tmp_path / "map.yaml"
    rules.write_text("a: b\n", encoding="utf-8")
    linear = dict(nn.Linear(2, 2).state_dict())

    def refused(named: str, init_from: Path | None, init_map: Path | None = None) -> None:
        with pytest.raises(UserError, match=named):
            start(project, out, SUPERVISED, init_from=init_from, init_map=init_map)
        assert not out.exists()

    refused("none of the weights of .* fits", saved(tmp_path / "a.pt", linear))
    refused("holds no weights", saved(tmp_path / "b.pt", {"epoch": 3}))
    (tmp_path / "c.pt").write_bytes(b"no file of torch")
    refused("cannot be read as tensors alone", tmp_path / "c.pt")
    (tmp_path / "d.safetensors").write_bytes(b"")
    refused(r"give a \.pt or \.pth file", tmp_path / "d.safetensors")
    refused("is not a run", tmp_path / "nowhere")
    refused("--init-map is for weights files", features, rules)
    refused("give them by --init-from FILE", None, rules)
    refused("no weight begins with 'a'", saved(tmp_path / "e.pt", linear), rules)


class Code:
    """What a file must not bring along."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("executed",)


def test_nothing_in_a_file_is_executed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    buffer = io.BytesIO()
    torch.save({"state_dict": Code()}, buffer)
    (tmp_path / "weights.pt").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match="no code in it is executed"):
        read_file(tmp_path / "weights.pt")
    assert "executed" not in capsys.readouterr().out


class Twins(Method):
    """Two networks whose output layers are drawn alike."""

    def __init__(self) -> None:
        super().__init__()
        self.networks = nn.ModuleList(nn.Sequential(nn.PReLU(), nn.PReLU()) for _ in range(2))

    def forward(self, batch: Any, step: int) -> Any:
        raise AssertionError(step, batch)


def test_two_networks_do_not_become_one() -> None:
    with pytest.raises(UserError, match="two networks of the method the same"):
        load_networks(Twins(), {"0.weight": torch.zeros(1)}, "here")


def test_the_command_tells_what_was_loaded_and_warns(
    project: Project, features: Path, tmp_path: Path
) -> None:
    settings = [part for each in [*SHORT, "training.steps=1"] for part in ("--set", each)]
    line = ["train", str(project.root), *settings, "--method", "cps"]
    out = tmp_path / "run"
    found = CliRunner().invoke(app, [*line, "--init-from", str(features), "-o", str(out)])
    assert found.exit_code == 0, found.output
    assert f"cps from {features}, step 3, common recipe, on" in found.stderr
    tensors = loaded_of(out).tensors_of
    assert f"loaded {tensors - 2} of {tensors} tensors, " in found.stderr
    assert "2 drawn (head.weight, head.bias)" in found.stderr
    assert "warning: all 2 networks start from the same weights" in found.stderr
    first = dict(list(network_state(features).items())[:1])
    file = saved(tmp_path / "few.pt", first)
    few = ["--init-from", str(file), "-o", str(tmp_path / "few")]
    found = CliRunner().invoke(app, [*line, *few])
    assert found.exit_code == 0, found.output
    assert "of the network's weights were loaded; --init-map FILE says" in found.stderr
    rules = tmp_path / "map.yaml"
    (name,) = first
    rules.write_text(json.dumps({name: name}), encoding="utf-8")
    mapped = ["--init-from", str(file), "--init-map", str(rules), "-o", str(tmp_path / "mapped")]
    found = CliRunner().invoke(app, [*line, *mapped])
    assert found.exit_code == 0, found.output
    assert "--init-map FILE says" not in found.stderr


def test_python_takes_the_same_options(project: Project, features: Path, tmp_path: Path) -> None:
    rules = tmp_path / "map.yaml"
    rules.write_text("theirs: encoder\n", encoding="utf-8")
    known = {k.replace("encoder.", "theirs."): v for k, v in network_state(features).items()}
    file = saved(tmp_path / "weights.pt", known)
    run = tc.train(
        project,
        method="supervised",
        settings=[*SHORT, "training.steps=1"],
        out=str(tmp_path / "run"),
        init_from=str(file),
        init_map=str(rules),
        device="cpu",
        progress=False,
    )
    assert loaded_of(run.folder).missing.first == ("head.weight", "head.bias")
