"""The addresses of MONAI Label's REST interface, what answers there, and how to listen.

Uploads and predictions are handled in threads; what they do is in `store`, `model` and `jobs`.
"""

import json
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import uvicorn
from fastapi import FastAPI, Form, Request, UploadFile
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.background import BackgroundTask
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from tracoco.console import say
from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.serving.guard import Access, Guard, checked_origins, is_loopback
from tracoco.serving.model import Draft, ServedModel
from tracoco.serving.server import BusyError, Jobs, Server, tail
from tracoco.serving.store import FINAL, LabelStore, NotFoundError

MOST_LINES = 10_000
Params = dict[str, Any] | None


def make_app(
    project: Project, access: Access, *, run: Path | None = None, device: str = "auto"
) -> ASGIApp:
    """The server of a project as an application.

    Args:
        project: its labels and runs are what the server changes.
        access: who may use it.
        run: the model; the newest run if None.
        device: that predicts and trains.
    """
    store = LabelStore(project)
    server = Server(store, ServedModel(store, run, device), Jobs(store.root / "logs"))
    for name in ("tmp", "sessions"):  # left by a server that was killed
        shutil.rmtree(store.root / name, ignore_errors=True)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        server.jobs.stop_all()

    # The pages of FastAPI about an interface load scripts from elsewhere: there are none here.
    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    _add_errors(app)
    _add_models(app, server)
    _add_images(app, server)
    _add_labels(app, server.store)
    _add_batches(app, server)
    _add_training(app, server)
    _add_access(app, access)
    guarded: ASGIApp = Guard(app, access)
    if access.origins:
        origins = sorted(access.origins)
        guarded = CORSMiddleware(guarded, origins, allow_methods=["*"], allow_headers=["*"])
    return guarded


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(UserError)
    async def refused(_: Request, error: UserError) -> JSONResponse:
        kinds = {NotFoundError: 404, BusyError: 429}
        return JSONResponse({"detail": str(error)}, kinds.get(type(error), 400))


def _add_access(app: FastAPI, access: Access) -> None:
    @app.get("/auth/")
    def enabled(request: Request) -> dict[str, Any]:
        return {"enabled": not request.state.allowed, "client_id": "", "realm": ""}

    @app.post("/auth/token")
    def token(password: Annotated[str, Form()]) -> Response:
        if not access.accepts(password):
            return JSONResponse({"detail": "the password is not the server's token"}, 401)
        return JSONResponse({"access_token": password, "token_type": "bearer"})

    @app.get("/auth/token/valid")
    def valid() -> dict[str, Any]:
        return {"username": "tracoco"}


def _add_models(app: FastAPI, server: Server) -> None:
    @app.get("/info/")
    def info() -> dict[str, Any]:
        return server.info()

    @app.post("/activelearning/{strategy}")
    def next_scan(strategy: str, params: Params = None) -> dict[str, Any]:  # noqa: ARG001 - clients send it
        return server.next(strategy)

    @app.post("/infer/{model}")
    def infer(
        model: str,
        image: str = "",
        session_id: str = "",
        output: str = "all",
        params: Annotated[str, Form()] = "{}",
    ) -> Response:
        server.check_model(model)
        if output not in ("all", "image", "json"):
            raise UserError(f"output '{output[:40]}' is none of all, image and json")
        draft = server.infer(image, session_id, params)
        return _answer(draft, output, image or "label")

    @app.put("/session/")
    def open_session(files: list[UploadFile]) -> dict[str, Any]:
        return server.open_session(files)

    @app.get("/session/{key}")
    def session(key: str) -> dict[str, Any]:
        return server.session(key)

    @app.delete("/session/{key}")
    def close_session(key: str) -> dict[str, Any]:
        return server.close_session(key)


