"""What tools ask of the server, and what it refuses. Requests are like those of the Slicer module,
whose client is the one of MONAI Label."""

import gzip
import io
import json
import socket
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from samples import SHAPE
from serving.conftest import Client, everything, served

from tracoco.project.folder import Project
from tracoco.scans.reader import read_label, write_label
from tracoco.scans.scan import Structure
from tracoco.serving.guard import LARGEST_UPLOAD

MODEL = "project"


def label_bytes(project: Project, case: str, tmp_path: Path, *, value: int = 1) -> bytes:
    """A box on the grid of a scan."""
    (image,) = (each.images[0] for each in project.load_cases() if each.id == case)
    array = np.zeros(SHAPE, np.uint8)
    array[8:14, 8:14, 8:12] = value
    path = tmp_path / "drawn.nii.gz"
    nib.save(nib.Nifti1Image(array, nib.Nifti1Image.from_filename(image).affine), path)
    return path.read_bytes()


def test_info_has_what_the_slicer_module_shows(client: Client) -> None:
    info = client("GET", "/info/").json
    assert "config" not in info  # the module takes that for a server that is too old
    assert info["models"][MODEL]["type"] == "segmentation"
    assert info["models"][MODEL]["labels"] == {"ball": 1}
    assert info["labels"] == ["ball"]
    assert list(info["trainers"]) == [MODEL]
    assert list(info["strategies"]) == ["uncertainty", "random"]
    assert info["datastore"]["total"] == 7
    stats = info["train_stats"][MODEL]
    assert (stats["epoch"], stats["total_epochs"]) == (4, 4)


def test_the_next_scan_is_unlabelled_and_not_offered_twice(client: Client, heart: Project) -> None:
    unlabelled = set(heart.load_splits().unlabelled)
    offered = []
    for _ in unlabelled:
        sample = client("POST", "/activelearning/random", {"client_id": "user-xyz"}).json
        assert Path(sample["path"]).is_file()
        assert sample["name"] == f"{sample['id']}.nii.gz"
        offered.append(sample["id"])
    assert set(offered) == unlabelled
    assert client("POST", "/activelearning/random").json["id"] in unlabelled  # from the start again
    assert client("POST", "/activelearning/best", {}).status == 404


def test_images_are_downloaded(client: Client, heart: Project) -> None:
    case = heart.load_cases()[0]
    answer = client("GET", f"/datastore/image?image={case.id}")
    assert answer.body == case.images[0].read_bytes()
    assert f'filename="{case.id}.nii.gz"' in answer.headers["content-disposition"]
    assert client("HEAD", f"/datastore/image?image={case.id}").status == 200
    for name in ("../../etc/passwd", "%2e%2e%2fproject%2fcases.json", "none", ""):
        assert client("GET", f"/datastore/image?image={name}").status == 404


def test_a_draft_comes_with_its_names_on_the_grid_of_the_scan(
    client: Client, heart: Project, tmp_path: Path
) -> None:
    case = heart.load_cases()[0]
    about, content = client.infer(MODEL, case.id, result_extension=".nrrd", result_dtype="uint8")
    path = tmp_path / "draft.nrrd"
    path.write_bytes(content)
    label = read_label(path)
    assert label.array.shape == SHAPE
    values = set(np.unique(label.array).tolist()) - {0}
    assert about["label_names"] == ({"ball": 1} if values else {})
    _, plain = client.infer(MODEL, case.id, result_extension=".nrrd", result_compress=False)
    assert b"encoding: raw" in plain.partition(b"\n\n")[0]
    path.write_bytes(plain)
    np.testing.assert_array_equal(read_label(path).array, label.array)
    alone = client.form("POST", f"/infer/{MODEL}?image={case.id}&output=image", {"params": "{}"})
    assert nib.Nifti1Image.from_bytes(gzip.decompress(alone.body)).shape == SHAPE
    known = client.form("POST", f"/infer/{MODEL}?image={case.id}&output=json", {"params": "{}"})
    assert known.json["label_names"] == about["label_names"]
    end = time.monotonic() + 10
    while left := list((heart.root / "labelling" / "tmp").glob("*")):  # nothing stays
        assert time.monotonic() < end, left
    refused = client.form("POST", f"/infer/other?image={case.id}", {"params": "{}"})
    assert refused.status == 404
    wrong = client.form(
        "POST", f"/infer/{MODEL}?image={case.id}", {"params": '{"result_extension": "/../x"}'}
    )
    assert wrong.status == 400


