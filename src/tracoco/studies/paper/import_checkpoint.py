"""A released network as a run: `predict`, `evaluate`, `report` and `context` take it like any.

Files of weights from elsewhere are read without executing anything that they contain.
"""

import os
import pickle
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import torch
from torch import Tensor

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.files import content_hash
from tracoco.methods import resolved_choice
from tracoco.networks.released import WIDEST, Intensities, Released, convert, recognise
from tracoco.presets import load_config
from tracoco.project.plan import Plan
from tracoco.project.splits import Splits
from tracoco.runs.build import resolved, run_method
from tracoco.runs.facts import Facts, Imported
from tracoco.runs.folder import RunFolder, save_checkpoint
from tracoco.settings import checked
from tracoco.studies.paper.case_lists import DATASETS, case_list
from tracoco.studies.paper.downloads import CROPPED, PAPER_DATA

WRAPPERS = ("state_dict", "net", "model", "model_state_dict", "network")
"""Keys under which a file may keep its tensors beside other things."""
PICKLE, ARCHIVE = b"\x80", b"PK"
"""How a pickle and a zip archive start."""
LARGEST_BYTES = 2**31
"""The released files have about 40 MB."""


def read_weights(model: Path) -> Mapping[str, Tensor]:
    """The named tensors of one network; other things that the file keeps are left out."""
    if not model.is_file():
        raise UserError(f"{model} is not a file; give the .pth file that was released")
    if not _may_be_weights(model):
        raise UserError(
            f"{model} is not a file of weights that torch has written; download it again, and see "
            "that it is not a web page"
        )
    size = model.stat().st_size
    if zipfile.is_zipfile(model):
        with zipfile.ZipFile(model) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    if size > LARGEST_BYTES:
        raise UserError(f"{model} has {size:,} bytes, far more than a released network")
    try:
        content = torch.load(model, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{model} holds more than tensors and plain values, and to read it would be to execute "
            "code from the file; ask for a file that was saved from state_dict()"
        ) from error
    except (
        *(RuntimeError, EOFError, zipfile.BadZipFile, ValueError, KeyError),
        *(OSError, AttributeError, TypeError),
    ) as error:
        raise UserError(
            f"{model} is damaged or is not a file of weights; download it again"
        ) from error
    return _unwrapped(content, model)


def _may_be_weights(model: Path) -> bool:
    """Whether it starts as torch's files do: as a zip archive, or older ones as a pickle."""
    with model.open("rb") as file:
        return file.read(2).startswith((PICKLE, ARCHIVE))


def _unwrapped(content: Any, model: Path) -> Mapping[str, Tensor]:
    if _is_state(content):
        return dict(content)
    keys = list(content) if isinstance(content, Mapping) else []
    inner = [key for key in WRAPPERS if key in keys and _is_state(content[key])]
    if len(inner) != 1:
        held = f"the keys {', '.join(map(str, keys[:10]))}" if keys else type(content).__name__
        raise UserError(
            f"{model} holds no single set of named tensors, but {held}; save the state_dict() of "
            "one network alone"
        )
    return dict(content[inner[0]])


def _is_state(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) > 0
        and all(isinstance(key, str) for key in value)
        and all(isinstance(t, Tensor) and t.layout == torch.strided for t in value.values())
    )


METHOD: Final = "supervised"
"""A file holds one network, and this is the method that has one and nothing else."""


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """What came of an import."""

    run: Path
    network: str
    """Our network, e.g. "vnet in 3D with 16 filters"."""
    naming: str
    """The network and the repositories whose names its layers have."""
    layers: int
    tensors: int
    unused: tuple[str, ...]
    """Tensors of the file that a prediction does not need."""
    intensities: Intensities
    notes: tuple[str, ...]


def import_checkpoint(
    model: Path | str,
    preset: str,
    out: Path | str,
    *,
    overrides: Sequence[str] = (),
    intensities: Intensities | None = None,
) -> ImportedRun:
    """Make a run of a released file of weights; on an error nothing is left behind.

    Args:
        model: the `.pth` file. Nothing in it is executed.
        preset: a preset of the data set that it was trained on: its network, crop and windows.
        out: the run's folder, which must not exist.
        overrides: `KEY=VALUE` settings on top of the preset's.
        intensities: `min-max` scales each scan to [0, 1], `stored` keeps the values of its file;
            if not given, what the repository with these names of layers does.
    """
    model, out = Path(model), Path(out)
    if out.exists():
        raise UserError(f"{out} already exists; choose another --out")
    if any(override.strip().startswith("method.") for override in overrides):
        raise UserError("an imported run has no method to set; leave out --set method...")
    dataset = _dataset(preset)
    released = recognise(read_weights(model), str(model))
    wanted = load_config(preset, [*overrides, f"method.name={METHOD}"])
    _check_network(released, wanted, preset, dataset)
    scaling = _intensities(intensities, released)
    config, plan = _settings(wanted, released, dataset, scaling)
    method = run_method(config, plan)
    network = method.inference_network()
    state = convert(released, network)
    network.load_state_dict(state)
    imported = Imported(
        file=str(model.absolute()),
        sha256=content_hash(model),
        preset=preset,
        naming=released.naming.about,
        unused=tuple(released.unused),
        intensities=scaling,
        cases="those of the paper's lists: a file does not say what it was trained on",
    )
    watermark = CROPPED if PAPER_DATA[dataset].label_crop else ""
    facts = Facts(imported=imported, watermark=watermark)
    _write(out, config, plan, _splits(dataset, config), facts, method.state_dict())
    form = f"{config.network.name} in {plan.dimensions}D with {released.filters} filters"
    return ImportedRun(
        out,
        form,
        released.naming.about,
        len(released.naming.layers),
        len(released.tensors) - len(released.unused),
        tuple(released.unused),
        scaling,
        tuple(_notes(released, wanted, plan, scaling, chosen=intensities is not None)),
    )


