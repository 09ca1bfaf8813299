"""A real SLURM, and projects for its tests."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest
from samples import make_project
from slurm_cluster import NEEDED, SETTINGS, Cluster, free_ports, start_munge

from tracoco.project.folder import Project


@pytest.fixture(scope="module")
def tested_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A prepared project with test cases."""
    root = tmp_path_factory.mktemp("tested")
    return make_project(root, labelled=5, unlabelled=2, test=1)


@pytest.fixture(scope="session")
def running_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and SLURM; missing: {', '.join(missing) or 'root'}")
    folder = tmp_path_factory.mktemp("slurm")
    cluster = Cluster(folder / "slurm.conf")
    values = {"host": socket.gethostname(), "folder": folder, "ports": free_ports(3)}
    cluster.settings.write_text(SETTINGS.format(**values))
    (folder / "state").mkdir()
    start_munge()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(cluster.settings))
        control = subprocess.Popen(
            ["slurmctld", "-D", "-f", str(cluster.settings)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield cluster
        finally:
            for node in cluster.nodes:
                cluster.switch_off(node)
            control.terminate()
            with suppress(subprocess.TimeoutExpired):
                control.wait(20)
            control.kill()


@pytest.fixture
def slurm(running_slurm: Cluster) -> Iterator[Cluster]:
    """The cluster with both nodes up; no job of the test outlives it."""
    for node in ("node1", "node2"):
        if node not in running_slurm.nodes or running_slurm.nodes[node].poll() is not None:
            running_slurm.switch_on(node)
    running_slurm.wait_for_nodes()
    yield running_slurm
    subprocess.run(["scancel", "--user=root"], check=True)
