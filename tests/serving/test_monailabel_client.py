"""The client of MONAI Label, which its module for 3D Slicer has a copy of, against the server.

`TRACOCO_MONAILABEL` is the file `monailabel/client/client.py` of its wheel, which `pip download
--no-deps monailabel` gives without the packages that it would bring. It needs `requests`.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from serving.conftest import Client, served

from tracoco.project.folder import Project
from tracoco.scans.reader import read_label, write_label
from tracoco.scans.scan import Structure

SOURCE = os.environ.get("TRACOCO_MONAILABEL", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SOURCE, reason="needs TRACOCO_MONAILABEL, the client's file"),
]


def loaded() -> Any:
    """The client's module; nothing else of its package is imported."""
    spec = importlib.util.spec_from_file_location("monailabel_client", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_everything_that_the_slicer_module_does(client: Client, tmp_path: Path) -> None:
    theirs = loaded().MONAILabelClient(f"http://127.0.0.1:{client.port}/", str(tmp_path), "user")
    assert theirs.auth_enabled() is False
    info = theirs.info()
    (model,) = info["models"]
    sample = theirs.next_sample("random", {})
    case = sample["id"]
    image, params = theirs.infer(
        model, case, {"result_extension": ".nrrd", "result_dtype": "uint8"}
    )
    label = read_label(Path(image))
    assert set(params["label_names"].values()) == set(np.unique(label.array).tolist()) - {0}
    array = label.array.astype(np.uint8)
    array[5:9, 5:9, 5:9] = 1
    drawn = tmp_path / "drawn.seg.nrrd"
    write_label(drawn, array, label.grid, [Structure(1, "ball")])
    about = {"label_info": [{"name": "ball", "idx": 1}], "model": model}
    saved = theirs.save_label(case, str(drawn), params=about)
    assert saved == {"image": case, "label": case}
    assert theirs.datastore()["objects"][case]["labels"].keys() == {"final"}
    back = theirs.download_label(case, "final")
    np.testing.assert_array_equal(read_label(Path(back)).array, array)
    session = theirs.create_session(sample["path"])
    assert theirs.get_session(session["session_id"])["name"] == session["session_id"]
    file, _ = theirs.infer(model, "", {}, session_id=session["session_id"])
    assert nib.Nifti1Image.from_filename(file).shape == label.array.shape
    theirs.remove_session(session["session_id"])
    assert theirs.train_status(check_if_running=True) is False
    started = theirs.train_start(model, {"steps": 50_000})
    assert started["status"] == "RUNNING"
    assert theirs.train_status(check_if_running=True) is True
    stopped = theirs.train_stop()
    assert stopped["status"] == "STOPPED"
    assert stopped["details"]
    assert theirs.train_status()["status"] == "STOPPED"


def test_the_module_logs_in_with_the_token(heart: Project, tmp_path: Path) -> None:
    with served(heart, token="secret-token") as server:  # noqa: S106 - of this test
        address = f"http://127.0.0.1:{server.port}"
        module = loaded()
        theirs = module.MONAILabelClient(address, str(tmp_path), "user")
        assert theirs.auth_enabled() is True
        with pytest.raises(module.MONAILabelClientException) as refused:
            theirs.info()
        assert refused.value.status_code == 401
        theirs.update_auth(theirs.auth_token("user", "secret-token"))
        assert theirs.auth_valid_token()
        assert theirs.info()["labels"] == ["ball"]
        by_path = loaded().MONAILabelClient(f"{address}/secret-token", str(tmp_path), "user")
        assert by_path.auth_enabled() is False
        assert by_path.info()["labels"] == ["ball"]
