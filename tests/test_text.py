"""Text as a reader sees it."""

from tracoco.text import html_table

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
