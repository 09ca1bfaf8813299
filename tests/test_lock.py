"""One writer per folder: whoever comes second is refused, and the lock of a dead one is taken."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from other_writer import in_another_thread

from tracoco import lock as lock_module
from tracoco import lock_file
from tracoco.errors import UserError
from tracoco.files import write_text
from tracoco.lock import LOCK, alone_for_a_moment, one_of_writers, only_writer, own_content
from tracoco.lock_file import SILENT_SECONDS, STALE_SECONDS, TEMPORARY, temporary_name

HOLD = """
import sys, time
from pathlib import Path
from tracoco.files import atomic_path
from tracoco.lock import only_writer
with only_writer(Path(sys.argv[1]), "train"), atomic_path(Path(sys.argv[1]) / "last.pt") as half:
    half.write_text("half")
    print("mine", flush=True)
    time.sleep(60)
"""
TRY = """
import sys, time
from pathlib import Path
from tracoco.errors import UserError
from tracoco.lock import only_writer
print("ready", flush=True)
sys.stdin.readline()
try:
    with only_writer(Path(sys.argv[1]), "train"):
        print("mine", flush=True)
        sys.stdin.readline()
except UserError as error:
    print(error, flush=True)
"""
ELSEWHERE = "0badcafe.12.34.00000000"
"""Token of a process of another machine."""


def start(code: str, folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline()


def tell(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def foreign_lock(folder: Path, age: float, text: str | None = None) -> Path:
    """The lock of a process of another machine that was renewed so many seconds ago."""
    holder = {"token": ELSEWHERE, "host": "node7", "command": "train", "since": "noon"}
    path = folder / LOCK
    path.write_text(json.dumps(holder | {"entering": False}) if text is None else text)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_the_second_is_told_who_the_first_is_and_gets_the_folder_after_it(tmp_path: Path) -> None:
    named = rf"`tracoco train` \(process {os.getpid()} on \S+, since \d{{4}}-.*\); wait for its end"
    with in_another_thread(tmp_path), pytest.raises(UserError, match=named):
        only_writer(tmp_path, "predict").__enter__()
    with only_writer(tmp_path, "predict"), only_writer(tmp_path, "evaluate"):
        assert [file.name for file in tmp_path.iterdir()] == [LOCK]
        assert own_content(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_of_many_that_come_at_once_exactly_one_gets_a_new_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    many = [start(TRY, folder) for _ in range(4)]
    assert {line(each) for each in many} == {"ready\n"}
    for each in many:
        tell(each)
    said = [line(each) for each in many]
    winner = many[said.index("mine\n")]
    others = [each for each in said if each != "mine\n"]
    assert len(others) == 3
    assert all(f"(process {winner.pid} on" in each for each in others)
    tell(winner)
    assert [each.wait(30) for each in many] == [0] * 4
    assert own_content(folder) == []


def test_the_lock_of_a_killed_process_is_taken_at_once_and_its_half_written_file_is_removed(
    tmp_path: Path,
) -> None:
    with start(HOLD, tmp_path) as first:
        assert line(first) == "mine\n"
        half = [path for path in tmp_path.iterdir() if path.name.startswith(TEMPORARY)]
        assert [path.read_text() for path in half] == ["half"]
        with pytest.raises(UserError, match=f"process {first.pid} on"):
            only_writer(tmp_path, "train").__enter__()
        assert half[0].exists()  # a living writer is filling it
        first.kill()  # and not waited for: it stays as a zombie, which is dead all the same
        deadline = time.monotonic() + 30
        while True:
            with ExitStack() as stack:
                try:
                    stack.enter_context(only_writer(tmp_path, "train"))
                except UserError:
                    assert time.monotonic() < deadline
                    continue
                assert [path.name for path in tmp_path.iterdir()] == [LOCK]
                break
    assert list(tmp_path.iterdir()) == []


def test_a_later_process_with_the_number_of_a_dead_one_is_not_taken_for_it(tmp_path: Path) -> None:
    token = temporary_name("").removeprefix(TEMPORARY).rstrip(".")
    machine, pid, started, random = token.split(".")
    earlier = ".".join([machine, pid, str(int(started) - 1), random])
    foreign_lock(tmp_path, 0, json.dumps({"token": earlier, "host": "here", "command": "train",
                                          "since": "noon", "entering": False}))  # fmt: skip
    with only_writer(tmp_path, "train"):
        pass


@pytest.mark.parametrize("text", [None, "", "{", '{"token": 1}', "[]"])
def test_of_another_machine_the_age_by_the_clock_of_the_disk_decides(
    tmp_path: Path, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty lock file is also what version 0.1.0 left in a project that was updated."""
    path = foreign_lock(tmp_path, SILENT_SECONDS - 20, text)
    # A clock of this host that is wrong by days changes nothing.
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with pytest.raises(UserError, match="on node7, since noon" if text is None else "an unknown"):
        only_writer(tmp_path, "train").__enter__()
    assert path.exists()
    monkeypatch.undo()
    foreign_lock(tmp_path, STALE_SECONDS + 20, text)
    with only_writer(tmp_path, "train"):
        assert str(os.getpid()) in path.read_text()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there is no flock")
def test_a_flock_that_is_held_keeps_a_lock_that_is_not_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl  # noqa: PLC0415 - the same

    monkeypatch.setattr(lock_file, "STALE_SECONDS", 1.0)
    path = foreign_lock(tmp_path, 10 * STALE_SECONDS)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="node7"):
            only_writer(tmp_path, "train").__enter__()
    with only_writer(tmp_path, "train"):
        pass