def test_a_saved_label_is_kept_and_given_back(
    client: Client, heart: Project, tmp_path: Path
) -> None:
    case = heart.load_splits().unlabelled[0]
    answer = client.save(case, label_bytes(heart, case, tmp_path), label_info=[])
    assert (answer.status, answer.json) == (200, {"image": case, "label": case})
    kept = heart.root / "labelling" / "received" / "final" / f"{case}.nii.gz"
    assert read_label(kept).array.sum() == 6 * 6 * 4
    back = client("GET", f"/datastore/label?label={case}&tag=final")
    assert back.body == kept.read_bytes()
    assert client("HEAD", f"/datastore/label?image={case}&tag=final").status == 200
    info = client("GET", f"/datastore/label/info?label={case}&tag=final").json
    assert info["params"]["client_id"] == "user-xyz"
    objects = client("GET", "/datastore/?output=all").json["objects"]
    assert list(objects[case]["labels"]) == ["final"]
    assert client("GET", "/datastore/").json["completed"] == 5
    assert client("DELETE", f"/datastore/label?id={case}&tag=final").status == 200
    assert not kept.exists()
    labelled = heart.load_splits().labelled[0]
    assert client("GET", f"/datastore/label?label={labelled}&tag=final").status == 200
    assert client("DELETE", f"/datastore/label?id={labelled}&tag=final").status == 400


def test_structures_are_told_apart_by_name(heart: Project, client: Client, tmp_path: Path) -> None:
    case = heart.load_splits().unlabelled[1]
    # Slicer numbers what it sends: here a segment that was not sent stands before the structure.
    content = label_bytes(heart, case, tmp_path, value=1)
    info = [{"name": "ball", "idx": 2}]
    assert client.save(case, content, label_info=info).status == 200
    kept = heart.root / "labelling" / "received" / "final" / f"{case}.nii.gz"
    assert set(np.unique(read_label(kept).array)) == {0, 1}
    before = kept.read_bytes()
    refused = client.save(case, content, label_info=[{"name": "liver", "idx": 1}])
    assert refused.status == 400
    assert "names its value 1 'liver', which is no structure of the project: ball" in refused.detail
    assert kept.read_bytes() == before  # nothing is lost
    client("DELETE", f"/datastore/label?id={case}&tag=final")


@pytest.mark.parametrize("suffix", [".nii", ".nrrd", ".mha", ".seg.nrrd"])
def test_other_formats_are_taken(
    client: Client, heart: Project, tmp_path: Path, suffix: str
) -> None:
    case = next(each for each in heart.load_cases() if each.id in heart.load_splits().unlabelled)
    drawn = tmp_path / "label.nii.gz"
    drawn.write_bytes(label_bytes(heart, case.id, tmp_path))
    label = read_label(drawn)
    path = tmp_path / f"label{suffix}"
    write_label(path, label.array, label.grid, [Structure(1, "Ball")])
    assert client.save(case.id, path.read_bytes(), path.name).status == 200
    kept = heart.root / "labelling" / "received" / "final" / f"{case.id}.nii.gz"
    np.testing.assert_array_equal(read_label(kept).array, label.array)
    client("DELETE", f"/datastore/label?id={case.id}&tag=final")


def test_bad_uploads_are_refused_and_leave_nothing(
    client: Client, heart: Project, tmp_path: Path
) -> None:
    case = heart.load_splits().unlabelled[0]
    good = label_bytes(heart, case, tmp_path)
    other = io.BytesIO()
    small = nib.Nifti1Image(np.ones((5, 5, 5), np.uint8), np.eye(4))
    other.write(gzip.compress(small.to_bytes()))
    before = everything(heart.root.parent)
    refused = {
        "is no label": client.save(case, b"not a label at all"),
        "has another grid": client.save(case, other.getvalue()),
        "has unknown values": client.save(case, label_bytes(heart, case, tmp_path, value=9)),
        "has an unknown suffix": client.save(case, good, "label.bin"),
        "is of a test case": client.save(heart.load_splits().test[0], good),
        "is of a validation case": client.save(heart.load_splits().validation[0], good),
        "is of no scan": client.save("../../outside", good),
        "has params that are no JSON": client.form(
            "PUT", f"/datastore/label?image={case}", {"params": "{"}, label=("a.nii.gz", good)
        ),
        "has a tag with a path": client.form(
            "PUT", f"/datastore/label?image={case}&tag=../up", {}, label=("a.nii.gz", good)
        ),
    }
    for what, answer in refused.items():
        assert 400 <= answer.status < 500, (what, answer.body)
        assert "\n" not in answer.detail, what
        assert "Traceback" not in answer.detail
        assert str(heart.root / "labelling" / "tmp") not in answer.detail, what
    assert everything(heart.root.parent) == before
    assert client.form("PUT", f"/datastore/label?image={case}", {"params": "{}"}).status == 422
    # A name with a path is a name: only what it ends with is used.
    assert client.save(case, good, "../../../outside/x.nii.gz").status == 200
    assert everything(heart.root.parent) - before == {
        str(heart.root / "labelling" / "received" / "final" / f"{case}{end}")
        for end in (".nii.gz", ".json")
    }
    client("DELETE", f"/datastore/label?id={case}&tag=final")


