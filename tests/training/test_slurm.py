import os

import pytest

from tracoco.errors import UserError
from tracoco.training import slurm
from tracoco.training.slurm import first_of, join_slurm_tasks, task_variables

TASK = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "2",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "3",
}


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node1", "node1"),
        ("node[1-2]", "node1"),
        ("gpu[07-09,12],big1", "gpu07"),
        ("a1,b2", "a1"),
        ("rack[3]-ib", "rack3-ib"),
        ("node[5,1-2].site", "node5.site"),
    ],
)
def test_the_first_host_of_a_list(nodes: str, first: str) -> None:
    assert first_of(nodes) == first


def test_a_task_gets_what_torchrun_would_set() -> None:
    assert task_variables(TASK) == {
        "RANK": "3",
        "LOCAL_RANK": "3",
        "WORLD_SIZE": "4",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20_000 + 7 * 101 + 2),
    }


def test_two_steps_of_a_job_have_two_ports() -> None:
    ports = {task_variables(TASK | {"SLURM_STEP_ID": step})["MASTER_PORT"] for step in "012"}
    assert len(ports) == 3


def test_the_user_may_choose_address_and_port() -> None:
    found = task_variables(TASK | {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"})
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("10.0.0.1", "29500")


def test_the_first_of_several_nodes_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    several = TASK | {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "localhost,other"}
    assert task_variables(several)["MASTER_ADDR"] == "localhost"
    monkeypatch.setattr(slurm, "_configured_address", lambda _host: "127.0.0.1")
    several |= {"SLURM_STEP_NODELIST": "no-such-host.invalid,other"}
    assert task_variables(several)["MASTER_ADDR"] == "127.0.0.1"
    monkeypatch.setattr(slurm, "_configured_address", lambda _host: "")
    with pytest.raises(UserError, match=r"no-such-host.invalid.*set MASTER_ADDR"):
        task_variables(several)


def test_a_single_task_is_alone() -> None:
    assert task_variables(TASK | {"SLURM_STEP_NUM_TASKS": "1"}) == {}


def test_a_batch_script_is_told_to_use_srun(capsys: pytest.CaptureFixture[str]) -> None:
    script = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"}
    assert task_variables(script) == {}
    assert "start it by `srun tracoco train ...`" in capsys.readouterr().err


def test_a_task_without_a_number_is_refused() -> None:
    unnumbered = {key: value for key, value in TASK.items() if key != "SLURM_PROCID"}
    with pytest.raises(UserError, match="SLURM_PROCID is not set"):
        task_variables(unnumbered)


def test_processes_of_torchrun_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (TASK | {"WORLD_SIZE": "2", "RANK": "1"}).items():
        monkeypatch.setenv(name, value)
    join_slurm_tasks()
    assert os.environ["RANK"] == "1"
    assert "MASTER_PORT" not in os.environ
