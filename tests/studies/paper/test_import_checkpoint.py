"""From a released file and the field's HDF5 files to labels, scores, a report and a context."""

import math
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from released_networks import (
    Contrasting,
    PlainUNet2d,
    PlainUNet3d,
    PlainVNet,
    TwoHeads,
    randomised,
)
from samples import make_project
from scipy.ndimage import zoom
from torch import nn
from typer.testing import CliRunner, Result

import tracoco
from tracoco.cli import app
from tracoco.errors import UserError
from tracoco.presets import load_config
from tracoco.project.plan import write_plan
from tracoco.reporting.comparison import compare_runs
from tracoco.runs.folder import RunFolder
from tracoco.scans.reader import read_label
from tracoco.studies.paper import import_checkpoint as weights_file
from tracoco.studies.paper.import_checkpoint import import_checkpoint
from tracoco.training.train import train

WINDOW, STRIDE = (32, 32, 16), (12, 12, 4)
SMALL = ["data.crop=[32, 32, 16]", "inference.stride=[12, 12, 4]"]
SMALL_2D = ["data.crop=[32, 32]", "inference.stride=[32, 32]"]
Volume = NDArray[np.float32]


def save(network: nn.Module, path: Path) -> Path:
    torch.save(network.state_dict(), path)
    return path


def write_case(path: Path, shape: tuple[int, ...], seed: int) -> Volume:
    """Noise with a few bright voxels, which percentiles would clip, and a label."""
    random = np.random.default_rng(seed)
    image = random.normal(0, 1, shape).astype(np.float32)
    image.flat[random.integers(0, image.size, 20)] += 8
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["image"] = image
        file["label"] = (image > 0.5).astype(np.uint8)
    return image


def level(network: nn.Module, head: str, crops: Volume) -> nn.Module:
    """The network with random weights, whose classes are about as frequent in these crops."""
    randomised(network, seed=4)
    last = network.get_submodule(head)
    with torch.no_grad():
        logits = network(torch.from_numpy(crops)[None, None])
        typical = logits.flatten(2).mean(dim=2)[0]
        bias = last.get_parameter("bias")
        bias.copy_(bias - typical[-len(bias) :])
    return network


def min_max(image: Volume) -> Volume:
    low, high = np.float32(image.min()), np.float32(image.max())
    scaled: Volume = ((image - low) / (high - low)).astype(np.float32)
    return scaled


