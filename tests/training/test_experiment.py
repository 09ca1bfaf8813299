import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from samples import make_project, measured, write_balls

from tracoco.config import ADDED_LATER, recorded_settings
from tracoco.console import progress_console
from tracoco.errors import UserError
from tracoco.files import digest
from tracoco.inference.predictor import Predictor
from tracoco.presets import load_config
from tracoco.project.create import init_project
from tracoco.project.folder import Project
from tracoco.project.plan import write_plan
from tracoco.project.prepare import prepare
from tracoco.project.store import Store, StoredCase
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import read_log
from tracoco.studies.benchmark.grid import RunSpec
from tracoco.training.announcement import announcement, warnings
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.train import train

ALONE = Process(0, 1, torch.device("cpu"))
SHORT = ["training.steps=2", "network.filters=4", "data.workers=0", "data.crop=[16, 16, 16]"]


def test_a_run_folder_says_everything_before_the_first_step(
    project: Project, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    changes = ["method.gamma=0.7", "training.unlabelled_weight=scheduled", *SHORT]
    train(project, load_config(None, changes), out, device="cpu")
    folder = RunFolder(out)
    config = folder.config()
    assert config.method.settings["gamma"] == 0.7
    assert config.method.settings["entropy_weight"] == 0.1  # spelt out, though not given
    assert config.data.crop == (16, 16, 16)
    assert folder.plan() == project.load_plan()
    assert folder.splits() == project.load_splits()
    facts = folder.facts()
    assert facts.torch == torch.__version__
    assert facts.splits == project.load_splits().hash()
    assert facts.labelled_share is not None
    assert 0 < facts.labelled_share < 0.2
    assert (facts.select_on, facts.hidden_labels) == ("validation", 0)
    assert facts.computed is not None
    assert (facts.computed.precision, facts.computed.notes) == ("fp32", ())
    log = read_log(folder.log_file)
    assert [record.step for record in log] == [0, 1]
    assert set(log[0].terms) == {"supervised", "crc", "translation", "entropy"}
    assert {"class/0", "class/1", "likely", "unlikely", "agreement"} <= set(measured(log[0].health))
    assert 0 < log[0].shift <= 0.5
    assert log[-1].validation_dice is not None
    assert 0 <= log[-1].validation_dice <= 1


@pytest.mark.parametrize(
    ("sides", "turns"),
    [
        ((1.0, 1.005, 2.0), True),
        ((1.0, 2.0, 2.0), False),
        ((None, None, 2.0), True),  # scans have 1 x 1 x 2 mm
        ((None, 1.0, 1.0), True),
    ],
)
def test_crops_are_turned_where_their_plane_has_square_voxels(
    project: Project, sides: tuple[float | None, ...], *, turns: bool
) -> None:
    experiment = Experiment.of(project, load_config(None, SHORT))
    plan = experiment.plan.model_copy(update={"spacing_mm": sides})
    assert replace(experiment, plan=plan).source(ALONE).rule.turns is turns


def test_crops_are_mirrored_where_the_plan_allows_it(project: Project) -> None:
    experiment = Experiment.of(project, load_config(None, SHORT))
    assert experiment.source(ALONE).rule.flip_axes == ()
    plan = experiment.plan.model_copy(update={"mirror_axes": (0, 2)})
    mirrored = replace(experiment, plan=plan)
    assert mirrored.source(ALONE).rule.flip_axes == (0, 2)
    # A run is not resumed with other axes; older checkpoints, which name none, are like no axes.
    identities = [each.identity(ALONE).to_checkpoint() for each in (experiment, mirrored)]
    assert [each["mirrored axes"] for each in identities] == [None, [0, 2]]


@pytest.mark.parametrize(("second", "turns"), [(1.005, True), (1.02, False)])
@pytest.mark.parametrize("part", ["labelled", "unlabelled"])
def test_one_scan_of_longer_voxels_keeps_all_from_being_turned(
    project: Project, monkeypatch: pytest.MonkeyPatch, part: str, second: float, *, turns: bool
) -> None:
    experiment = Experiment.of(project, load_config(None, SHORT))
    plan = experiment.plan.model_copy(update={"spacing_mm": (None, None, None)})
    longer, read = experiment.splits.parts[part][-1], Store.case

    def case(store: Store, id_: str) -> StoredCase:
        found = read(store, id_)
        return replace(found, spacing_mm=(1.0, second, 2.0)) if id_ == longer else found

    monkeypatch.setattr(Store, "case", case)
    assert replace(experiment, plan=plan).source(ALONE).rule.turns is turns


def test_a_resumed_run_says_how_it_is_computed_now(project: Project, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(project, load_config(None, SHORT), out, device="cpu")
    before = RunFolder(out).facts()
    assert before.computed is not None
    assert not before.computed.checkpointing
    config = load_config(None, [*SHORT, "training.checkpointing=true"])
    train(project, config, out, device="cpu", resume=True)
    after = RunFolder(out).facts()
    assert after == replace(before, computed=replace(before.computed, checkpointing=True))


PLAIN = ["data.augmentation.strength=off"]
OF_0_1_0 = [
    *PLAIN,
    "network.normalisation=instance",
    "network.statistics=joint",
    "network.decoder=pointwise",
    "optimizer.name=sgd",
    "training.ema_decay=0",
    "training.unlabelled_weight=scheduled",
    "training.precision=fp32",
]
"""What 0.1.0 did, in settings that it did not have."""


def test_a_supervised_run_reads_no_unlabelled_crop_and_sees_the_same_labelled_ones(
    project: Project,
) -> None:
    supervised, tracoco = (
        Experiment.of(project, load_config(None, [f"method.name={name}", *SHORT, *PLAIN]))
        for name in ("supervised", "tracoco")
    )
    alone, together = supervised.source(ALONE)[3], tracoco.source(ALONE)[3]
    assert (len(alone.cases), len(together.cases)) == (2, 4)
    assert alone.cases == together.cases[:2]
    assert torch.equal(alone.first.values, together.first.values[:2])
    assert torch.equal(alone.labels, together.labels)


def test_the_seed_decides_the_first_weights(project: Project) -> None:
    def weight(seed: int) -> torch.Tensor:
        config = load_config(None, [f"seed={seed}", *SHORT])
        return next(Experiment.of(project, config).method(ALONE).parameters())

    assert torch.equal(weight(0), weight(0))
    assert not torch.equal(weight(0), weight(1))


def test_without_unlabelled_cases_a_method_that_needs_them_says_so(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=0)
    project = init_project(data, tmp_path / "project")
    prepare(project)
    with pytest.raises(UserError, match="no unlabelled cases"):
        Experiment.of(project, load_config(None, SHORT))
    Experiment.of(project, load_config(None, ["method.name=supervised", *SHORT]))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.unlabelled_batch=0", "data.unlabelled_batch is 0"),
        ("inference.overlap=1.5", "inference.overlap 1.5"),
        ("inference.stride=[16, 16, 17]", "inference.stride [16, 16, 17]"),
        ("data.labelled=4", "data.labelled is 4"),
        ("data.crop=[16, 16]", "has not the 3 axes"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_the_run(
    project: Project, setting: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        Experiment.of(project, load_config(None, [*SHORT, setting, "method.cutmix=false"]))
    assert message in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_store_is_one_line_whatever_the_workers(tmp_path: Path, workers: int) -> None:
    project = make_project(tmp_path)
    for path in project.store_root.glob("*.image.npy"):
        path.write_bytes(path.read_bytes()[:50])
    config = load_config(None, [*SHORT, f"data.workers={workers}"])
    with pytest.raises(
        UserError, match=r"image\.npy is damaged: it is not what was written; .*again$"
    ):
        train(project, config, tmp_path / "run", device="cpu")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("optimizer.lr=0.01", "other optimizer settings"),
        ("data.workers=1", ""),
        ("training.checkpointing=true", ""),
    ],
)
def test_a_run_goes_on_only_with_what_it_began_with(
    project: Project, tmp_path: Path, setting: str, message: str
) -> None:
    train(project, load_config(None, SHORT), tmp_path / "run", device="cpu")
    again = load_config(None, [*SHORT, setting])
    if message:
        with pytest.raises(UserError, match=message):
            train(project, again, tmp_path / "run", resume=True, device="cpu")
    else:
        train(project, again, tmp_path / "run", resume=True, device="cpu")


def test_an_unprepared_project_says_what_to_run(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=2, unlabelled=2)
    project = init_project(data, tmp_path / "project")
    with pytest.raises(UserError, match="tracoco prepare"):
        Experiment.of(project, load_config(None, SHORT))


def test_hidden_labels_are_never_opened_and_the_run_says_how_many_there_are(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path)
    given = project.load_splits()
    for id_ in given.labelled[1:]:  # the store has these labels, but a run without them needs none
        for part in ("label", "foreground"):
            (project.store_root / f"{id_}.{part}.npy").unlink()
    config = load_config(None, [*SHORT, "data.labelled=1", "data.labelled_batch=1"])
    experiment = Experiment.of(project, config)
    assert experiment.splits.labelled == given.labelled[:1]
    assert experiment.splits.unlabelled == given.unlabelled + given.labelled[1:]
    assert (experiment.splits.validation, experiment.splits.test) == (given.validation, given.test)
    assert "1 labelled (2 labels hidden) and 6 unlabelled cases" in announcement(experiment, ALONE)
    # Six unlabelled cases, two a step: three steps see each of them once.
    seen = {case for step in range(3) for case in experiment.source(ALONE)[step].cases[1:]}
    assert seen == set(experiment.splits.unlabelled)
    train(project, config, tmp_path / "run", device="cpu")
    folder = RunFolder(tmp_path / "run")
    assert folder.splits() == experiment.splits
    assert folder.facts().hidden_labels == 2
    assert folder.facts().splits == experiment.splits.hash() != given.hash()
    train(project, config, tmp_path / "run", resume=True, device="cpu")


def test_hidden_labels_make_unlabelled_cases_where_there_were_none(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=4, unlabelled=0)
    config = load_config(None, [*SHORT, "data.labelled=1"])
    assert len(Experiment.of(project, config).splits.unlabelled) == 2
    alone = load_config(None, [*SHORT, "data.labelled=1", "method.name=supervised"])
    experiment = Experiment.of(project, alone)
    assert experiment.config.data.unlabelled_batch == 0
    assert "1 labelled (2 labels hidden) and 0 unlabelled" in announcement(experiment, ALONE)


def test_a_2d_project_gives_its_stride_as_its_crop(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=2, unlabelled=2)
    project = init_project(data, tmp_path / "project", dimensions=2)
    prepare(project)
    short = ["data.crop=[16, 16]", "method.cutmix=false"]
    for stride in ("[8, 4]", "[1, 8, 4]"):
        Experiment.of(project, load_config(None, [*short, f"inference.stride={stride}"]))
    with pytest.raises(UserError, match=r"inference\.stride \[8, 8, 4\]"):
        Experiment.of(project, load_config(None, [*short, "inference.stride=[8, 8, 4]"]))


@pytest.mark.parametrize("network", ["light-unet", "unet"])
def test_a_2d_project_trains_on_slices_and_predicts_volumes(tmp_path: Path, network: str) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=2)
    project = init_project(data, tmp_path / "project", validation=1, dimensions=2)
    prepare(project)
    settings = ["training.steps=2", "network.filters=4", f"network.name={network}"]
    out = tmp_path / "run"
    config = load_config(None, [*settings, "data.crop=[32, 16]", "data.workers=0"])
    train(project, config, out, device="cpu")
    case = project.load_cases()[0]
    prediction = Predictor.load(out, device="cpu")(case.images[0])
    assert prediction.label.shape == (26, 24, 20)
    assert set(np.unique(prediction.label)) <= {0, 1}
    # The plan takes four slices of each kind, but there are two scans to take them from.
    assert json.loads((out / "facts.json").read_text(encoding="utf-8"))["global_batch"] == 4


def test_a_run_takes_batch_and_levels_from_the_plan_and_writes_them_down(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    sizes = {"batch": (1, 3), "strides": ((2, 2, 1), (1, 2, 2))}
    plan = project.load_plan().model_copy(update=sizes)
    write_plan(project.plan_file, plan)  # nothing that is stored changes
    config = load_config(None, ["training.steps=2", "network.filters=4", "data.workers=0"])
    train(project, config, tmp_path / "run", device="cpu")
    folder = RunFolder(tmp_path / "run")
    assert folder.config().data.batch == (1, 3)
    assert folder.config().network.strides == plan.strides
    assert folder.facts().global_batch == 4
    # Another plan in the project changes nothing for the run, which knows its own.
    write_plan(project.plan_file, plan.model_copy(update={"strides": ()}))
    predictor = Predictor.load(tmp_path / "run", device="cpu")
    assert predictor.method.inference_network().stride == (2, 4, 2)
    assert predictor(project.load_cases()[0].images[0]).label.shape == (26, 24, 20)


def test_a_run_folder_from_before_there_were_levels_predicts_as_it_did(
    project: Project, tmp_path: Path
) -> None:
    given = ["network.strides=[[2, 2, 2], [2, 2, 2], [2, 2, 2]]"]
    train(project, load_config(None, [*SHORT, *given]), tmp_path / "run", device="cpu")
    image = project.load_cases()[0].images[0]
    expected = Predictor.load(tmp_path / "run", device="cpu")(image).label
    folder = RunFolder(tmp_path / "run")
    forget(folder.root / "config.yaml", "network", "strides")
    forget(folder.root / "plan.yaml", None, "strides")
    forget(folder.root / "plan.yaml", None, "batch")
    assert (folder.config().network.strides, folder.plan().strides) == (None, ())
    assert np.array_equal(Predictor.load(tmp_path / "run", device="cpu")(image).label, expected)


def forget(path: Path, group: str | None, key: str) -> None:
    """Take a setting out of a file that was written before there was such a setting."""
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    del (values[group] if group else values)[key]
    path.write_text(yaml.safe_dump(values), encoding="utf-8")


@pytest.mark.slow
def test_compiled_networks_train_resume_and_predict(project: Project, tmp_path: Path) -> None:
    out = tmp_path / "run"
    config = load_config(None, ["training.compile=true", *SHORT])
    train(project, config, out, device="cpu")
    train(project, config, out, resume=True, device="cpu")
    assert [record.step for record in read_log(out / "log.jsonl")] == [0, 1]
    assert Predictor.load(out, device="cpu")(project.load_cases()[0].images[0]).label.shape == (
        26,
        24,
        20,
    )


def test_where_every_case_has_a_label_the_labelled_ones_can_be_used_twice(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=0)
    project = init_project(data, tmp_path / "project")
    prepare(project)
    reused = load_config(None, ["data.reuse_labelled=true", *SHORT])
    batch = Experiment.of(project, reused).source(ALONE)[0]
    # The plan has 4 of each kind for crops so small, but there are 3 scans.
    assert len(batch.cases) == 6
    assert batch.labelled_count == 3
    assert len(set(batch.cases[:3])) == 3
    assert set(batch.cases) <= set(project.load_splits().labelled)


def test_an_epoch_is_of_scans_and_of_slices_where_networks_see_slices(tmp_path: Path) -> None:
    data = write_balls(tmp_path / "data", labelled=3, unlabelled=2)
    volumes = init_project(data, tmp_path / "volumes")
    slices = init_project(data, tmp_path / "slices", dimensions=2)
    for project in (volumes, slices):
        prepare(project)
    assert Experiment.of(volumes, load_config(None, SHORT)).epoch == 3
    flat = [each for each in SHORT if "crop" not in each]
    assert Experiment.of(slices, load_config(None, flat)).epoch == 3 * 20


def test_a_method_that_needs_a_warning_gives_it_at_the_start(project: Project) -> None:
    released = load_config(None, ["method.name=tracoco-as-released", *SHORT])
    assert "spatial axis" in announcement(Experiment.of(project, released), ALONE)
    assert "warning" not in announcement(Experiment.of(project, load_config(None, SHORT)), ALONE)


def flat_project(root: Path) -> Project:
    data = write_balls(root / "data", labelled=2, unlabelled=2)
    project = init_project(data, root / "project", dimensions=2)
    prepare(project)
    return project


def test_a_run_whose_crops_have_no_room_to_translate_says_so(tmp_path: Path) -> None:
    project = flat_project(tmp_path)
    flat = [each for each in SHORT if "crop" not in each]

    def warned(*changes: str) -> str:
        return "\n".join(warnings(Experiment.of(project, load_config(None, [*flat, *changes]))))

    still = warned("data.crop=[32,32]")
    assert still.startswith("warning: 4 of 4 scans leave crops of 32 x 32 voxels no room to")
    assert "data.room=0.25" in still
    assert warned("data.crop=[16,16]") == ""
    assert warned("data.crop=[32,32]", "data.room=0.25") == ""
    assert warned("data.crop=[32,32]", "data.overlap=full") == ""
    assert warned("data.crop=[32,32]", "method.name=cps") == ""
    # The log of the run itself shows it too.
    for room, moves in ((0.0, False), (0.25, True)):
        settings = [*flat, "data.crop=[32,32]", f"data.room={room}"]
        run = tmp_path / f"room-{room}"
        train(project, load_config(None, settings), run, device="cpu")
        shifts = [record.shift for record in read_log(run / "log.jsonl")]
        assert all((shift > 0) is moves for shift in shifts)


def test_the_warnings_are_shown_at_the_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project = flat_project(tmp_path)
    flat = [each for each in SHORT if "crop" not in each]
    config = load_config(None, [*flat, "data.crop=[32,32]"])
    train(project, config, tmp_path / "run", device="cpu", console=progress_console())
    assert "warning: 4 of 4 scans leave crops" in "".join(capfd.readouterr())


def test_a_run_says_which_settings_of_its_preset_were_dropped(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    small = [*SHORT, "data.labelled=2", "inference.stride=null", "network.name=light-unet"]
    for name, dropped in (("cps", "consistency_weight, entropy_weight, gamma"), ("tracoco", "")):
        config = load_config("la-8", [f"method.name={name}", *small])
        lines = "\n".join(warnings(Experiment.of(project, config)))
        assert (f"not applied to '{name}'" in lines) is bool(dropped)
        assert dropped in lines


def test_slices_are_sampled_in_2d_alone(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="slice_sampling=uniform is for 2D projects"):
        Experiment.of(
            make_project(tmp_path), load_config(None, [*SHORT, "data.slice_sampling=uniform"])
        )


def test_a_run_of_0_1_0_is_resumed_and_found_though_there_are_new_settings(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    old = [*SHORT, *OF_0_1_0, "training.save_every=1"]
    run, config = tmp_path / "run", load_config(None, old)
    train(project, config, run, device="cpu")
    checkpoint = torch.load(run / "last.pt", weights_only=True)
    # What 0.1.0 wrote had none of these keys.
    for group, added in ADDED_LATER.items():
        assert not added.keys() & (checkpoint[f"{group} settings"] or {}).keys()
    train(project, config, run, resume=True, device="cpu")
    changed = load_config(None, [*old, "data.room=0.25"])
    with pytest.raises(UserError, match=r"data settings: \{'room': None\}, now \{'room': 0.25\}"):
        train(project, changed, run, resume=True, device="cpu")
    plain, roomy = (RunSpec(None, words).folder(run, 0) for words in ((), ("data.room=0.25",)))
    assert plain != roomy
    assert plain == RunSpec(None, ("data.room=0.0", "method.negative_gate=class")).folder(run, 0)
    # Nor has its run folder: what is missing there is read as what 0.1.0 did.
    values = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    for group, added in ADDED_LATER.items():
        values[group] = {key: value for key, value in values[group].items() if key not in added}
    (run / "config.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    read = RunFolder(run).config()
    assert recorded_settings(read) == recorded_settings(RunFolder(run).config())
    assert (read.network.normalisation, read.optimizer.name) == ("instance", "sgd")
    assert not read.data.augmentation.active
    Predictor.load(run, device="cpu")


def test_a_run_with_the_old_names_of_settings_is_resumed_and_found(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    run, config = tmp_path / "run", load_config(None, [*SHORT, "method.gamma=0.7"])
    train(project, config, run, device="cpu")
    # As 0.1.0 wrote them.
    values = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    checkpoint = torch.load(run / "last.pt", weights_only=True)
    for method in (values["method"], checkpoint["method settings"]):
        method["likely"], method["unlikely"] = method.pop("gamma"), method.pop("beta")
    (run / "config.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    torch.save(checkpoint, run / "last.pt")
    assert RunFolder(run).config().method.settings["gamma"] == 0.7
    train(project, config, run, resume=True, device="cpu")
    other = load_config(None, [*SHORT, "method.gamma=0.6"])
    with pytest.raises(UserError, match=r"method settings: \{'gamma': 0.7\}, now \{'gamma': 0.6\}"):
        train(project, other, run, resume=True, device="cpu")


def test_the_folder_of_a_grids_run_has_the_name_that_0_1_0_gave_it(tmp_path: Path) -> None:
    settings = recorded_settings(RunSpec(None, ()).config(0))
    method = settings["method"]
    method["likely"], method["unlikely"] = method.pop("gamma"), method.pop("beta")
    del settings["seed"]
    assert RunSpec(None, ()).folder(tmp_path, 0).name.split("-")[1] == digest([settings, ""])[:8]
