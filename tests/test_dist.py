"""What `make dist` demands of the wheel and the sdist, and what packaging files say."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from scripts.check_dist import BESIDE, content_problems, names_in, package_files

import tracoco as tc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGE = package_files()
WHEEL = {f"tracoco/{name}" for name in PACKAGE} | {"tracoco-1.dist-info/METADATA"}
SDIST = {f"src/tracoco/{name}" for name in PACKAGE} | {*BESIDE}


def test_whole_archives_pass() -> None:
    assert content_problems(WHEEL, SDIST, PACKAGE) == []


@pytest.mark.parametrize(
    "name", ["presets/la-8.yaml", "methods/about/bcp.yaml", "reporting/templates/cases.jinja"]
)
def test_a_file_that_is_missing_is_named(name: str) -> None:
    assert content_problems(WHEEL - {f"tracoco/{name}"}, SDIST, PACKAGE) == [
        f"the wheel lacks {name}"
    ]
    assert content_problems(WHEEL, SDIST - {f"src/tracoco/{name}"}, PACKAGE) == [
        f"the sdist lacks {name}"
    ]
    assert f"the sdist lacks {BESIDE[0]}" in content_problems(WHEEL, SDIST - {BESIDE[0]}, PACKAGE)


def test_tests_in_the_wheel_and_an_empty_package_are_named() -> None:
    assert content_problems(WHEEL | {"tests/samples.py"}, SDIST, PACKAGE) == [
        "the wheel has tests/samples.py"
    ]
    assert "the repository lacks py.typed" in content_problems(WHEEL, SDIST, {"__init__.py"})


@pytest.mark.slow
def test_the_built_files_are_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    assert content_problems(names_in(wheel), names_in(sdist), PACKAGE) == []


def test_the_conda_recipe_needs_what_the_package_needs() -> None:
    text = (ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8")
    needed = yaml.safe_load(re.sub(r"\{[{%].*?[%}]\}", "", text))["requirements"]["run"]
    renamed = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    expected = {f"python {PROJECT['requires-python']}"}
    for requirement in PROJECT["dependencies"]:
        name, version = re.fullmatch(r"([\w-]+)(.*)", requirement).groups()  # type: ignore[union-attr]  # all have this form
        expected.add(f"{renamed.get(name, name)} {version}")
    assert set(needed) == expected


def test_the_citation_has_the_version_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == tc.__version__
    title = "Translation Consistent Semi-supervised Segmentation for 3D Medical Images"
    assert citation["preferred-citation"]["title"] == title
    assert title in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").iterdir()))
def test_workflows_call_targets_that_exist_and_test_what_is_supported(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"- run: make ([\w-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    assert "secrets" not in text
    for job in yaml.safe_load(text)["jobs"].values():
        for version in job.get("strategy", {}).get("matrix", {}).get("python", ()):
            assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
