"""A tracker that an installed package brings, as docs/how-to/tracking.md writes it."""

import csv
import json
import re
import sys
from pathlib import Path

import pytest
from tracking.test_tracker import killed_after, trained

from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.runs.log import metrics, read_log
from tracoco.tracking.tracker import (
    TRACKERS,
    TrackedRun,
    check_installed,
    known_trackers,
    open_trackers,
)

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "tracking.md"


def install(root: Path, points: str, code: str) -> None:
    """What pip leaves behind: a module, and the metadata with its entry points."""
    (root / "my_package").mkdir(parents=True)
    (root / "my_package" / "my_module.py").write_text(code, encoding="utf-8")
    metadata = root / "my_package-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(f"[tracoco.trackers]\n{points}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that packages are installed into."""
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in ("my_package", "my_package.my_module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path / "site"


def install_from_page(site: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (points,) = re.findall(r"```toml\n\[project.entry-points.*\]\n(.*?)```", page, re.DOTALL)
    install(site, points.replace('"', ""), code)


def test_the_tracker_of_the_page_keeps_all_figures_also_after_a_kill(
    site: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_from_page(site)
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        killed_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            trained(project, out, track="figure-table")
    ids = json.loads((out / "tracking.json").read_text(encoding="utf-8"))
    assert ids == {"figure-table": "run"}
    trained(project, out, resume=True)
    with (out / "figures.csv").open(newline="", encoding="utf-8") as file:
        kept = [(int(step), name, float(value)) for step, name, value in csv.reader(file)]
    log = read_log(out / "log.jsonl")
    assert kept == [(each.step, *figure) for each in log for figure in metrics(each).items()]


@pytest.mark.parametrize("value", ["my_package.my_module:Other", "my_package.other:A", "no target"])
def test_one_that_cannot_be_opened_is_told_of_and_the_training_goes_on(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    install(site, f"mine = {value}", "")
    check_installed(["mine"])
    open_trackers(TrackedRun(tmp_path, "heart", 0), ["mine"])
    assert "warning: mine keeps nothing more of this run" in capsys.readouterr().err


def test_the_names_of_this_package_stay_its_own_and_others_are_offered(site: Path) -> None:
    install(site, "mlflow = my_package.my_module:A\nmine = my_package.my_module:A", "")
    assert known_trackers()["mlflow"] is TRACKERS["mlflow"]
    with pytest.raises(UserError, match="tracker 'min' does not exist; did you mean 'mine'"):
        check_installed(["min"])
