"""A real SLURM with two nodes on this machine, for the tests marked `slurm`.

It needs `slurm-wlm` and `munge` installed, and root, which starts the daemons. Nothing outside the
folder of the test is written but munge's socket. Each node has a host name and process numbers of
its own, so that it can be switched off with all that runs on it.
"""

import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NEEDED = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "scontrol", "squeue", "unshare")
SETTINGS = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
# A job that is put back into the queue waits for so many seconds, and a node that does not answer
# counts as down.
AuthInfo=cred_expire=5
SlurmdTimeout=20
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=8000
NodeName=node2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=8000
PartitionName=main Nodes=node[1-2] Default=YES State=UP MaxTime=60
"""


@dataclass(slots=True)
class Cluster:
    """A cluster of two nodes that runs; its commands find it by SLURM_CONF."""

    settings: Path
    nodes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def switch_on(self, node: str) -> None:
        """Start a node's daemon under a host name of its own, which numbers its processes anew."""
        daemon = f"hostname {node}; exec slurmd -D -f {self.settings} -N {node}"
        apart = ("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
        self.nodes[node] = subprocess.Popen(
            [*apart, "sh", "-c", daemon], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def switch_off(self, node: str) -> None:
        """Kill the daemon with every process of every job on the node, as a power cut does."""
        self.nodes[node].kill()
        self.nodes[node].wait()

    def wait_for_nodes(self) -> None:
        """Until both are there and idle."""
        shown = None
        for _ in range(240):
            words = ["sinfo", "--noheader", "--format", "%D %t"]
            shown = subprocess.run(words, capture_output=True, text=True, check=False)
            if shown.stdout.strip() == "2 idle":
                return
            time.sleep(0.5)
        log = self.settings.with_name("slurmctld.log").read_text(errors="replace")[-2000:]
        pytest.fail(f"the nodes did not come up: {shown}\n{log}")


def free_ports(number: int) -> list[int]:
    """Ports that nothing listens at now, another cluster of these tests least of all."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def start_munge() -> None:
    """Start the daemon that signs messages of SLURM, unless one runs."""
    if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0:
        return
    Path("/run/munge").mkdir(mode=0o755, exist_ok=True)
    shutil.chown("/run/munge", "munge", "munge")
    words = ["runuser", "-u", "munge", "--", "/usr/sbin/munged", "--force"]
    subprocess.run(words, check=True, capture_output=True)