def test_a_restarted_job_waits_until_the_lock_of_a_dead_node_is_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign_lock(tmp_path, STALE_SECONDS - 2)
    began = time.monotonic()
    with only_writer(tmp_path, "train"):
        assert 1 < time.monotonic() - began < 60
    assert "on node7, since noon), which gives no sign of life" in capsys.readouterr().err


def test_without_flock_and_without_hard_links_the_second_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", none)
    monkeypatch.setattr("tracoco.lock_file.fcntl.flock", none)
    with in_another_thread(tmp_path), pytest.raises(UserError, match="being written"):
        only_writer(tmp_path, "train").__enter__()
    with only_writer(tmp_path, "train"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_of_many_that_find_a_dead_lock_one_takes_it(tmp_path: Path) -> None:
    for _ in range(10):
        foreign_lock(tmp_path, STALE_SECONDS + 20)
        together, inside, most, count = threading.Barrier(4), 0, 0, 0
        guard = threading.Lock()

        def contend(together: threading.Barrier = together, guard: threading.Lock = guard) -> None:
            nonlocal inside, most, count
            together.wait()
            try:
                with only_writer(tmp_path, "train"):
                    with guard:
                        inside, count = inside + 1, count + 1
                        most = max(most, inside)
                    time.sleep(0.02)
                    with guard:
                        inside -= 1
            except UserError:
                pass

        threads = [threading.Thread(target=contend) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == 1 <= count
        assert list(tmp_path.iterdir()) == []


def test_one_whose_lock_was_taken_over_writes_nothing_and_leaves_the_other_lock(
    tmp_path: Path,
) -> None:
    with only_writer(tmp_path, "train"):
        write_text(tmp_path / "a.txt", "mine")
        (tmp_path / LOCK).unlink()
        foreign_lock(tmp_path, 0)
        with pytest.raises(UserError, match="is not written"):
            write_text(tmp_path / "a.txt", "too late")
    assert (tmp_path / "a.txt").read_text() == "mine"
    assert ELSEWHERE in (tmp_path / LOCK).read_text()


def test_a_lock_is_renewed_and_its_thread_keeps_no_process_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "BEAT_SECONDS", 0.02)
    with only_writer(tmp_path, "train"):
        path = tmp_path / LOCK
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 30
        while path.stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert all(thread.daemon for thread in threading.enumerate() if thread.name == "lock")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_neither_gives_the_lock_back_nor_keeps_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(only_writer(tmp_path, "train"))
        child = os.fork()
        if not child:
            try:
                stack.close()
                os._exit(len(lock_module._held))
            finally:
                os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (tmp_path / LOCK).exists()
        write_text(tmp_path / "a.txt", "still ours")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_parts_of_one_division_share_a_folder_and_nobody_else(tmp_path: Path) -> None:
    with in_parts(tmp_path, (1, 2)):
        with one_of_writers(tmp_path, "predict", (2, 2)), alone_for_a_moment(tmp_path, "predict"):
            pass
        for refused in ((1, 2), (1, 3)):
            with pytest.raises(UserError, match=r"being written by `tracoco predict`"):
                one_of_writers(tmp_path, "predict", refused).__enter__()
        with pytest.raises(UserError, match="part 1of2"):
            only_writer(tmp_path, "predict").__enter__()
    with in_another_thread(tmp_path), pytest.raises(UserError, match="tracoco train"):
        one_of_writers(tmp_path, "predict", (1, 2)).__enter__()
    assert list(tmp_path.iterdir()) == []


@contextmanager
def in_parts(folder: Path, part: tuple[int, int]) -> Iterator[None]:
    with one_of_writers(folder, "predict", part):
        yield


def test_a_lock_that_could_not_be_removed_does_not_lock_its_own_process_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with only_writer(tmp_path, "train"):
        monkeypatch.setattr(lock_module, "remove", full)
    monkeypatch.undo()
    assert (tmp_path / LOCK).exists()
    with only_writer(tmp_path, "train"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_through_a_link_that_somebody_planted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "victim.txt"
    target.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.setattr("tracoco.files.temporary_name", lambda name: f"foreseen.{name}")
    (folder / "foreseen.a.txt").symlink_to(target)
    with pytest.raises(FileExistsError):
        write_text(folder / "a.txt", "theirs")
    assert target.read_text() == "mine"
    (folder / LOCK).symlink_to(target)
    with pytest.raises(UserError, match="unknown"):
        only_writer(folder, "train").__enter__()
    assert target.read_text() == "mine"


def test_names_of_temporary_files_cannot_be_foreseen_and_keep_their_suffix() -> None:
    names = {temporary_name("x" * 300 + ".nii.gz") for _ in range(100)}
    assert len(names) == 100
    assert all(name.endswith(".nii.gz") and len(name) < 200 for name in names)


def test_a_stopped_holder_of_this_machine_keeps_its_lock(tmp_path: Path) -> None:
    with start(HOLD, tmp_path) as first:
        assert line(first) == "mine\n"
        first.send_signal(signal.SIGSTOP)
        os.utime(tmp_path / LOCK, (0, 0))
        with pytest.raises(UserError, match=f"process {first.pid} on"):
            only_writer(tmp_path, "train").__enter__()
        first.kill()
