"""A project, its model and what runs in the background: what each request asks for.

Jobs are commands of `tracoco`, each in a process of its own, with a status and a log.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from fastapi import UploadFile

from tracoco import __version__
from tracoco.errors import UserError
from tracoco.labelling.rounds import open_round
from tracoco.scans.reader import is_scan
from tracoco.serving.model import STRATEGIES, Draft, ServedModel
from tracoco.serving.store import (
    FINAL,
    LabelStore,
    NotFoundError,
    checked_params,
    copy,
    known_suffix,
)

MOST_SESSIONS = 8
STOP_SECONDS = 120.0
"""A training saves its weights before it ends."""
SHOWN_LINES = 20
LONGEST_TAIL = 64 * 1024


@dataclass(slots=True)
class Job:
    """A command that runs or has run."""

    method: str
    words: tuple[str, ...]
    log: Path
    process: "subprocess.Popen[bytes]"
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: float = field(default_factory=time.time)
    ended: float | None = None
    stopped: bool = False

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        code = self.process.poll()
        if code is not None and self.ended is None:
            self.ended = time.time()
        return code is None

    @property
    def status(self) -> str:
        """One of the words that MONAI Label's clients know."""
        if self.running:
            return "RUNNING"
        if self.stopped or self.process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM):
            return "STOPPED"
        return "ERROR" if self.process.returncode else "DONE"

    def to_json(self) -> dict[str, Any]:
        """As a client is told."""
        status = self.status
        return {
            "id": self.id,
            "status": status,
            "request": {"command": " ".join(("tracoco", *self.words))},
            "start_ts": _stamp(self.started),
            "end_ts": None if self.ended is None else _stamp(self.ended),
            "details": tail(self.log, SHOWN_LINES) or [""],
            "result": None if status == "RUNNING" else status,
        }


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def tail(file: Path, lines: int) -> list[str]:
    """The last lines of a log."""
    if not file.is_file():
        return []
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - LONGEST_TAIL))
        return log.read().decode("utf-8", "replace").splitlines()[-lines:]


class Jobs:
    """At most one job of each kind at a time; all end with the server."""

    def __init__(self, folder: Path) -> None:
        """`folder` is where logs go."""
        self.folder = folder
        self.last: dict[str, Job] = {}
        self._lock = Lock()

    def start(self, method: str, words: Sequence[str]) -> Job | None:
        """Start `tracoco WORDS`; None if a job of this kind is running."""
        with self._lock:
            if self.running(method):
                return None
            self.folder.mkdir(parents=True, exist_ok=True)
            log = self.folder / f"{method}-{time.strftime('%Y%m%d-%H%M%S')}.log"
            with log.open("ab") as file:
                command = [sys.executable, "-m", "tracoco", *words]
                process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    env={**os.environ, "PYTHONUNBUFFERED": "1"},
                    start_new_session=True,  # Ctrl-C is for the server, which ends its jobs
                )
            self.last[method] = Job(method, tuple(words), log, process)
            return self.last[method]

    def running(self, method: str) -> bool:
        """Whether a job of this kind is running."""
        return method in self.last and self.last[method].running

    def stop(self, method: str) -> Job:
        """Ask a job to end, and wait until it has saved what it has to."""
        if method not in self.last:
            raise UserError(f"no {method} was started by this server")
        job = self.last[method]
        if job.running:
            job.stopped = True
            job.process.terminate()
            try:
                job.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                job.process.kill()
                job.process.wait()
        return job

    def stop_all(self) -> None:
        """End with the server."""
        for method in list(self.last):
            self.stop(method)


