"""The page as its reader gets it."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tracoco.evaluation.scores import Protocol
from tracoco.project.splits import Splits
from tracoco.reporting.page import write_report
from tracoco.reporting.pictures import case_pictures
from tracoco.reporting.run_record import RunRecord

if TYPE_CHECKING:
    from reporting.conftest import Bench

VOID = {"meta", "img", "line", "rect", "circle", "path", "link", "br"}


class Checker(HTMLParser):
    """Sees that every element is closed, and what a browser would load or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in {"src", "href", "srcset"}]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - of the base class
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def page(bench: "Bench") -> str:
    """The page of an evaluated run."""
    log = [bench.record(step) for step in range(30)]
    log[-1]["validation"] = {"dice": 0.8}
    run = bench.run("heart", log=log)
    bench.scores(run)
    path = write_report(run)
    assert path == run / "report.html"
    return path.read_text(encoding="utf-8")


PIECES = [
    "<h1>heart</h1>",
    "Dice, %",
    "<span>supervised</span>",
    "<span>crc</span>",
    "validation Dice",
    "learning rate",
    "mean shift",
    "Health of the pseudo-labels",
    "passing the gates",
    "HD95, mm",
    '<span class="flag">missed</span>',
    "Worst",
    "Median",
    "Best",
    "data:image/png;base64,",
    "weight_decay",
    "unlabelled: 3 cases",
    "u1, u2, u3",
    "Versions and hashes",
    "tracoco predict ",
]


def test_the_page_has_every_part(page: str) -> None:
    assert [piece for piece in PIECES if piece not in page] == []


def test_the_page_is_whole_and_needs_nothing_else(page: str) -> None:
    checker = Checker(page)
    assert checker.open == []
    assert checker.tags.isdisjoint({"script", "link"})
    assert all(address.startswith(("#", "data:image/png")) for address in checker.loaded)
    assert "://" not in page
    assert "url(" not in page


def test_a_few_cases_can_be_looked_at_in_a_frame(page: str) -> None:
    (frame,) = re.findall(r'<iframe [^>]*srcdoc="([^"]*)"', page)
    inside = unescape(frame)
    (data,) = re.findall(r'id="data">(.*?)</script>', inside)
    assert {row["case"] for row in json.loads(data)["cases"]} == {"found", "shifted", "unseen"}
    assert "connect-src &#39;none&#39;" in inside
    assert 'sandbox="allow-scripts"' in page


def test_the_page_has_dark_colours_too(page: str) -> None:
    assert "prefers-color-scheme: dark" in page


def test_a_sound_finished_run_has_no_banner(page: str) -> None:
    assert 'class="banner' not in page


def test_what_users_name_is_escaped(bench: "Bench") -> None:
    evil = "<script>alert(1)</script>"
    run = bench.run(
        class_names=("background", evil),
        log=[bench.record(0, terms={evil: 1.0})],
    )
    bench.scores(run, {"a<b>&c": bench.cases()["shifted"]}, organ=evil)
    page = write_report(run).read_text(encoding="utf-8")
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4
    assert "a&lt;b&gt;&amp;c" in page
    assert Checker(page).open == []


def test_a_collapse_and_an_unfinished_run_are_shown_on_top(bench: "Bench") -> None:
    log = [
        bench.record(step, **({"collapsed": ["organ"]} if step > 9 else {})) for step in range(20)
    ]
    page = write_report(bench.run(log=log)).read_text(encoding="utf-8")
    top = page[: page.index('id="curves"')]
    assert "from step 10 to 19" in top
    assert "step 20 of 30" in top
    assert 'class="shade"' in page


def test_without_scores_the_page_says_how_to_get_them(bench: "Bench") -> None:
    run = bench.run()
    page = write_report(run).read_text(encoding="utf-8")
    assert f"tracoco predict {run} SCANS {run}/predictions/test" in page
    assert f"tracoco evaluate {run}/predictions/test TRUTH" in page
    assert "<table>" not in page
    assert "<iframe" not in page


def test_without_validation_cases_and_health_the_page_says_so(bench: "Bench") -> None:
    run = bench.run(
        splits=Splits(("l",), (), (), ()),
        log=[bench.record(0, health={})],
        method={"name": "supervised"},
    )
    page = write_report(run).read_text(encoding="utf-8")
    assert "There are no validation cases" in page
    assert "Health of the pseudo-labels" not in page


def test_a_run_without_a_step_has_a_page(bench: "Bench") -> None:
    page = write_report(bench.run(log=[])).read_text(encoding="utf-8")
    assert "No step is logged yet" in page
    assert Checker(page).open == []


def test_a_long_log_does_not_make_a_large_page(bench: "Bench") -> None:
    run = bench.run(log=[bench.record(step) for step in range(5000)])
    page = write_report(run).read_text(encoding="utf-8")
    paths = re.findall(r' d="M([^"]*)"', page)
    assert max(path.count(",") for path in paths) <= 500
    assert len(page) < 200_000


def test_pictures_are_of_the_worst_the_median_and_the_best(bench: "Bench") -> None:
    run = bench.run()
    bench.scores(run)
    pictures = case_pictures(RunRecord.read(run).scores[0])
    assert [(picture.rank, picture.case, picture.missed) for picture in pictures] == [
        ("worst", "unseen", True),
        ("median", "shifted", False),
        ("best", "found", False),
    ]
    assert all(picture.source for picture in pictures)


def test_a_scan_that_is_gone_gives_a_note(bench: "Bench") -> None:
    run = bench.run()
    bench.scores(run)
    (bench.root / "data-run-test" / "images" / "unseen.nii.gz").unlink()
    page = write_report(run).read_text(encoding="utf-8")
    assert re.search(r"No picture: \S+unseen\.nii\.gz does not exist", page)
    assert page.count("<img") == 2


def test_scores_that_lie_elsewhere_are_taken_in(bench: "Bench", tmp_path: Path) -> None:
    other = bench.run("other")
    scores = bench.scores(other, name="elsewhere") / "scores.json"
    page = write_report(bench.run(), [scores]).read_text(encoding="utf-8")
    assert "elsewhere: 3 cases" in page
    assert f"<code>{tmp_path / 'other'}</code>" in page


def test_the_cases_of_a_long_table_are_folded_away(
    bench: "Bench", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracoco.reporting.page.SHOWN_CASES", 1)
    run = bench.run()
    bench.scores(run)
    page = write_report(run).read_text(encoding="utf-8")
    assert "<summary>2 more cases</summary>" in page
    assert page.count('<th rowspan="1">') == 3


def test_conventions_time_and_hidden_labels_are_on_the_page(bench: "Bench") -> None:
    run = bench.run(hidden_labels=4)
    rows = [{"case": "found", "images": ["a"], "prediction": "b", "seconds": 1.25}]
    bench.scores(run, protocol=Protocol(cct=True), rows=rows, watermark="<no> estimate")
    page = write_report(run).read_text(encoding="utf-8")
    assert "Small components were removed before scoring (--cct)." in page
    assert "1.25 s a case" in page
    assert "4 labels hidden: " in page
    assert page.count('<p class="flag">&lt;no&gt; estimate</p>') == 2
    assert Checker(page).open == []


def test_where_test_cases_choose_no_validation_cases_are_missed(bench: "Bench") -> None:
    run = bench.run(
        splits=Splits(("l",), (), (), ("t",)), training={"steps": 30, "select_on": "test"}
    )
    page = write_report(run).read_text(encoding="utf-8")
    assert "There are no validation cases" not in page
