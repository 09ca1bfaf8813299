"""A server on a port of this machine, and a client that sends what the tools send."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from labelling.conftest import SETTINGS
from samples import make_project

import tracoco as tc
from tracoco.project.folder import Project
from tracoco.project.plan import write_plan
from tracoco.serving.guard import Access

uvicorn = pytest.importorskip("uvicorn")
serving = pytest.importorskip("tracoco.serving.app")


@dataclass
class Answer:
    """What came back."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        return str(self.json["detail"])


@dataclass
class Client:
    """Requests over HTTP."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)
    prefix: str = ""

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        sent = {**self.headers, **{name.replace("_", "-"): text for name, text in headers.items()}}
        if isinstance(body, dict):
            body = json.dumps(body)
            sent["content-type"] = "application/json"
        connection.request(method, self.prefix + path, body=body, headers=sent)
        response = connection.getresponse()
        found = Answer(response.status, response.read(), dict(response.getheaders()))
        connection.close()
        return found

    def form(
        self, method: str, path: str, fields: Mapping[str, str], **files: tuple[str, bytes]
    ) -> Answer:
        """A form with files, as the Slicer module builds it: without a length for each part."""
        edge = "----------edge_of_a_part"
        lines: list[bytes] = []
        for name, text in fields.items():
            lines += [f'--{edge}\r\nContent-Disposition: form-data; name="{name}"'.encode()]
            lines += [b"", text.encode()]
        for name, (filename, content) in files.items():
            about = f'Content-Disposition: form-data; name="{name}"; filename="{filename}"'
            lines += [f"--{edge}\r\n{about}\r\nContent-Type: application/octet-stream".encode()]
            lines += [b"", content]
        body = b"\r\n".join([*lines, f"--{edge}--".encode(), b""])
        kind = f"multipart/form-data; boundary={edge}"
        return self(method, path, body, content_type=kind)

    def save(self, case: str, content: bytes, name: str = "label.nii.gz", **params: Any) -> Answer:
        """As the Slicer module saves a label: the file is called by its whole path there."""
        return self.form(
            "PUT",
            f"/datastore/label?image={case}",
            {"params": json.dumps({"client_id": "user-xyz", **params})},
            label=(f"/tmp/slicer/{name}", content),  # noqa: S108 - a name that is sent
        )

    def infer(self, model: str, case: str, **params: Any) -> tuple[dict[str, Any], bytes]:
        """The parameters and the file of a draft."""
        answer = self.form("POST", f"/infer/{model}?image={case}", {"params": json.dumps(params)})
        assert answer.status == 200, answer.body
        edge = answer.headers["content-type"].partition("boundary=")[2].encode()
        _, first, second, _ = answer.body.split(b"--" + edge)
        about = json.loads(first.partition(b"\r\n\r\n")[2])
        return about, second.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")

    def wait(self, path: str, seconds: float = 240) -> dict[str, Any]:
        """The status of a job once it has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            status: dict[str, Any] = self("GET", path).json
            if status["status"] != "RUNNING":
                return status
            time.sleep(0.2)
        raise AssertionError(f"{path} is still running: {status}")


@contextmanager
def served(project: Project, **access: Any) -> Iterator[Client]:
    """A server in a thread of this process."""
    app = serving.make_app(project, Access(**access), device="cpu")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.02)
        try:
            yield Client(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def heart(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """2 labelled, 3 unlabelled, 1 validation and 1 test case, and a run of a few steps."""
    root = tmp_path_factory.mktemp("served")
    project = make_project(root, labelled=4, unlabelled=3, validation=1, test=1)
    names = {"class_names": ("background", "ball")}
    write_plan(project.plan_file, project.load_plan().model_copy(update=names))
    tc.train(project, settings=SETTINGS, progress=False)
    return project


@pytest.fixture(scope="module")
def client(heart: Project) -> Iterator[Client]:
    with served(heart) as found:
        yield found


def everything(root: Path) -> set[str]:
    """Names of all files below a folder."""
    return {str(path) for path in root.rglob("*") if path.is_file()}