def slide(network: nn.Module, image: Volume) -> NDArray[np.float64]:
    """Mean probabilities of windows at fixed strides, the last ones moved back; zeros around."""
    missing = [max(0, w - n) for n, w in zip(image.shape, WINDOW, strict=True)]
    padded = np.pad(image, [(m // 2, m - m // 2) for m in missing])
    starts = [
        [min(i * s, n - w) for i in range(math.ceil((n - w) / s) + 1)]
        for n, w, s in zip(padded.shape, WINDOW, STRIDE, strict=True)
    ]
    total, count = np.zeros((2, *padded.shape)), np.zeros(padded.shape)
    for x in starts[0]:
        for y in starts[1]:
            for z in starts[2]:
                here = (slice(x, x + 32), slice(y, y + 32), slice(z, z + 16))
                with torch.no_grad():
                    logits = network(torch.from_numpy(padded[here].copy())[None, None])
                total[:, *here] += logits.softmax(dim=1)[0].numpy()
                count[here] += 1
    inner = [slice(m // 2, m // 2 + n) for m, n in zip(missing, image.shape, strict=True)]
    mean: NDArray[np.float64] = (total / count)[:, *inner]
    return mean


def command(*words: object) -> Result:
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def same_labels(found: NDArray[Any], probabilities: NDArray[np.float64]) -> None:
    """The larger of two classes wins, wherever that is more than a matter of rounding."""
    sure = abs(probabilities[1] - probabilities[0]) > 1e-4
    assert sure.mean() > 0.99
    wanted = probabilities[1] > probabilities[0]
    assert 0.02 < wanted.mean() < 0.98, "labels that are all alike would show nothing"
    assert np.array_equal(found[sure], wanted[sure])


@pytest.fixture(scope="module")
def atrium(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An imported run of a narrow VNet, and two cases in folders of their own."""
    root = tmp_path_factory.mktemp("atrium")
    images = {
        name: write_case(root / "data" / name / "mri_norm2.h5", shape, seed)
        for seed, (name, shape) in enumerate({"AAA": (44, 40, 22), "BBB": (36, 30, 13)}.items())
    }
    network = level(PlainVNet(3), "out_conv", min_max(images["AAA"])[:32, :32, :16])
    file, run = save(network, root / "la.pth"), root / "run"
    words = [word for change in SMALL for word in ("--set", change)]
    result = command("import", file, "--preset", "la-8-as-released", "--out", run, *words)
    command("predict", run, root / "data", run / "predictions" / "test")
    return {"root": root, "run": run, "network": network, "images": images, "printed": result}


def test_what_is_printed(atrium: dict[str, Any]) -> None:
    printed = atrium["printed"].stdout
    for line in (
        "recognised   the VNet of TraCoCo and UA-MT",
        "network      vnet in 3D with 3 filters",
        "mapped       59 layers, 205 tensors; none missing, none left over",
        "intensities  scaled to [0, 1] scan by scan",
        "note: the weights have 3 filters, the preset 16; the weights decide",
        "--intensities stored",
        f"next: tracoco predict {atrium['run']} SCANS",
        "TRUTH --protocol paper",
    ):
        assert line in printed
    assert "not used" not in printed


def test_a_prediction_is_that_of_a_plain_sliding_window(atrium: dict[str, Any]) -> None:
    out = atrium["run"] / "predictions" / "test"
    for name, image in atrium["images"].items():
        probabilities = slide(atrium["network"], min_max(image))
        same_labels(read_label(out / f"{name}.nii.gz").array, probabilities)


def test_the_files_are_the_truth_too(atrium: dict[str, Any]) -> None:
    out = atrium["run"] / "predictions" / "test"
    scores = command("evaluate", out, atrium["root"] / "data", "--protocol", "paper").stdout
    assert "left atrium" in scores
    assert "mean of 2" in scores


def test_the_report_says_that_nothing_was_trained(atrium: dict[str, Any]) -> None:
    run = atrium["run"]
    command("evaluate", run / "predictions" / "test", atrium["root"] / "data")
    compared = command("context", run, atrium["root"] / "data", "--shifts", 1).stdout
    assert "AAA" in compared
    assert "BBB" in compared
    command("report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Imported from la.pth, not trained here." in page
    assert "cropped around the truth" in page
    for wrong in ("not finished", "No step is logged", "not been validated", '"method">supervised'):
        assert wrong not in page
    (row,) = compare_runs([run])
    assert (row.method, row.steps) == ("imported", 0)
    assert "imported from la.pth" in row.note
    assert "not finished" not in row.note


def test_a_run_can_start_from_it_but_not_resume_it(atrium: dict[str, Any], tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=2, unlabelled=0, validation=0)
    settings = ["method.name=supervised", "network.name=vnet", "network.filters=3"]
    settings += ["data.crop=[16, 16, 32]", "training.steps=1", "data.workers=0"]
    config, out = load_config(None, settings), tmp_path / "run"
    train(project, config, out, init_from=atrium["run"], device="cpu")
    start = RunFolder(out).facts().init_from
    assert start is not None
    assert start.run == str(atrium["run"])
    with pytest.raises(UserError, match="was imported and not trained"):
        train(project, config, atrium["run"], resume=True, device="cpu")


def test_settings_of_the_preset_stay(tmp_path: Path) -> None:
    file = save(PlainVNet(1), tmp_path / "la.pth")
    done = tracoco.import_checkpoint(file, "la-8-as-released", tmp_path / "run")
    folder = RunFolder(done.run)
    config, plan, splits = folder.config(), folder.plan(), folder.splits()
    assert (config.data.crop, config.inference.stride) == ((112, 112, 80), (18, 18, 4))
    assert (config.inference.weights, config.network.name) == ("uniform", "vnet")
    assert (plan.low_percentile, plan.high_percentile, plan.rescale) == (0, 100, True)
    assert (plan.crop_to_content, plan.spacing_mm) == (False, (None, None, None))
    assert plan.class_names == ("background", "left atrium")
    assert [len(part) for part in splits.parts.values()] == [8, 72, 0, 20]
    imported = folder.facts().imported
    assert imported is not None
    assert (imported.file, imported.preset) == (str(file), "la-8-as-released")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["la.pth", "run"]


@pytest.mark.parametrize(
    ("preset", "network", "head", "intensities"),
    [
        ("brats19-25-as-released", PlainUNet3d(3), "final", "min-max"),
        ("pancreas-6-as-released", TwoHeads(3), "out_conv2", "stored"),
        ("pancreas-12-as-released", Contrasting(3), "decoder.out_conv", "stored"),
    ],
)
def test_other_networks_with_the_scaling_of_their_repository(
    tmp_path: Path, preset: str, network: nn.Module, head: str, intensities: str
) -> None:
    image = write_case(tmp_path / "in" / "data" / "image0001_norm.h5", (36, 34, 18), 5)
    seen = min_max(image) if intensities == "min-max" else image
    level(network, head, seen[:32, :32, :16])
    done = import_checkpoint(
        save(network, tmp_path / "model.pth"), preset, tmp_path / "run", overrides=SMALL
    )
    assert done.intensities == intensities
    assert any("SSL4MIS" in note for note in done.notes) == (intensities == "min-max")
    command("predict", done.run, tmp_path / "in", tmp_path / "out")
    found = read_label(tmp_path / "out" / "image0001.nii.gz").array
    same_labels(found, slide(network, seen))


def test_intensities_can_be_chosen(tmp_path: Path) -> None:
    image = write_case(tmp_path / "a.h5", WINDOW, 5)
    network = level(PlainVNet(3), "out_conv", image)
    file = save(network, tmp_path / "uamt.pth")
    done = import_checkpoint(file, "la-16", tmp_path / "run", overrides=SMALL, intensities="stored")
    command("predict", done.run, tmp_path / "a.h5", tmp_path / "out")
    same_labels(read_label(tmp_path / "out" / "a.nii.gz").array, slide(network, image))
    with pytest.raises(UserError, match="use min-max or stored"):
        import_checkpoint(file, "la-16", tmp_path / "other", intensities="z-score")  # type: ignore[arg-type]  # on purpose


def test_slices_of_acdc_are_resized_as_the_release_does(tmp_path: Path) -> None:
    image = write_case(tmp_path / "in" / "data" / "patient001_frame01.h5", (5, 45, 26), 3)
    write_case(tmp_path / "in" / "data" / "slices" / "patient001_frame01_slice_1.h5", (45, 26), 3)
    network = level(PlainUNet2d(3), "decoder.out_conv", min_max(image)[0, :32, :16])
    done = import_checkpoint(
        save(network, tmp_path / "acdc.pth"),
        "acdc-7-as-released",
        tmp_path / "run",
        overrides=SMALL_2D,
    )
    assert RunFolder(done.run).plan().class_names == ("background", "RV", "Myo", "LV")
    command("predict", done.run, tmp_path / "in", tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.nii.gz"))) == 1
    found = read_label(tmp_path / "out" / "patient001_frame01.nii.gz").array
    expected, sure = [], []
    for plane in min_max(image):
        resized = zoom(plane, (32 / 45, 32 / 26), order=0)
        with torch.no_grad():
            prediction = network(torch.from_numpy(resized)[None, None]).softmax(dim=1)[0]
        top = prediction.topk(2, dim=0).values
        clear = (top[0] - top[1] > 1e-4).numpy().astype(np.uint8)
        sure.append(zoom(clear, (45 / 32, 26 / 32), order=0))
        expected.append(zoom(prediction.argmax(dim=0).numpy(), (45 / 32, 26 / 32), order=0))
    valid = np.stack(sure).astype(bool)
    assert valid.mean() > 0.99
    assert len(np.unique(expected)) > 2
    assert np.array_equal(found[valid], np.stack(expected)[valid])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"net": state, "opt": {"state": {}, "lr": 0.1}},
        lambda state: {f"module.{name}": tensor for name, tensor in state.items()},
    ],
)
def test_wrapped_and_old_files(tmp_path: Path, wrap: Callable[[Any], Any]) -> None:
    network = randomised(PlainVNet(2))
    file = tmp_path / "model.pth"
    torch.save(wrap(network.state_dict()), file, _use_new_zipfile_serialization=False)
    done = import_checkpoint(file, "la", tmp_path / "run")
    predictor = tracoco.Predictor.load(done.run, device="cpu")
    crops = torch.randn(1, 1, 16, 16, 32)
    with torch.no_grad():
        found, expected = predictor.method.predict(crops), network(crops).softmax(dim=1)
    torch.testing.assert_close(found, expected)


class Harmful:
    """Unpickled, it would write a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("harm"),))


def refused(tmp_path: Path, content: Any, preset: str = "la-8-as-released") -> str:
    """The error of a file with this content; nothing else is left behind."""
    file = tmp_path / "model.pth"
    if isinstance(content, bytes):
        file.write_bytes(content)
    else:
        torch.save(content, file)
    with pytest.raises(UserError) as error:
        import_checkpoint(file, preset, tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pth"]
    return str(error.value)


def test_code_in_a_file_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state = PlainVNet(1).state_dict()
    assert "execute code from the file" in refused(tmp_path, state | {"harm": Harmful()})
    assert "execute code from the file" in refused(tmp_path, pickle.dumps(Harmful(), protocol=2))
    assert "execute code from the file" in refused(tmp_path, PlainVNet(1))
    assert not (tmp_path / "harm").exists()


def test_files_that_are_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in (b"<html>not found</html>", b"", b"\x1f\x8bNIfTI"):
        assert "model.pth is not a file of weights that torch has written" in refused(
            tmp_path, other
        )
    torch.save(PlainVNet(1).state_dict(), tmp_path / "model.pth")
    whole = (tmp_path / "model.pth").read_bytes()
    assert "damaged" in refused(tmp_path, whole[: len(whole) // 2])
    assert "no single set of named tensors, but list" in refused(tmp_path, [torch.zeros(1)])
    two = {"net": PlainVNet(1).state_dict(), "model": PlainVNet(1).state_dict()}
    assert "the keys net, model" in refused(tmp_path, two)
    monkeypatch.setattr(weights_file, "LARGEST_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "model.pth", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data", bytes(10**6))
    assert "far more than a released network" in refused(
        tmp_path, (tmp_path / "model.pth").read_bytes()
    )
    with pytest.raises(UserError, match="is not a file"):
        import_checkpoint(tmp_path, "la", tmp_path / "run")


def test_settings_of_a_method_are_refused(tmp_path: Path) -> None:
    torch.save(PlainVNet(1).state_dict(), tmp_path / "model.pth")
    with pytest.raises(UserError, match="an imported run has no method to set"):
        import_checkpoint(
            tmp_path / "model.pth", "la", tmp_path / "run", overrides=["method.noise=1"]
        )
    assert not (tmp_path / "run").exists()


def test_a_network_that_does_not_fit(tmp_path: Path) -> None:
    state = PlainVNet(1).state_dict()
    error = refused(tmp_path, {name: t for name, t in state.items() if "six." not in name})
    assert "18 missing (block_six.conv.0.weight" in error
    assert "1 left over (extra)" in refused(tmp_path, state | {"extra": torch.zeros(1)})
    assert "1 of another shape" in refused(
        tmp_path, state | {"block_one.conv.0.bias": torch.zeros(3)}
    )
    error = refused(tmp_path, state, "acdc-7-as-released")
    assert "has the network 'unet' in 2D; use a preset of la or pancreas" in error
    error = refused(tmp_path, PlainUNet2d(1).state_dict(), "brats19-25")
    assert "use a preset of acdc" in error
    error = refused(tmp_path, PlainVNet(1, classes=5).state_dict())
    assert "has 5 classes" in error
    assert "none of the paper's data sets" in refused(tmp_path, state, "demo")
    assert "did you mean 'la-8-as-released'" in refused(tmp_path, state, "la-8-as-relased")


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    file = save(PlainVNet(1), tmp_path / "la.pth")
    (tmp_path / "run").mkdir()
    with pytest.raises(UserError, match="already exists"):
        import_checkpoint(file, "la", tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = save(PlainVNet(1), tmp_path / "la.pth")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="no space left"):
        import_checkpoint(file, "la", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["la.pth"]


def test_plans_for_imported_networks_are_not_trained_with(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=2, unlabelled=0, validation=0)
    plan = project.load_plan()
    write_plan(project.plan_file, plan.model_copy(update={"rescale": False}))
    with pytest.raises(UserError, match="sets rescale, which is for imported networks"):
        train(project, load_config(None, ["method.name=supervised"]), tmp_path / "run")
