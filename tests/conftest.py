"""What every test has at hand."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from samples import make_project

from tracoco.project.folder import Project

# A busy machine is not a failing test.
settings.register_profile("tests", deadline=None)
settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def _the_same_on_every_machine() -> Iterator[None]:
    """Have `training.precision=auto` mean fp32, and plans be for a CPU: results must not vary."""
    if hasattr(signal, "SIGHUP"):  # `nohup` ignores it, and so would all commands of the tests
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tracoco.training.acceleration.cpu_has_bf16", lambda: False)
        patch.setattr("tracoco.project.machine.gpu_gb", lambda: None)
        yield


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A prepared project of 3 labelled, 4 unlabelled and 1 validation cases; not to be changed."""
    return make_project(tmp_path_factory.mktemp("balls"))