@dataclass(slots=True)
class Server:
    """A project, its model and what runs in the background."""

    store: LabelStore
    model: ServedModel
    jobs: Jobs
    sessions: dict[str, Path] = field(default_factory=dict)
    """Scans that tools have sent to be segmented, the oldest first."""

    @property
    def name(self) -> str:
        """The one model is called like the project."""
        return self.store.project.root.resolve().name

    def check_model(self, name: str) -> None:
        """Refuse a model that there is not."""
        if name not in ("", self.name):
            raise NotFoundError(f"there is no model '{name[:80]}', only '{self.name}'")

    def info(self) -> dict[str, Any]:
        """What a tool shows of the server."""
        plan = self.store.project.load_plan()
        names = dict(zip(plan.class_names[1:], plan.label_values[1:], strict=True))
        model = {
            "type": "segmentation",
            "labels": names,
            "dimension": 3,
            "description": f"the newest run of {self.name}",
            "config": {},
        }
        steps = {"config": {"steps": 0}, "description": "0 steps: as many as the run before"}
        stats = self.model.stats()
        return {
            "name": f"tracoco: {self.name}",
            "description": "Segmentation from a few labelled and many unlabelled scans",
            "version": __version__,
            "labels": list(names),
            "models": {self.name: model} if self.model.run else {},
            "trainers": {self.name: steps},
            "strategies": {
                name: {"description": about, "config": {}} for name, about in STRATEGIES.items()
            },
            "scoring": {},
            "train_stats": {self.name: stats} if stats else {},
            "datastore": self.store.stats(),
        }

    def measure(self) -> dict[str, Any] | None:
        """Have the model measure all unlabelled scans, in the background; None if that runs."""
        run = self.model.run
        if run is None:
            raise NotFoundError(f"{self.name} has no trained run; start a training first")
        drafts = self.store.root / "measured"
        words = ["next", self.store.project.root, run, "-o", drafts, "--device", self.model.device]
        job = self.jobs.start("batch_infer", [str(word) for word in words])
        return job.to_json() if job else None

    def train(self, params: dict[str, Any]) -> dict[str, Any]:
        """Take the labels that were sent into the project and train, in the background."""
        project, received = self.store.project, self.store.received / FINAL
        words = ["update", str(project.root), "--train", "--device", self.model.device]
        if self.store.new():
            words += ["--labels", str(received)]
        elif open_round(project) is None:
            raise UserError("there is no new label to train from; save one first")
        steps = params.get("steps", 0)
        if not isinstance(steps, int) or isinstance(steps, bool) or not 0 <= steps <= 10**7:
            raise UserError(f"steps is {str(steps)[:40]}; give a whole number, 0 for the usual one")
        words += ["--set", f"training.steps={steps}"] if steps else []
        job = self.jobs.start("train", words)
        if job is None:
            raise BusyError("a training is running already; stop it first, or wait for its end")
        return job.to_json()

    def next(self, strategy: str) -> dict[str, Any]:
        """The scan that a tool shall open next; empty if all have a label."""
        if self.model.run and self.model.unscored() and not self.jobs.running("train"):
            self.measure()
        found = self.model.next(strategy)
        if found is None:
            return {}
        case, why = found
        image = self.store.case(case).images[0]
        return {"id": case, "name": image.name, "path": str(image), "why": why}

    def open_session(self, files: list[UploadFile]) -> dict[str, Any]:
        """Keep a scan that a tool has sent; the oldest one goes where there are many."""
        key = uuid.uuid4().hex
        folder = self.store.root / "sessions" / key
        try:
            for index, each in enumerate(files):
                name = each.filename or ""
                plain = len(files) > 1 and name.lower().endswith(".dcm")
                suffix = ".dcm" if plain else known_suffix(name)
                copy(each.file, folder / f"image{index:05d}{suffix}")
            scan = next(iter(folder.iterdir())) if len(files) == 1 else folder
            if not is_scan(scan):
                raise UserError("the files that were sent are no scan")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self.sessions[key] = scan
        while len(self.sessions) > MOST_SESSIONS:
            self.close_session(next(iter(self.sessions)))
        return {"session_id": key, "session_info": self.session(key)}

    def session(self, key: str) -> dict[str, Any]:
        """What is known of a scan that was sent."""
        if key not in self.sessions:
            raise NotFoundError(f"there is no session '{key[:40]}'")
        scan = self.sessions[key]
        return {"name": key, "image": scan.name, "path": str(scan), "meta": {}}

    def close_session(self, key: str) -> dict[str, Any]:
        """Forget a scan that was sent."""
        known = self.session(key)
        del self.sessions[key]
        shutil.rmtree(self.store.root / "sessions" / key, ignore_errors=True)
        return known

    def infer(self, image: str, session: str, params: str) -> Draft:
        """A draft of a scan of the project, or of one that was sent."""
        asked = checked_params(params)
        if session:
            self.session(session)
            return self.model.draft_of((self.sessions[session],), asked)
        return self.model.draft(image, asked)


class BusyError(UserError):
    """Something is running already."""
