"""A run names the mistakes of its method and its row before the second step."""

from collections.abc import Iterator
from pathlib import Path

import broken_methods as broken
import pytest
import torch
from samples import make_project

from tracoco.config import DataConfig
from tracoco.errors import UserError
from tracoco.methods import METHODS, Needs, register_method, resolved_choice
from tracoco.methods.method import Method, StepOutput
from tracoco.presets import load_config
from tracoco.project.folder import Project
from tracoco.settings import MethodChoice
from tracoco.training.announcement import announcement
from tracoco.training.contract import checked_terms, raised_batch
from tracoco.training.distributed import Process
from tracoco.training.experiment import Experiment
from tracoco.training.train import train

ALONE = Process(0, 1, torch.device("cpu"))
SHORT = ["training.steps=2", "network.filters=4", "data.crop=[16, 16, 8]", "data.workers=0"]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Three labelled scans, so that the plan's batch is odd once it is large enough."""
    return make_project(tmp_path_factory.mktemp("three"), labelled=3, unlabelled=3, validation=0)


@pytest.fixture(autouse=True)
def _no_method_stays() -> Iterator[None]:
    yield
    METHODS.pop("mine", None)


def run_mine(project: Project, out: Path, method: type[Method], *more: str, **row: object) -> None:
    register_method("mine", broken.row_of(method, **row))
    config = load_config(None, ["method.name=mine", *SHORT, *more])
    train(project, config, out / "run", device="cpu")


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        (broken.FloatTerm, "loss term 'consistency' of method 'mine' is float and not a tensor"),
        (broken.Unreduced, "loss term 'consistency' of method 'mine' has the shape"),
        (broken.WithoutGradient, "loss term 'consistency' of method 'mine' has no gradient"),
        (broken.NotFinite, "step 0: the loss of method 'mine' is not finite .*formula of consist"),
        (broken.WithoutTerms, "method 'mine' has no loss terms"),
        (broken.PlainDict, "forward of method 'mine' returns dict"),
        (broken.OtherNames, r"terms of method 'mine' \(ce, mse\) is in its labelled_terms"),
    ],
)
def test_a_wrong_term_ends_the_run_at_its_first_step(
    three: Project, tmp_path: Path, method: type[Method], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        run_mine(three, tmp_path, method)
    assert not (tmp_path / "run" / "last.pt").exists()


def test_a_sound_method_trains(three: Project, tmp_path: Path) -> None:
    run_mine(three, tmp_path, broken.Sound)
    assert (tmp_path / "run" / "last.pt").exists()


def test_a_constant_of_zero_needs_no_gradient() -> None:
    output = StepOutput({"a": torch.ones((), requires_grad=True), "b": torch.zeros(())})
    assert list(checked_terms("mine", output)) == ["a", "b"]


def test_an_unknown_module_in_the_row_is_told_with_the_one_that_was_meant(
    three: Project, tmp_path: Path
) -> None:
    problem = r"row of method 'mine' is wrong: .* 'nework', which Sound .*did you mean 'network'\?"
    with pytest.raises(UserError, match=problem):
        run_mine(three, tmp_path, broken.Sound, trained_by_unlabelled=("nework",))
    assert not (tmp_path / "run").exists()


def test_a_row_without_modules_of_a_method_that_needs_unlabelled_crops_is_told(
    three: Project, tmp_path: Path
) -> None:
    for method in (broken.Sound, broken.NeedsTwo):  # one ends in a nan, the other in an error
        with pytest.raises(UserError, match=r"method 'mine' .*trained_by_unlabelled=\(\), so that"):
            run_mine(three, tmp_path / method.__name__, method, trained_by_unlabelled=())


def test_another_error_of_a_method_stays_as_it_is_with_a_note_of_the_method(
    three: Project, tmp_path: Path
) -> None:
    with pytest.raises(KeyError) as caught:
        run_mine(three, tmp_path, broken.Failing)
    assert caught.value.__notes__ == ["in forward of method 'mine' at step 0"]


def of(project: Project, *settings: str) -> Experiment:
    return Experiment.of(project, load_config(None, [*SHORT, *settings]))


def test_a_plan_s_batch_is_raised_to_what_the_method_needs_and_the_run_says_so(
    three: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = three.load_plan().model_copy(update={"batch": (8, 8)})
    monkeypatch.setattr(Project, "load_plan", lambda _: plan)
    raised, kept = of(three, "method.name=bcp"), of(three, "method.name=cps")
    assert raised.config.data.batch == (4, 4)
    assert "8 in all (the plan's 3 + 3 are raised to 4 + 4, which the method needs)" in (
        announcement(raised, ALONE)
    )
    assert kept.config.data.batch == (3, 3)
    assert "raised" not in announcement(kept, ALONE)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            ("method.name=bcp", "data.labelled_batch=3"),
            "'bcp' needs an even number of labelled crops in a batch, 2 or more, but "
            "data.labelled_batch is 3; set it to 4",
        ),
        (
            ("method.name=ict", "data.unlabelled_batch=1"),
            "'ict' needs unlabelled crops in a batch, 2 or more, but data.unlabelled_batch is 1; "
            "set it to 2",
        ),
        (
            ("method.name=cps", "data.unlabelled_batch=1"),
            "set it to 2, or method.cutmix to false",
        ),
        (
            ("method.name=ss-net", "network.name=monai:UNet"),
            "'ss-net' needs the feature maps of its network, which 'monai:UNet' does not give",
        ),
    ],
)
def test_settings_that_do_not_fit_the_method_are_refused(
    three: Project, settings: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(UserError) as caught:
        of(three, *settings)
    assert problem in str(caught.value)


def test_a_need_goes_with_the_setting_that_causes_it(three: Project) -> None:
    settings = ("method.name=cps", "method.cutmix=false", "data.unlabelled_batch=1")
    assert of(three, *settings).config.data.batch == (2, 1)
    choice = resolved_choice(MethodChoice.model_validate({"name": "cps", "cutmix": False}))
    assert raised_batch((1, 1), DataConfig(), choice) == (1, 1)
    assert raised_batch((1, 1), DataConfig(), resolved_choice(MethodChoice(name="cps"))) == (1, 2)
    assert raised_batch((1, 1), DataConfig(unlabelled_batch=5), choice) == (1, 1)


def test_a_method_for_slices_alone_is_refused_on_volumes(three: Project) -> None:
    register_method("mine", broken.row_of(broken.Sound, dimensions=(2,)))
    with pytest.raises(UserError, match="'mine' is for 2D crops, and this project has 3D ones"):
        of(three, "method.name=mine")


def test_a_need_that_names_no_setting_is_a_wrong_row(three: Project) -> None:
    row = broken.row_of(broken.Sound, needs=Needs(unlabelled=2, only_with="nois"))
    register_method("mine", row)
    with pytest.raises(UserError, match=r"only_with is 'nois', .*did you mean 'noise'\?"):
        of(three, "method.name=mine")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"target": "broken_methods.Sound"}, "is not of the form 'module:Class'"),
        ({"trained_by_unlabelled": "network"}, "write a tuple of names"),
        ({"family": "mixin"}, "family 'mixin' does not exist; there are baseline, "),
        ({"dimensions": (1,)}, r"dimensions is \(1,\)"),
        ({"needs": Needs(labelled=0)}, "fewer than 1 crop"),
        (
            {"needs": Needs(unlabelled=2), "trained_by_unlabelled": ()},
            "asks for 2 unlabelled crops, but trained_by_unlabelled is empty",
        ),
    ],
)
def test_a_wrong_row_is_refused_when_it_is_registered(
    changes: dict[str, object], problem: str
) -> None:
    row = broken.row_of(broken.Sound, **changes)
    with pytest.raises(ValueError, match=f"the row of method 'mine' is wrong: .*{problem}"):
        register_method("mine", row)
    assert "mine" not in METHODS
