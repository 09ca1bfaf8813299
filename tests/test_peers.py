"""What goes to the peer and what comes back, without the peer: it is not installed for tests."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers import nnunet
from benchmarks.peers.nnunet import DATASET, TASKS, Peer, chosen_tasks, export, keep, predict, score
from benchmarks.peers.trainer import PROGRESS, TRAINER, trainer_text
from benchmarks.real.data_sets import REPORTED
from benchmarks.real.page import PEERS, read_peers
from samples import make_project
from small_grid import RESULT

from tracoco.errors import UserError
from tracoco.project.store import Store
from tracoco.scans.reader import read_image, read_label


def test_the_trainer_is_a_python_file_with_its_class() -> None:
    (found,) = [node for node in ast.parse(trainer_text()).body if isinstance(node, ast.ClassDef)]
    assert found.name == TRAINER
    assert PROGRESS in trainer_text()
    assert "SAVE_SECONDS" not in trainer_text()


def test_the_same_labelled_scans_and_test_cases_are_exported_on_our_grid(tmp_path: Path) -> None:
    project = make_project(tmp_path, labelled=5, unlabelled=2, test=2)
    splits, raw = project.load_splits(), tmp_path / "raw"
    export(project, 2, raw)
    assert {file.name for file in (raw / "labelsTr").iterdir()} == {
        f"{id_}.nii.gz" for id_ in splits.labelled[:2]
    }
    assert {file.name for file in (raw / "imagesTs").iterdir()} == {
        f"{id_}_0000.nii.gz" for id_ in splits.test
    }
    id_ = splits.labelled[0]
    case = Store(project.store_root).case(id_)
    image = read_image(raw / "imagesTr" / f"{id_}_0000.nii.gz")
    np.testing.assert_allclose(image.array, case.image(), rtol=1e-6)
    np.testing.assert_array_equal(
        read_label(raw / "labelsTr" / f"{id_}.nii.gz").array, case.label()
    )
    assert image.spacing_mm == pytest.approx(case.spacing_mm)
    facts = json.loads((raw / "dataset.json").read_text())
    assert facts["numTraining"] == 2
    assert facts["labels"]["background"] == 0


def test_perfect_probabilities_have_a_perfect_dice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, labelled=5, unlabelled=2, test=2)
    store, plan = Store(project.store_root), project.load_plan()
    results = tmp_path / "1-minutes-seed0"
    folder = results / DATASET / f"{TRAINER}__x" / "fold_all"
    folder.mkdir(parents=True)
    (folder / PROGRESS).write_text('{"seconds": 60.0, "steps": 12, "peak_mb": 900.0}')

    def pretend(*_: object, **__: object) -> None:
        for id_ in project.load_splits().test:
            label = store.case(id_).label()
            classes = np.stack([label == index for index in range(plan.classes)])
            path = results / "probabilities" / f"{id_}.npz"
            path.parent.mkdir(exist_ok=True)
            np.savez(path, probabilities=classes.transpose(0, 3, 2, 1).astype(np.float16))

    monkeypatch.setattr(Peer, "run", pretend)
    predict(Peer(tmp_path, tmp_path), project, folder)
    found = score(project, "balls", 2, folder, 0)
    assert found.dice == pytest.approx(100.0)
    assert (found.steps, found.seconds, found.labelled, found.cases) == (12, 60.0, 2, 2)


def test_results_are_kept_for_the_page(tmp_path: Path) -> None:
    path = tmp_path / "nnunet.json"
    keep(path, "nnunet", RESULT)
    keep(path, "nnunet-short", RESULT)
    keep(path, "nnunet", RESULT)
    (rows,) = read_peers(path).values()
    assert [row.name for row in rows] == ["nnunet", "nnunet-short"]
    assert nnunet.COMMITTED == PEERS


def test_tasks_are_of_known_data_and_need_projects(tmp_path: Path) -> None:
    assert TASKS.keys() <= REPORTED.keys()
    with pytest.raises(UserError, match="did you mean 'la'"):
        chosen_tasks(tmp_path, ["lla"])
    with pytest.raises(UserError, match="has no project of la"):
        chosen_tasks(tmp_path, ["la"])
    with pytest.raises(UserError, match="has no project of any data set"):
        chosen_tasks(tmp_path, [])
