import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("two_ranks.py")


def test_two_processes_hold_the_same_weights_after_every_step_and_stop_together(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*command, str(PROGRAM), str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert {path.name for path in tmp_path.glob("rank*")} == {"rank0", "rank1"}
