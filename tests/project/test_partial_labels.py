"""Labels that are not drawn everywhere: from `init` to the crops, the validation and the scores."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import PLAIN, write_scan

from tracoco.api.plans import check
from tracoco.api.projects import init, prepare
from tracoco.config import DataConfig
from tracoco.data.crop_pair import CropRule
from tracoco.data.source import BatchSource
from tracoco.errors import UserError
from tracoco.evaluation.evaluate import evaluate
from tracoco.evaluation.scores import Protocol
from tracoco.files import write_json
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.project.preprocess import NOT_OF_DRAWN_INDEX, UNDRAWN_INDEX
from tracoco.project.splits import write_splits
from tracoco.project.store import Store
from tracoco.scans.reader import write_label
from tracoco.scans.scan import Grid, Structure
from tracoco.training.experiment import Experiment

SHAPE = (16, 14, 12)
IGNORE = 9
NAMES = {1: "liver", 2: "spleen", 3: "tumour"}


def structures(classes: int = 2) -> NDArray[np.uint8]:
    label = np.zeros(SHAPE, dtype=np.uint8)
    for value in range(1, classes):
        label[2 * value : 2 * value + 6, 3:10, 1:11] = value
    return label


def sliced(label: NDArray[np.uint8], undrawn: int) -> NDArray[np.uint8]:
    """Only every third slice drawn."""
    part = label.copy()
    part[:, :, np.arange(SHAPE[2]) % 3 != 1] = undrawn
    return part


def write_data(root: Path, labels: dict[str, NDArray[np.uint8]], unlabelled: int = 1) -> Path:
    random = np.random.default_rng(0)
    for id_, label in labels.items():
        image = random.normal(50, 10, SHAPE) + 100 * (label % IGNORE > 0)
        write_scan(root / "images" / f"{id_}.nii.gz", image.astype(np.float32))
        write_scan(root / "labels" / f"{id_}.nii.gz", label)
    for index in range(unlabelled):
        image = random.normal(50, 10, SHAPE).astype(np.float32)
        write_scan(root / "images" / f"u{index}.nii.gz", image)
    return root


def made(project: Project) -> Store:
    prepare(project, workers=1, progress=False)
    return Store(project.store_root)


@pytest.mark.parametrize(("classes", "dimensions"), [(2, 3), (4, 3), (2, 2), (4, 2)])
def test_an_ignored_voxel_is_no_class_and_no_crop_counts_it(
    tmp_path: Path, classes: int, dimensions: int
) -> None:
    whole = structures(classes)
    data = write_data(tmp_path / "data", {"a": sliced(whole, IGNORE), "b": whole})
    result = init(
        data,
        tmp_path / "p",
        ignore_label=IGNORE,
        dimensions=2 if dimensions == 2 else 3,
        progress=False,
    )
    project = result.project
    assert project is not None
    plan = project.load_plan()
    assert plan.label_values == tuple(range(classes))
    assert plan.ignore_label == IGNORE
    store = made(project)
    case = store.case("a")
    undrawn = np.count_nonzero(np.arange(SHAPE[2]) % 3 != 1) * SHAPE[0] * SHAPE[1]
    assert case.undrawn == undrawn
    assert case.class_voxels is not None
    assert sum(case.class_voxels) == whole.size - undrawn
    assert store.case("b").undrawn == 0
    assert UNDRAWN_INDEX not in np.unique(case.label()[tuple(case.foreground().T)])

    crop = (1, 8, 8) if dimensions == 2 else (8, 8, 8)
    for sampling in ("by_case", *(["uniform"] if dimensions == 2 else [])):
        values = {"crop": crop, "labelled_batch": 2, "unlabelled_batch": 2, "foreground": 0.3}
        config = DataConfig.model_validate({**values, "slice_sampling": sampling, **PLAIN})
        rule = CropRule(crop, (1, 2) if dimensions == 2 else (0, 1), turns=False, config=config)
        source = BatchSource(store, ["a"], ["u0"], rule, seed=0)
        for step in range(6):
            batch = source[step]
            drawn = batch.first.valid[: batch.labelled_count]
            assert int(batch.labels.max()) < classes
            assert drawn.flatten(1).any(dim=1).all(), "a crop without any drawn voxel"
            assert not drawn.all() or dimensions == 2
            assert batch.first.valid[batch.labelled_count :].all()


def test_a_deformed_crop_counts_drawn_voxels_alone(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", {"a": sliced(structures(), IGNORE)})
    project = init(data, tmp_path / "p", ignore_label=IGNORE, progress=False).project
    assert project is not None
    store = made(project)
    size = (10, 10, 10)
    config = DataConfig.model_validate(
        {
            "crop": size,
            "labelled_batch": 1,
            "unlabelled_batch": 1,
            "augmentation": {"strength": "full", "rotation_chance": 1.0},
        }
    )
    source = BatchSource(
        store, ["a"], ["u0"], CropRule(size, (0, 1), turns=False, config=config), seed=0
    )
    fractions = []
    for step in range(8):
        batch = source[step]
        fractions.append(float(batch.first.valid[0].float().mean()))
        assert int(batch.labels.max()) < 2
    assert 0.1 < np.mean(fractions) < 0.6  # a third is drawn


def test_slices_without_structure_count_as_not_drawn_only_when_asked(tmp_path: Path) -> None:
    whole = structures()
    data = write_data(tmp_path / "data", {"a": sliced(whole, 0), "b": whole})
    rows = [row for row in check(data, workers=1, progress=False).rows if row.case == "a"]
    assert any("init --drawn-slices axial" in row.fix for row in rows)
    plain = init(data, tmp_path / "plain", progress=False).project
    asked = init(data, tmp_path / "asked", drawn_slices="axial", progress=False).project
    assert plain is not None
    assert asked is not None
    assert made(plain).case("a").undrawn == 0
    store = made(asked)
    label = store.case("a").label()
    assert np.unique(label[:, :, 4]).tolist() == [0, 1]
    assert np.unique(label[:, :, 3]).tolist() == [UNDRAWN_INDEX]
    told = [row for row in check(asked, workers=1, progress=False).rows if row.case == "a"]
    assert not any("drawn" in row.fix for row in told)


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_a_table_says_which_structures_are_drawn(tmp_path: Path, suffix: str) -> None:
    liver = np.where(structures(3) == 1, 1, 0).astype(np.uint8)
    data = write_data(tmp_path / "data", {"a": liver, "b": structures(3)})
    table = tmp_path / f"labels.{suffix}"
    if suffix == "csv":
        table.write_text("case,structures\na,label 1\nb,\n")
    else:
        table.write_text(json.dumps({"a": [1], "b": {"structures": None}}))
    project = init(data, tmp_path / "p", label_table=table, progress=False).project
    assert project is not None
    store = made(project)
    assert np.unique(store.case("a").label()).tolist() == [1, NOT_OF_DRAWN_INDEX]
    assert np.unique(store.case("b").label()).tolist() == [0, 1, 2]
    assert store.case("a").class_voxels == (0, int(liver.sum()), 0)
    # An update keeps what is known of a label, and takes what a table says anew.
    init(data, tmp_path / "p", update=True, progress=False)
    assert {case.id: case.drawn.structures for case in project.load_cases()}["a"] == (1,)
    table.write_text("case\na\n" if suffix == "csv" else '{"a": {}}')
    update = init(data, tmp_path / "p", update=True, label_table=table, progress=False).update
    assert update is not None
    assert update.redrawn == ("a",)
    assert made(project).case("a").undrawn == 0


def test_what_is_not_drawn_is_unlabelled_for_every_method(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", {"a": sliced(structures(), IGNORE), "b": structures()}, 0)
    project = init(data, tmp_path / "p", ignore_label=IGNORE, progress=False).project
    assert project is not None
    made(project)
    experiment = Experiment.of(project, load_config(None, ["method.name=tracoco"]))
    assert experiment.unlabelled == ("a",)
    assert sum(experiment.class_voxels) < 2 * structures().size
    supervised = Experiment.of(project, load_config(None, ["method.name=supervised"]))
    assert supervised.unlabelled == ()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"table": "case,structures\nz,label 1\n"}, "names case 'z', which the project does not"),
        ({"table": "case,structures\nu0,label 1\n"}, "names case 'u0', which has no label"),
        ({"table": "case,structures\na,liver\n"}, "names the structure 'liver', which is none"),
        ({"table": "case,structures\na,label 1;7\n"}, "has structure 7 drawn, which is none"),
        ({"table": "case,slices\na,oblique\n"}, "slices is 'oblique'"),
        ({"table": "scan\na\n"}, "has the columns scan"),
        ({"table": "case\na\na\n"}, "line 3: case 'a' comes twice"),
        ({"table": "case,structures\na,label 1\n", "classes": 3}, "voxels of 'label 2'|of '2'"),
        ({"ignore_label": 0}, "also the background"),
        ({"drawn_slices": "oblique"}, "--drawn-slices is 'oblique'"),
    ],
)
def test_what_contradicts_itself_is_one_clear_error(
    tmp_path: Path, options: dict[str, Any], problem: str
) -> None:
    given = dict(options)
    classes = int(str(given.pop("classes", 2)))
    data = write_data(tmp_path / "data", {"a": structures(classes), "b": structures(classes)})
    if table := given.pop("table", None):
        (tmp_path / "table.csv").write_text(str(table))
        given["label_table"] = tmp_path / "table.csv"
    with pytest.raises(UserError, match=problem) as error:
        init(data, tmp_path / "p", progress=False, **given)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "p").exists()


def test_nnunet_names_the_ignore_value(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", {"a": sliced(structures(), 2), "b": structures()}, 0)
    (data / "images").rename(data / "imagesTr")
    (data / "labels").rename(data / "labelsTr")
    about = {"labels": {"background": 0, "liver": 1, "ignore": 2}}
    write_json(data / "dataset.json", about)
    project = init(data, tmp_path / "p", progress=False).project
    assert project is not None
    plan = project.load_plan()
    assert (plan.label_values, plan.class_names) == ((0, 1), ("background", "liver"))
    assert plan.ignore_label == 2
    with pytest.raises(UserError, match="--ignore-label is 3, but the data calls value 2"):
        init(data, tmp_path / "q", ignore_label=3, progress=False)
    write_json(data / "dataset.json", {"labels": {"background": 0, "liver": 1}})
    with pytest.raises(UserError, match="the ignore value 1 is also the structure 'liver'"):
        init(data, tmp_path / "q", ignore_label=1, progress=False)


def test_labels_of_slicer_are_read_by_name_whatever_their_values(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data", {"a": structures(3), "b": structures(3)})
    affine = np.diag([1.0, 1.0, 2.0, 1.0])
    exchanged = np.array([0, 2, 1], dtype=np.uint8)[structures(3)]
    for id_, label, order in (("a", structures(3), (1, 2)), ("b", exchanged, (2, 1))):
        (data / "labels" / f"{id_}.nii.gz").unlink()
        named = [
            Structure(order[0], "liver", (1.0, 0.0, 0.0)),
            Structure(order[1], "spleen"),
            Structure(5, "ignore"),
        ]
        cut, box = label[:, 2:12].copy(), affine.copy()
        cut[0] = 5
        box[:3, 3] = (affine @ [0, 2, 0, 1])[:3]
        write_label(data / "labels" / f"{id_}.seg.nrrd", cut, Grid(cut.shape, box), named)
    rows = check(data, workers=1, progress=False).rows
    assert any("covers voxels (0, 2, 0) to before (16, 12, 12)" in row.problem for row in rows)
    project = init(data, tmp_path / "p", progress=False).project
    assert project is not None
    plan = project.load_plan()
    assert plan.class_names == ("background", "liver", "spleen")
    assert plan.structures[0].colour == pytest.approx((1, 0, 0))
    store = made(project)
    assert store.case("a").undrawn == 10 * SHAPE[2]
    assert np.array_equal(store.case("a").label(), store.case("b").label())


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("flat", [False, True])
def test_scores_skip_what_is_not_drawn(tmp_path: Path, classes: int, flat: bool) -> None:  # noqa: FBT001 - a case
    whole = structures(classes)
    truth = sliced(whole, IGNORE)
    found = whole.copy()
    found[truth == IGNORE] = 1  # wrong, but nobody knows
    if flat:
        truth, found = truth[:, :, 4:5], found[:, :, 4:5]
        truth[:3], found[:3] = IGNORE, 1
    for name, label in (("truth", truth), ("found", found)):
        write_scan(tmp_path / name / "a.nii.gz", label)
    names = {value: NAMES[value] for value in range(1, classes)}
    result = evaluate(tmp_path / "found", tmp_path / "truth", Protocol(), names, IGNORE)
    assert [row.dice for row in result.rows] == [100] * (classes - 1)
    assert [row.hd95 for row in result.rows] == [0] * (classes - 1)
    assert result.rows[0].undrawn == np.count_nonzero(truth == IGNORE)
    assert result.skipped == "voxels that are not drawn count nowhere: 1 of 1 cases"
    assert "count nowhere" in result._repr_html_()
    as_class = evaluate(tmp_path / "found", tmp_path / "truth", Protocol(), names)
    assert {row.label: row.dice for row in as_class.rows}[IGNORE] == 0


def test_a_structure_that_is_not_drawn_is_not_scored(tmp_path: Path) -> None:
    liver = np.where(structures(3) == 1, 1, 0).astype(np.uint8)
    data = write_data(
        tmp_path / "data", {f"{n}": liver if n == 1 else structures(3) for n in range(3)}
    )
    (tmp_path / "t.csv").write_text("case,structures\n1,1\n")
    project = init(
        data, tmp_path / "p", label_table=tmp_path / "t.csv", test=2, progress=False
    ).project
    assert project is not None
    splits = project.load_splits()
    if "1" not in splits.test:
        moved = tuple(id_ for id_ in (*splits.labelled, *splits.test) if id_ != "1")
        splits = replace(splits, labelled=moved[:1], test=(*moved[1:], "1"))
        write_splits(project.splits_file, splits)
    for case in project.test_cases():
        write_scan(tmp_path / "found" / f"{case.id}.nii.gz", structures(3))
    result = evaluate(tmp_path / "found", project.root, Protocol(), {1: "liver", 2: "spleen"})
    assert [row.label for row in result.rows if row.case == "1"] == [1]
    assert all(row.dice == 100 for row in result.rows)