def _dataset(preset: str) -> str:
    load_config(preset)  # an unknown name is an error with the nearest one
    dataset = preset.partition("-")[0]
    if dataset not in DATASETS:
        raise UserError(
            f"preset '{preset}' is for none of the paper's data sets ({', '.join(DATASETS)}); give "
            "one that is, e.g. la-8-as-released"
        )
    return dataset


def _dimensions(dataset: str) -> int:
    return 2 if dataset == "acdc" else 3


def _check_network(released: Released, config: Config, preset: str, dataset: str) -> None:
    """Refuse a network that is not the preset's; its width is that of the weights."""
    here, there = (config.network.name, _dimensions(dataset)), released.naming
    if here != (there.network, there.dimensions):
        fitting = [
            name
            for name in DATASETS
            if (load_config(name).network.name, _dimensions(name))
            == (there.network, there.dimensions)
        ]
        raise UserError(
            f"{released.source} is {there.about}, but preset '{preset}' has the network "
            f"'{here[0]}' in {here[1]}D; use a preset of {' or '.join(fitting)}"
        )
    if released.filters > WIDEST:
        raise UserError(f"{released.source} has {released.filters} filters; at most {WIDEST} fit")
    classes = _classes(dataset)
    if released.classes != len(classes):
        raise UserError(
            f"{released.source} has {released.classes} classes, the data set of preset '{preset}' "
            f"{len(classes)} ({', '.join(classes)}); use a preset of the data set it was trained on"
        )


def _classes(dataset: str) -> list[str]:
    """Names of the classes as the field's files number them: 0, 1, 2, ..."""
    names = PAPER_DATA[dataset].class_names
    counted = [names[value] for value in range(1, len(names) + 1) if value in names]
    return ["background", *counted]


def _intensities(given: Intensities | None, released: Released) -> Intensities:
    if given is not None and given not in get_args(Intensities):
        raise UserError(
            f"intensities '{given}' are unknown; use {' or '.join(get_args(Intensities))}"
        )
    return given or released.naming.intensities


def _settings(
    config: Config, released: Released, dataset: str, intensities: Intensities
) -> tuple[Config, Plan]:
    """Settings of the run, and a plan that treats the field's files as its releases do."""
    network = config.network.model_copy(update={"filters": released.filters})
    choice = resolved_choice(config.method)
    config = config.model_copy(update={"network": network, "method": choice})
    dimensions, names = _dimensions(dataset), _classes(dataset)
    crop = config.data.crop or ()
    values = {
        "dimensions": dimensions,
        "channels": released.channels,
        "label_values": list(range(len(names))),
        "class_names": names,
        # The files of ACDC have their slices along the first axis.
        "slice_axis": 0 if dimensions == 2 else None,
        "spacing_mm": [None, None, None],
        "crop": [1, *crop] if len(crop) == 2 else list(crop),
        "low_percentile": 0,
        "high_percentile": 100,
        "rescale": intensities == "min-max",
        "resize_slices": dimensions == 2,
    }
    plan = checked(Plan, values, "the plan of the import")
    return resolved(config, plan), plan


def _splits(dataset: str, config: Config) -> Splits:
    """The paper's: a file does not say what it has learnt from."""
    training = case_list(dataset, "train")
    labelled = config.data.labelled or len(training)
    return Splits(
        labelled=tuple(training[:labelled]),
        unlabelled=tuple(training[labelled:]),
        validation=tuple(case_list(dataset, "validation")),
        test=tuple(case_list(dataset, "test")),
    )


def _write(
    out: Path,
    config: Config,
    plan: Plan,
    splits: Splits,
    facts: Facts,
    state: dict[str, Tensor],
) -> None:
    """Write the run beside its place and move it there, so that it is whole or not there."""
    made = out.absolute().with_name(f".{os.getpid()}.{out.name}")
    try:
        made.mkdir(parents=True)
        RunFolder(made).create(config, plan, splits, facts)
        save_checkpoint(RunFolder(made).checkpoint("last"), {"method": state, "step": 0})
        made.rename(out)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _notes(
    released: Released, wanted: Config, plan: Plan, intensities: Intensities, *, chosen: bool
) -> list[str]:
    notes = []
    if released.filters != wanted.network.width:
        notes.append(
            f"the weights have {released.filters} filters, the preset {wanted.network.width}; "
            "the weights decide"
        )
    if intensities == "stored":
        notes.append(
            "intensities stay as they are in the files: give scans that are normalised as those "
            "that the network was trained on"
        )
    elif not chosen and released.naming.namesake:
        notes.append(
            f"{released.naming.namesake} names its layers like TraCoCo, but does not scale "
            "intensities to [0, 1]; for its weights add --intensities stored"
        )
    if plan.dimensions == 2:
        notes.append(
            "slices are those along the first axis, as in the field's HDF5 files; for NIfTI files "
            "set slice_axis to 2 in the run's plan.yaml"
        )
    return notes
