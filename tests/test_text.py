"""Text as a reader sees it."""

import math

import pytest

from tracoco.text import count, duration, html_table, listed, number, short, signed, spread

LEFT = "style='text-align:left'"


def test_an_html_table_has_a_header_and_a_row_for_each_row() -> None:
    table = html_table(("case", "Dice"), [("a", 91.5), ("b", None)])
    assert table == (
        f"<table><thead><tr><th {LEFT}>case</th><th {LEFT}>Dice</th></tr></thead><tbody>"
        f"<tr><td {LEFT}>a</td><td {LEFT}>91.5</td></tr>"
        f"<tr><td {LEFT}>b</td><td {LEFT}></td></tr></tbody></table>"
    )


def test_an_html_table_escapes_what_users_wrote() -> None:
    table = html_table(("<b>",), [("<script>alert('x') & \"y\"</script>",)])
    assert f"<th {LEFT}>&lt;b&gt;</th>" in table
    assert "&lt;script&gt;alert(&#x27;x&#x27;) &amp; &quot;y&quot;&lt;/script&gt;" in table


def test_an_html_table_without_columns_has_no_header() -> None:
    assert html_table((), [("folder", "x")]).startswith("<table><tbody><tr><td")


def test_what_is_undefined_is_a_dash() -> None:
    assert [number(value) for value in (91.26, None, math.nan, math.inf)] == ["91.3", "–", "–", "–"]  # noqa: RUF001 - the dash is the subject


def test_a_sign_is_shown_for_what_is_too_large() -> None:
    assert [signed(value) for value in (5.0, -5.0, 0.0, None)] == ["+5.0", "-5.0", "0.0", "–"]  # noqa: RUF001 - the dash is the subject


def test_a_mean_without_spread_stands_alone() -> None:
    assert (spread(90.0, 2.5), spread(90.0, None)) == ("90.0 ± 2.5", "90.0")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (45, "45 s"),
        (60, "1 min"),
        (12 * 60, "12 min"),
        (3599, "1 h 0 min"),
        (3 * 3600 + 1200, "3 h 20 min"),
        (53 * 3600, "2 d 5 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts_and_lists() -> None:
    assert [count(1, "case"), count(1200, "case")] == ["1 case", "1,200 cases"]
    assert listed(["a", "b", "c"], most=2) == "a, b and 1 more"
    assert short(0.000012345) == "1.23e-05"
