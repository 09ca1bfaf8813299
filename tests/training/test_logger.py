from pathlib import Path

from samples import step_record

from tracoco.methods.health import PseudoLabelHealth
from tracoco.runs.log import StepRecord, UnlabelledRecord, read_log
from tracoco.training.logger import RunLogger

SHARES = {"background": 0.9, "organ": 0.1}


class Listener:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shown: list[int] = []

    def show(self, record: StepRecord) -> None:
        self.shown.append(record.step)

    def say(self, line: str) -> None:
        self.lines.append(line)


def record(step: int, background: float, **more: UnlabelledRecord) -> StepRecord:
    health = PseudoLabelHealth((background, 1 - background))
    return step_record(step, terms={}, health=health, **more)


def test_a_forced_collapse_is_said_once_and_logged_at_every_step(tmp_path: Path) -> None:
    listener = Listener()
    with RunLogger(tmp_path, 0, SHARES, listener, advice="rest") as logger:
        for step in range(130):
            logger.write(record(step, 1.0 if step < 120 else 0.5))
    gone, back = listener.lines
    assert gone.startswith("step 99: 'organ' is all but absent from the pseudo-labels, and is 10 %")
    assert gone.endswith("To help, rest")
    assert back == "step 120: 'organ' is back in the pseudo-labels"
    assert listener.shown == list(range(130))
    log = read_log(tmp_path / "log.jsonl")
    assert [entry.step for entry in log if entry.collapsed] == list(range(99, 120))
    assert log[99].collapsed == ("organ",)


def test_a_resumed_journal_goes_on_counting_and_does_not_repeat_itself(tmp_path: Path) -> None:
    with RunLogger(tmp_path, 0, SHARES, Listener(), advice="rest") as logger:
        for step in range(110):
            logger.write(record(step, 1.0))
    listener = Listener()
    with RunLogger(tmp_path, 105, SHARES, listener, advice="rest") as logger:
        logger.write(record(105, 1.0))
    assert listener.lines == []
    assert [entry.step for entry in read_log(tmp_path / "log.jsonl")] == list(range(106))


def test_a_structure_that_fades_is_said_once_and_also_after_a_resume_only_once(
    tmp_path: Path,
) -> None:
    listener = Listener()
    with RunLogger(tmp_path, 0, SHARES, listener, advice="rest") as logger:
        for step in range(400):
            logger.write(record(step, 0.8 if step < 200 else 0.9))
    (line,) = listener.lines
    # Halfway from 20 % to 10 % the mean of 100 steps is three quarters, and a step later below.
    assert line.startswith("step 250: the pseudo-labels have less and less of 'organ', 15 % where")
    assert "they had 20 %" in line
    assert line.endswith("compare with `--method supervised`, or rest")
    log = read_log(tmp_path / "log.jsonl")
    assert [entry.step for entry in log if entry.fading] == list(range(250, 400))
    again = Listener()
    with RunLogger(tmp_path, 300, SHARES, again, advice="rest") as logger:
        logger.write(record(300, 0.9))
    assert again.lines == []
    assert read_log(tmp_path / "log.jsonl")[-1].fading == ("organ",)


def test_disagreement_is_said_once_and_the_beginning_is_not_said_again_when_it_ends(
    tmp_path: Path,
) -> None:
    def counting(step: int) -> StepRecord:
        # Counts from step 2 on; the networks disagree from step 4 to 6 and at step 8.
        doubted = 4 <= step < 7 or step == 8
        idle = step < 2 or doubted
        weight, agreement = (0.0, 0.5) if idle else (1.0, 0.95)
        told = UnlabelledRecord(weight, 0.8, agreement, doubted)
        return record(step, 0.9, unlabelled=told)

    listener, resumed = Listener(), Listener()
    with RunLogger(tmp_path, 0, SHARES, listener, advice="rest") as logger:
        for step in range(6):
            logger.write(counting(step))
    with RunLogger(tmp_path, 6, SHARES, resumed, advice="rest") as logger:
        for step in range(6, 9):
            logger.write(counting(step))
    began, disagree = listener.lines
    assert began.startswith("step 2: unlabelled crops count from here on")
    assert disagree.startswith("step 4: the two networks disagree on unlabelled crops (Dice 50)")
    assert resumed.lines == []
