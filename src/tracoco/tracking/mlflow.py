"""MLflow: the server or folder that the user's settings of MLflow name, else `mlruns` beside a run.

Settings of MLflow are its environment variables, or `mlflow.set_tracking_uri` in Python. MLflow's
own report of usage to its makers is turned off, unless the user has said otherwise.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracoco.tracking.tracker import Pixels, Status, TrackedRun

STATUSES = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # A server that does not answer holds a training up once, for about half a minute.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
"""Environment variables of MLflow that have other values here, where the user has set none."""
SECONDS = 5.0
"""Metrics are sent together, after so long."""
MOST_METRICS, MOST_SETTINGS = 1000, 100
"""What a server takes at once."""


class MLflow:
    """Sends a run by a client of its own, apart from any run that the user has open."""

    def __init__(self, run: TrackedRun, id_: str | None) -> None:
        for name, value in DEFAULTS.items():
            os.environ.setdefault(name, value)
        import mlflow  # noqa: PLC0415 - an optional extra

        mlflow.telemetry.set_telemetry_client()  # MONAI may have imported MLflow before
        if mlflow.is_tracking_uri_set():
            place = mlflow.get_tracking_uri()
        else:
            # Files need no database, and several runs may write at once, also on a shared disk.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            place = (run.folder.absolute().parent / "mlruns").as_uri()
        self._mlflow: Any = mlflow
        self._client: Any = mlflow.MlflowClient(tracking_uri=place)
        self._pending: list[Any] = []
        self._sent = time.monotonic()
        self.id: str = self._client.get_run(id_).info.run_id if id_ else self._new_run(run)

    def _new_run(self, run: TrackedRun) -> str:
        experiment = self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.project)
        id_: str = self._client.create_run(experiment, run_name=run.folder.name).info.run_id
        return id_

    def _experiment(self, name: str) -> str:
        """The id of an experiment, which another run may be making at this moment."""
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except self._mlflow.MlflowException:
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def settings(self, values: Mapping[str, Any]) -> None:
        """Keep those that are not kept yet: MLflow lets none be changed."""
        self._client.update_run(self.id, status="RUNNING")
        known = self._client.get_run(self.id).data.params
        new = [
            self._mlflow.entities.Param(name, json.dumps(value))
            for name, value in values.items()
            if name not in known
        ]
        for first in range(0, len(new), MOST_SETTINGS):
            self._client.log_batch(self.id, params=new[first : first + MOST_SETTINGS])

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Collect figures, and send them now and then."""
        now = int(time.time() * 1000)
        self._pending += [
            self._mlflow.entities.Metric(name, value, now, step) for name, value in values.items()
        ]
        if len(self._pending) >= MOST_METRICS or time.monotonic() - self._sent >= SECONDS:
            self._send()

    def _send(self) -> None:
        for first in range(0, len(self._pending), MOST_METRICS):
            self._client.log_batch(self.id, self._pending[first : first + MOST_METRICS])
        self._pending.clear()
        self._sent = time.monotonic()

    def picture(self, name: str, pixels: Pixels, step: int) -> None:
        """Keep a picture among the artefacts."""
        self._client.log_image(self.id, pixels, key=name, step=step, synchronous=True)

    def artefact(self, file: Path) -> None:
        """Keep a file among the artefacts."""
        self._client.log_artifact(self.id, str(file))

    def close(self, status: Status | None) -> None:
        """Send what is left, and how the training ended."""
        self._send()
        if status is not None:
            self._client.set_terminated(self.id, STATUSES[status])