def test_an_upload_of_ten_gigabytes_is_refused_before_it_is_sent(
    client: Client, heart: Project
) -> None:
    case = heart.load_splits().unlabelled[0]
    head = (
        f"PUT /datastore/label?image={case} HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {10 * 2**30}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(head.encode())
        answer = ""
        while "}" not in answer:
            answer += connection.recv(4096).decode()
    assert answer.startswith("HTTP/1.1 413")
    assert f"at most {LARGEST_UPLOAD} are taken" in answer


def test_an_upload_that_grows_beyond_the_limit_is_cut_off(heart: Project) -> None:
    case = heart.load_splits().unlabelled[0]
    before = everything(heart.root)
    part = b'--x\r\nContent-Disposition: form-data; name="label"; filename="a.nii.gz"\r\n\r\n'
    with served(heart, largest=100_000) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
            head = (
                f"PUT /datastore/label?image={case} HTTP/1.1\r\nHost: localhost:1\r\n"
                "Transfer-Encoding: chunked\r\n"
                "Content-Type: multipart/form-data; boundary=x\r\n\r\n"
            )
            connection.sendall(head.encode())
            for piece in (part, *[bytes(50_000)] * 4):  # no length was told
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            answer = b""
            while b"}" not in answer:
                answer += connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"larger than 100000 bytes" in answer
        assert client("GET", "/info/").status == 200  # the others are served on
    assert everything(heart.root) == before


def test_other_web_pages_are_refused(client: Client, heart: Project) -> None:
    own = f"http://127.0.0.1:{client.port}"
    assert client("GET", "/info/", origin=own).status == 200
    assert client("GET", "/info/", host="evil.example").status == 421
    assert client("GET", "/info/", host=f"localhost:{client.port}").status == 200
    for origin in ("http://evil.example", "null", f"https://127.0.0.1.evil.example:{client.port}"):
        answer = client("POST", "/train/", origin=origin)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers
    assert client("GET", "/info/", sec_fetch_site="cross-site").status == 403
    with served(heart, origins=frozenset({"https://viewer.example"})) as open_:
        answer = open_("GET", "/info/", origin="https://viewer.example")
        assert answer.headers["access-control-allow-origin"] == "https://viewer.example"
        assert open_("GET", "/info/", origin="https://other.example").status == 403


def test_a_token_is_needed_where_the_server_has_one(heart: Project) -> None:
    with served(heart, token="secret-token") as client:  # noqa: S106 - of this test
        assert client("GET", "/info/").status == 401
        assert client("GET", "/wrong-token/info/").status == 401
        assert client("GET", "/auth/").json["enabled"] is True
        assert client("GET", "/info/", authorization="Bearer secret-token").status == 200
        by_path = Client(client.port, prefix="/secret-token")
        assert by_path("GET", "/info/").status == 200
        assert by_path("GET", "/auth/").json["enabled"] is False
        case = heart.load_cases()[0].id
        assert by_path("GET", f"/datastore/image?image={case}").status == 200
        words = {"content_type": "application/x-www-form-urlencoded"}
        wrong = client("POST", "/auth/token", "username=a&password=b&grant_type=password", **words)
        assert wrong.status == 401
        right = client("POST", "/auth/token", "username=a&password=secret-token", **words)
        bearer = f"{right.json['token_type']} {right.json['access_token']}"
        assert client("GET", "/auth/token/valid", authorization=bearer).status == 200
        assert client("GET", "/auth/token/valid").status == 401


def test_a_session_segments_a_scan_that_was_sent(client: Client, heart: Project) -> None:
    image = heart.load_cases()[0].images[0]
    opened = client.form("PUT", "/session/", {}, files=("scan.nii.gz", image.read_bytes()))
    key = opened.json["session_id"]
    assert client("GET", f"/session/{key}").status == 200
    answer = client.form(
        "POST", f"/infer/{MODEL}?image=x&session_id={key}&output=image", {"params": "{}"}
    )
    assert nib.Nifti1Image.from_bytes(gzip.decompress(answer.body)).shape == SHAPE
    assert client("DELETE", f"/session/{key}").status == 200
    assert client("GET", f"/session/{key}").status == 404
    assert not list((heart.root / "labelling" / "sessions").glob("*"))
    assert client.form("PUT", "/session/", {}, files=("notes.txt", b"hello")).status == 400


def test_nothing_to_train_from_is_told(client: Client) -> None:
    answer = client("POST", f"/train/{MODEL}", {"steps": 2})
    assert answer.status == 400
    assert "there is no new label to train from" in answer.detail
    assert client("GET", "/train/").status == 404
    assert client("GET", "/train/?check_if_running=true").status == 404
    assert client("DELETE", "/train/").status == 400
    assert client("GET", "/logs/").status == 200
    assert client("PUT", "/datastore/image?image=new").status == 405
    assert json.loads(client("GET", "/docs").body) == {"detail": "Not Found"}
