"""`tracoco.testing.check_method` notices each mistake, and says which check and what to look at."""

from pathlib import Path

import broken_methods as broken
import pytest
from samples import SPARING

import tracoco.testing
from tracoco.errors import UserError
from tracoco.methods import MethodRow, Needs
from tracoco.methods.method import Method
from tracoco.testing import CHECKS, check_method


def quiet(_: str) -> None:
    """For checks whose lines do not matter."""


def test_a_line_tells_of_each_check_that_a_sound_method_passes() -> None:
    lines: list[str] = []
    checks = ["steps", "padding", "resume", "learning", "state"]
    check_method(broken.Sound, broken.ROW, only=checks, tell=lines.append)
    assert len(lines) == 4 + 4
    assert lines[0].startswith(
        "Sound: ok: every loss term is a finite scalar with a gradient (2D, 2 classes), "
    )


MISTAKES: list[tuple[type[Method], dict[str, object], str, str]] = [
    (
        broken.FloatTerm,
        {},
        "steps",
        "'consistency' of method 'FloatTerm' is float and not a tensor",
    ),
    (broken.Unreduced, {}, "steps", r"'consistency' .* has the shape \[2, 16, 16\]"),
    (broken.WithoutGradient, {}, "steps", "'consistency' .* has no gradient"),
    (broken.NotFinite, {}, "steps", "loss term 'consistency' is (inf|nan)"),
    (broken.WithoutTerms, {}, "steps", "has no loss terms"),
    (broken.PlainDict, {}, "steps", "returns dict; return StepOutput"),
    (broken.OtherNames, {}, "learning", r"no term of \['ce', 'mse'\] is in labelled_terms"),
    (broken.CountsPadding, {}, "padding", "intensities of padding change loss term 'consistency'"),
    (broken.CountsPaddedLabels, {}, "padding", "labels of padding change loss term 'supervised'"),
    (broken.Remembers, {}, "resume", "network.* differ from a run that was not interrupted"),
    (broken.Remembers, {}, "state", "forward changes past, which no checkpoint has"),
    (broken.NeedsTwo, {}, "fewest-crops", "batch of 1 labelled and 1 unlabelled crops"),
    (broken.Unowned, {}, "optimizer", "parameter_groups has head.* 0 times"),
    (broken.ReadsSecond, {}, "pairs", "fails without second crops, but the row has pairs=False"),
    (broken.Sound, {"pairs": True}, "pairs", "second crops are not looked at"),
    (broken.Sound, {"needs": Needs(features=True)}, "features", "a network without is accepted"),
    (broken.Unowned, {"trained_by_unlabelled": ("head",)}, "gradients", "head.* no loss term"),
    (broken.Sound, {"trained_by_unlabelled": ("nework",)}, "gradients", "did you mean 'network'"),
    (broken.Sound, {"trained_by_unlabelled": ()}, "steps", "nan|Error"),
]


@pytest.mark.parametrize(("method", "changes", "check", "problem"), MISTAKES)
def test_each_mistake_is_found_by_its_check(
    method: type[Method], changes: dict[str, object], check: str, problem: str
) -> None:
    row = broken.row_of(method, **changes)
    with pytest.raises(AssertionError, match=problem) as caught:
        check_method(method, row, only=[check], tell=quiet)
    text = str(caught.value)
    assert text.startswith(f"{method.__name__}: {CHECKS[check].title} (")
    assert text.endswith(f"; look at {CHECKS[check].look_at}")


def test_a_wrong_row_and_a_wrong_check_are_named() -> None:
    row = broken.row_of(broken.Sound, trained_by_unlabelled="network")
    with pytest.raises(AssertionError, match="Sound: the row is wrong: trained_by_unlabelled is"):
        check_method(broken.Sound, row, tell=quiet)
    with pytest.raises(UserError, match="check 'paddings' does not exist; did you mean 'padding'"):
        check_method(broken.Sound, broken.ROW, only=["paddings"])
    with pytest.raises(UserError, match="Sound is not registered; give its row"):
        check_method(broken.Sound)


def test_a_registered_method_is_checked_by_name_with_its_settings() -> None:
    lines: list[str] = []
    check_method("sassnet", settings=SPARING["sassnet"], only=["prediction"], tell=lines.append)
    assert lines[0].startswith("sassnet: ok: predictions are")


def test_a_method_for_volumes_alone_is_not_tried_on_slices() -> None:
    lines: list[str] = []
    row = broken.row_of(broken.Sound, dimensions=(3,))
    check_method(broken.Sound, row, only=["steps", "resume"], tell=lines.append)
    assert len(lines) == 3
    assert not any("2D" in line for line in lines)


@pytest.mark.slow
def test_two_processes_hold_the_same_weights_or_it_is_told() -> None:
    lines: list[str] = []
    row = broken.row_of(broken.Sound)
    check_method(broken.Sound, row, only=["pairs"], two_ranks=True, tell=lines.append)
    assert lines[1].startswith("Sound: ok: two processes hold the same weights")


@pytest.mark.slow
def test_random_numbers_of_its_own_are_noticed_between_processes() -> None:
    row: MethodRow = broken.row_of(broken.OwnRandomNumbers)
    with pytest.raises(AssertionError, match=r"network\.head\.bias differ between two processes"):
        check_method(broken.OwnRandomNumbers, row, only=["pairs"], two_ranks=True, tell=quiet)


def test_the_checks_need_no_test_framework() -> None:
    files = list(Path(tracoco.testing.__file__).parent.glob("*.py"))
    assert len(files) > 4
    assert not any("import pytest" in path.read_text(encoding="utf-8") for path in files)
