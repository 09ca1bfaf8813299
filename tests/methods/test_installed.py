"""Methods of installed packages: found by name, imported late, and refused in one line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from samples import make_project

import tracoco as tc
from tracoco.cli import main
from tracoco.errors import UserError
from tracoco.methods import INSTALLED, METHODS, SHIPPED, find_row, method_class, method_row
from tracoco.methods.supervised import Supervised
from tracoco.studies.benchmark import worker_processes

ROW = """
from tracoco.methods import MethodRow

ROW = MethodRow(
    target="tracoco.methods.supervised:Supervised", idea="The same.", trained_by_unlabelled=()
)
"""


def install(root: Path, package: str, points: dict[str, str], code: str = ROW) -> None:
    """What pip leaves behind: a module, and the metadata with its entry points."""
    module = package.replace("-", "_")
    (root / f"{module}.py").write_text(f"open({str(root / 'imported')!r}, 'a').close()\n{code}")
    metadata = root / f"{module}-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (metadata / "entry_points.txt").write_text(f"[tracoco.methods]\n{lines}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that packages are installed into; afterwards the table is as before."""
    monkeypatch.syspath_prepend(tmp_path)
    before, modules = dict(METHODS), set(sys.modules)
    yield tmp_path
    METHODS.clear()
    METHODS.update(before)
    INSTALLED.clear()
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) == str(tmp_path / f"{name}.py"):
            del sys.modules[name]


def test_a_method_is_found_by_name_and_its_code_is_imported_then(site: Path) -> None:
    install(site, "my-methods", {"mine-too": "my_methods:ROW"})
    method_row("tracoco")
    assert not (site / "imported").exists()
    assert method_row("mine-too").idea == "The same."
    assert method_class("mine-too") is Supervised
    assert (site / "imported").exists()
    assert worker_processes._program() == ["-m", "tracoco"]  # other processes find it as well


@pytest.mark.parametrize("words", [("--help",), ("train", "--help"), ("methods", "cps")])
def test_no_code_of_others_is_imported_for_help_or_for_a_shipped_method(
    site: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    install(site, "my-methods", {"mine-too": "my_methods:ROW"})
    monkeypatch.setattr(sys, "argv", ["tracoco", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert not (site / "imported").exists()


def test_a_run_is_trained_resumed_and_predicts_by_name(site: Path, tmp_path: Path) -> None:
    install(site, "my-methods", {"mine-too": "my_methods:ROW"})
    project = make_project(tmp_path / "made", labelled=2, unlabelled=1, validation=0)
    small = {"training.steps": 2, "network.filters": 4, "data.crop": [16, 16, 16]}
    run = tc.train(project, method="mine-too", settings=small, progress=False)
    METHODS.pop("mine-too")
    again = tc.train(project, method="mine-too", settings=small, resume=True, progress=False)
    assert again.folder == run.folder
    METHODS.pop("mine-too")
    assert type(tc.Predictor.load(run.folder).method) is Supervised
    assert "The same." in tc.report(run.folder).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "code", "problem"),
    [
        ("my_methods:ROW", "raise RuntimeError('no luck\\nat all')", "RuntimeError: no luck;"),
        ("my_methods:ROWE", ROW, "has no attribute 'ROWE'"),
        ("not_there:ROW", ROW, "No module named 'not_there'"),
        ("my_methods:ROW", "ROW = 3", "it is an int and not a MethodRow"),
        (
            "my_methods:ROW",
            ROW.replace("=()", "='network'"),
            "trained_by_unlabelled is 'network'; write a tuple of names",
        ),
    ],
)
def test_a_broken_entry_point_is_one_line_that_names_the_package(
    site: Path, value: str, code: str, problem: str
) -> None:
    install(site, "my-methods", {"mine-too": value}, code)
    with pytest.raises(UserError) as caught:
        method_row("mine-too")
    assert str(caught.value).startswith(
        "method 'mine-too' of package my-methods 1.2 cannot be used"
    )
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
    listed = tc.list_methods()
    assert listed.problems == (str(caught.value),)
    assert [entry.name for entry in listed.entries] == list(METHODS)


def test_a_wrong_target_of_a_row_is_named(site: Path) -> None:
    install(site, "my-methods", {"mine-too": "my_methods:ROW"}, ROW.replace("Supervised", "Super"))
    with pytest.raises(
        UserError, match=r"row of method 'mine-too' is wrong: target .*:Super' canno"
    ):
        method_class("mine-too")


def test_a_name_of_the_package_stays_the_package_s_and_is_warned_of(site: Path) -> None:
    install(site, "my-methods", {"cps": "my_methods:ROW"})
    (problem,) = tc.list_methods().problems
    assert problem.startswith("package my-methods 1.2 brings a method 'cps', which is not used")
    assert method_row("cps").idea != "The same."
    assert not (site / "imported").exists()


def test_two_packages_with_one_name_are_refused(site: Path) -> None:
    install(site, "my-methods", {"mine-too": "my_methods:ROW"})
    install(site, "other-methods", {"mine-too": "other_methods:ROW"})
    with pytest.raises(UserError, match=r"several packages: my-methods 1\.2, other-methods 1\.2"):
        method_row("mine-too")


def test_a_bad_name_is_refused_and_a_near_one_is_told(site: Path) -> None:
    install(site, "my-methods", {"mine-too": "my_methods:ROW", "My_Method": "my_methods:ROW"})
    with pytest.raises(UserError, match="'My_Method' is no name of a method"):
        find_row("My_Method")
    with pytest.raises(UserError, match=r"did you mean 'mine-too'\?"):
        method_row("mine-tooo")
    assert find_row("nobody") is None
    assert METHODS.keys() == SHIPPED