def _answer(draft: Draft, output: str, name: str) -> Response:
    """A draft as a tool wants it: the file, what is known of it, or both in one message."""
    suffix = "".join(draft.file.suffixes)
    remove = BackgroundTask(draft.file.unlink, missing_ok=True)
    if output == "image":
        return FileResponse(draft.file, filename=f"{name}{suffix}", background=remove)
    about = json.dumps(dict(draft.params))
    if output == "json":
        return Response(about, media_type="application/json", background=remove)
    edge = uuid4().hex
    plain = "".join(letter for letter in name if letter.isalnum() or letter in "-_.") or "label"
    head = (
        f'--{edge}\r\nContent-Disposition: form-data; name="params"\r\n'
        f"Content-Type: application/json\r\n\r\n{about}\r\n--{edge}\r\n"
        f'Content-Disposition: form-data; name="image"; filename="{plain}{suffix}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    body = head.encode() + draft.file.read_bytes() + f"\r\n--{edge}--\r\n".encode()
    return Response(body, media_type=f"multipart/form-data; boundary={edge}", background=remove)


def _add_images(app: FastAPI, server: Server) -> None:
    store = server.store

    @app.get("/datastore/")
    def datastore(output: str = "stats") -> Any:
        if output == "all":
            return {"name": server.name, "description": "", "objects": store.objects()}
        if output == "train":
            cases, labelled = store.cases(), store.project.load_splits().labelled
            rows = (cases[case] for case in labelled)
            return [{"image": str(row.images[0]), "label": str(row.label)} for row in rows]
        return store.stats()

    @app.api_route("/datastore/image", methods=["GET", "HEAD"])
    def image(image: str) -> Response:
        path = store.case(image).images[0]
        if not path.is_file():
            raise NotFoundError(
                f"the image '{image}' is a folder, which cannot be sent as one file"
            )
        return FileResponse(path, filename=path.name)

    @app.get("/datastore/image/info")
    def image_info(image: str) -> dict[str, Any]:
        case = store.case(image)
        return {"name": case.images[0].name, "labels": store.objects()[case.id]["labels"]}

    @app.put("/datastore/")
    @app.put("/datastore/image")
    @app.delete("/datastore/image")
    def fixed() -> Response:
        detail = "scans are added with tracoco init DATA --out PROJECT --update, and never removed"
        return JSONResponse({"detail": detail}, 405)


def _add_labels(app: FastAPI, store: LabelStore) -> None:
    @app.put("/datastore/label")
    def save_label(
        image: str,
        label: UploadFile,
        tag: str = FINAL,
        params: Annotated[str, Form()] = "{}",
    ) -> dict[str, Any]:
        saved = store.save(image, tag or FINAL, label.filename or "", label.file, params)
        return {"image": saved, "label": saved}

    @app.api_route("/datastore/label", methods=["GET", "HEAD"])
    def get_label(tag: str, label: str = "", image: str = "") -> Response:
        path = store.label_file(label or image, tag)
        return FileResponse(path, filename=path.name)

    @app.get("/datastore/label/info")
    def label_info(label: str, tag: str) -> dict[str, Any]:
        return store.label_info(label, tag)

    @app.delete("/datastore/label")
    def remove_label(id: str, tag: str) -> dict[str, Any]:  # noqa: A002 - the client's word
        store.remove(id, tag)
        return {}


def _status(jobs: Jobs, method: str, *, check_if_running: bool, every: bool) -> Any:
    job = jobs.last.get(method)
    if job is None or (check_if_running and not job.running):
        raise NotFoundError(f"no {method} is running")
    return [job.to_json()] if every else job.to_json()


def _add_training(app: FastAPI, server: Server) -> None:
    jobs = server.jobs

    @app.get("/train/")
    def train_status(all: bool = False, check_if_running: bool = False) -> Any:  # noqa: A002, FBT001, FBT002 - the client's words
        return _status(jobs, "train", check_if_running=check_if_running, every=all)

    @app.post("/train/")
    def train_all(params: Params = None) -> dict[str, Any]:
        own = (params or {}).get(server.name)
        return server.train(own if isinstance(own, dict) else params or {})

    @app.post("/train/{model}")
    def train(model: str, params: Params = None) -> dict[str, Any]:
        server.check_model(model)
        return server.train(params or {})

    @app.delete("/train/")
    def stop_training() -> dict[str, Any]:
        return jobs.stop("train").to_json()


def _add_batches(app: FastAPI, server: Server) -> None:
    jobs = server.jobs

    @app.get("/batch/infer")
    def batch_status(all: bool = False, check_if_running: bool = False) -> Any:  # noqa: A002, FBT001, FBT002 - the client's words
        return _status(jobs, "batch_infer", check_if_running=check_if_running, every=all)

    @app.post("/batch/infer/{model}")
    def batch_infer(model: str) -> dict[str, Any]:
        server.check_model(model)
        started = server.measure()
        if started is None:
            raise BusyError("the scans are being measured already")
        return started

    @app.delete("/batch/infer")
    def stop_batch() -> dict[str, Any]:
        return jobs.stop("batch_infer").to_json()

    @app.get("/logs/")
    def logs(lines: int = 300) -> Response:
        newest = max(jobs.last.values(), key=lambda job: job.started, default=None)
        found = tail(newest.log, min(max(lines, 1), MOST_LINES)) if newest else []
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        return PlainTextResponse("\n".join([*found, f"{stamp} {server.name}"]) + "\n")


def listen(
    project: Project,
    run: Path | None,
    host: str,
    port: int,
    *,
    allow_origin: Sequence[str] = (),
    device: str = "auto",
) -> None:
    """Serve a project until the process is told to end."""
    token = "" if is_loopback(host) else secrets.token_urlsafe(32)
    access = Access(token, checked_origins(allow_origin))
    temporary = project.root / "labelling" / "uploads"
    temporary.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(temporary)  # uploads wait in nameless files there, and nowhere else
    app = make_app(project, access, run=run, device=device)
    with _bound(host, port) as listener:
        address, number = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        path = f"/{token}" if token else ""
        say(f"serving {project.root} on http://{shown}:{number}{path}")
        say("3D Slicer: give this address to the module MONAI Label. Stop with Ctrl-C")
        if token:
            say("whoever knows this address can read the scans and change labels; keep it secret")
        # Requests are not logged: their paths hold the token.
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listener])


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens, or one line that says why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"cannot listen on {host}:{port} ({error}); choose another --port"
        ) from None
    return listener
