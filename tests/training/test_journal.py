from pathlib import Path

from tracoco.training.journal import Journal
from tracoco.training.run_log import Record, read_log


class Listener:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown: list[int] = []

    def show(self, record: Record) -> None:
        self.shown.append(record["step"])

    def say(self, line: str) -> None:
        self.lines.append(line)


def record(step: int, background: float) -> Record:
    return {"step": step, "loss": 1.0, "terms": {}, "health": {"share/0": background}}


def test_a_forced_collapse_is_said_once_and_logged_at_every_step(tmp_path: Path) -> None:
    listener = Listener()
    with Journal(tmp_path, 0, labelled_share=0.1, display=listener) as journal:
        for step in range(130):
            journal.write(record(step, 1.0 if step < 120 else 0.5))
    assert listener.lines == [
        "step 99: the pseudo-labels have collapsed to background",
        "step 120: the pseudo-labels show foreground again",
    ]
    assert listener.shown == list(range(130))
    log = read_log(tmp_path / "log.jsonl")
    assert [entry["step"] for entry in log if entry.get("collapsed")] == list(range(99, 120))


def test_a_resumed_journal_goes_on_counting_and_does_not_repeat_itself(tmp_path: Path) -> None:
    with Journal(tmp_path, 0, labelled_share=0.1, display=Listener()) as journal:
        for step in range(110):
            journal.write(record(step, 1.0))
    listener = Listener()
    with Journal(tmp_path, 105, labelled_share=0.1, display=listener) as journal:
        journal.write(record(105, 1.0))
    assert listener.lines == []
    assert [entry["step"] for entry in read_log(tmp_path / "log.jsonl")] == list(range(106))
