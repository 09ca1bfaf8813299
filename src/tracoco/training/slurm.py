"""Join the tasks of `srun` in one training, as if `torchrun` had started them.

`srun -n4 tracoco train ...` starts four tasks that know their number from the environment alone.
They are given the variables that torchrun sets, so that everything else is the same for both.
"""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping

from tracoco.console import say
from tracoco.errors import UserError

FIRST_PORT, PORTS = 20_000, 10_000
"""Ports that are chosen from by job and step, so that two steps on a node do not meet."""


def join_slurm_tasks() -> None:
    """Set torchrun's variables for this process if it is one of several tasks of an `srun`."""
    if "WORLD_SIZE" in os.environ or "SLURM_JOB_ID" not in os.environ:
        return
    os.environ.update(task_variables(os.environ))


def task_variables(slurm: Mapping[str, str]) -> dict[str, str]:
    """What torchrun would have set for a task of SLURM; nothing for a task that is alone.

    Args:
        slurm: the environment of the task.
    """
    if "SLURM_STEP_ID" not in slurm:  # a batch script or an allocation, not a task of srun
        tasks = int(slurm.get("SLURM_NTASKS", "1"))
        if tasks > 1:
            say(
                f"warning: the SLURM job has {tasks} tasks, and this training uses one; to train "
                "with all of them, start it by `srun tracoco train ...`"
            )
        return {}
    tasks = int(slurm.get("SLURM_STEP_NUM_TASKS", slurm.get("SLURM_NTASKS", "1")))
    if tasks == 1:
        return {}
    missing = [name for name in ("SLURM_PROCID", "SLURM_LOCALID") if name not in slurm]
    if missing:
        raise UserError(
            f"this looks like one of {tasks} tasks of SLURM, but {' and '.join(missing)} is not "
            "set; start it by `srun tracoco train ...`, or with torchrun"
        )
    return {
        "RANK": slurm["SLURM_PROCID"],
        "LOCAL_RANK": slurm["SLURM_LOCALID"],
        "WORLD_SIZE": str(tasks),
        "MASTER_ADDR": slurm.get("MASTER_ADDR") or _first_host(slurm),
        "MASTER_PORT": slurm.get("MASTER_PORT") or str(_port(slurm)),
    }


def first_of(nodes: str) -> str:
    """The first host of SLURM's list: `gpu[07-09,12],big1` begins with gpu07."""
    found = re.match(r"([^\[,]+)(?:\[([^\],-]+)[^\]]*\])?([^,\[]*)", nodes)
    if not found:
        raise UserError(f"SLURM's list of nodes '{nodes}' is not understood; set MASTER_ADDR")
    prefix, number, suffix = found.groups(default="")
    return f"{prefix}{number}{suffix}"


def _first_host(slurm: Mapping[str, str]) -> str:
    """An address of the node of task 0 that all other tasks can reach."""
    if slurm.get("SLURM_STEP_NUM_NODES", slurm.get("SLURM_NNODES")) == "1":
        return "127.0.0.1"
    host = first_of(slurm.get("SLURM_STEP_NODELIST") or slurm.get("SLURM_JOB_NODELIST", ""))
    for name in (host, _configured_address(host)):
        if name and _resolves(name):
            return name
    raise UserError(
        f"the first node of the job, '{host}', has no address that is known here; set MASTER_ADDR "
        "to the address of the node that runs task 0"
    )


def _configured_address(host: str) -> str:
    """The address of a node in SLURM's own configuration, where the name alone means nothing."""
    scontrol = shutil.which("scontrol")
    if scontrol is None:
        return ""
    command = [scontrol, "show", "node", host]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a name of SLURM's
    found = re.search(r"\bNodeAddr=(\S+)", shown.stdout)
    return found[1] if found else ""


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _port(slurm: Mapping[str, str]) -> int:
    """The same for all tasks of a step, and another one for the next step of a job."""
    return FIRST_PORT + (101 * int(slurm["SLURM_JOB_ID"]) + int(slurm["SLURM_STEP_ID"])) % PORTS
