"""The page in headless Chromium: what mouse and keys do, and that no request leaves the machine."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser import CHROMIUM, Browser, browser
from matplotlib.image import imread

import tracoco as tc

if TYPE_CHECKING:
    from viewer.conftest import Folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]
SHAPE = (40, 36, 20)
READY = "document.getElementById('status').hidden"


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as found:
        yield found


def fill(folder: "Folder") -> None:
    """Two cases: a bright box right of the middle in the first one, left of it in the second."""
    for case, start in (("first", 24), ("second", 6)):
        box = np.zeros(SHAPE, np.uint8)
        box[start : start + 10, 10:20, 5:12] = 1
        image = box * 100.0 + np.arange(SHAPE[2], dtype=np.float32) * 2 + 10
        unsure = np.zeros(SHAPE, np.float32)
        unsure[start : start + 10, 10:20, 5:12] = 0.9
        moved = np.roll(box, 4 if case == "first" else 2, axis=1)
        folder.add(case, image.astype(np.float32), moved, box, disagreement=unsure)
    folder.evaluate()


@pytest.fixture
def opened(page: Browser, folder: "Folder") -> Browser:
    """The page of one file, in its usual size."""
    fill(folder)
    out = folder.root / "view.html"
    tc.view(folder.predictions, out=out, progress=False)
    page.requests.clear()
    page.complaints.clear()
    page.open(out.as_uri())
    page.wait(READY)
    return page


def settled(page: Browser) -> None:
    """Wait until two frames are drawn."""
    page.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def pixels(page: Browser, pane: str) -> int:
    """A number that changes with the picture of a view."""
    settled(page)
    total: int = page.run(
        f"(() => {{ const c = document.querySelector('[data-pane={pane}] canvas');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "let sum = 0; for (let i = 0; i < d.length; i++) sum = (sum * 31 + d[i]) % 1000000007;"
        "return sum; })()"
    )
    return total


def coloured(page: Browser, pane: str, colour: tuple[int, int, int]) -> int:
    """How many pixels of a view are about this colour."""
    settled(page)
    r, g, b = colour
    count: int = page.run(
        f"(() => {{ const c = document.querySelector('[data-pane={pane}] canvas');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        f"let n = 0; for (let i = 0; i < d.length; i += 4) if (Math.abs(d[i] - {r}) < 30 && "
        f"Math.abs(d[i + 1] - {g}) < 30 && Math.abs(d[i + 2] - {b}) < 30) n++; return n; }})()"
    )
    return count


def slice_of(page: Browser, pane: str) -> int:
    return int(page.run(f"document.querySelector('[data-pane={pane}] canvas').ariaValueNow"))


def shown(page: Browser) -> str:
    return str(page.run("document.getElementById('name').textContent"))


def value(page: Browser, name: str) -> str:
    settled(page)
    return str(
        page.run(
            "[...document.querySelectorAll('#values dt')]"
            f".find(dt => dt.textContent === '{name}').nextSibling.textContent"
        )
    )


def test_the_wheel_and_the_arrows_change_the_slice(opened: Browser) -> None:
    before, picture = slice_of(opened, "axial"), pixels(opened, "axial")
    x, y = opened.centre("[data-pane=axial] canvas")
    opened.mouse("wheel", x, y, deltaX=0, deltaY=-100)
    assert slice_of(opened, "axial") == before + 1
    opened.key("ArrowDown")
    assert slice_of(opened, "axial") == before
    assert pixels(opened, "axial") == picture
    opened.key("ArrowUp", shift=True)
    assert slice_of(opened, "axial") == min(before + 10, SHAPE[2])
    assert pixels(opened, "axial") != picture
    opened.key("3")
    opened.key("ArrowUp")
    assert slice_of(opened, "coronal") == 12  # the box begins at 10; counted from 1


def test_a_click_shows_the_voxel_that_lies_there(opened: Browser) -> None:
    """The right of the patient is on the left of the picture, the front at its top."""
    box = opened.run(
        "(() => { const r = document.querySelector('[data-pane=axial] canvas')"
        ".getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()"
    )
    x, y = box[0] + (box[2] - 12) / 2, box[1] + box[3] / 2
    places = {}
    for name, dx, dy in (("left", -60, 0), ("right", 60, 0), ("top", 0, -60), ("bottom", 0, 60)):
        for kind in ("pressed", "released"):
            opened.mouse(kind, x + dx, y + dy, button="left", clickCount=1)
        places[name] = [int(part) for part in value(opened, "Voxel").split(", ")]
    assert places["left"][0] > SHAPE[0] / 2 > places["right"][0]
    assert places["top"][1] > SHAPE[1] / 2 > places["bottom"][1]
    # Voxels of 1 x 1 x 2 mm: as far on the screen, half as many slices up as columns across.
    x, y = opened.centre("[data-pane=coronal] canvas")
    found = []
    for dx, dy in ((-40, -40), (40, 40)):
        for kind in ("pressed", "released"):
            opened.mouse(kind, x + dx, y + dy, button="left", clickCount=1)
        found.append([int(part) for part in value(opened, "Voxel").split(", ")])
    across, up = found[0][0] - found[1][0], found[0][2] - found[1][2]
    assert across > 0
    assert abs(across - 2 * up) <= 2


def test_the_values_are_those_of_the_files(opened: Browser) -> None:
    opened.key("c")
    place = [int(part) - 1 for part in value(opened, "Voxel").split(", ")]
    assert shown(opened) == "first"  # the worse one
    assert float(value(opened, "Intensity")) == 100 + place[2] * 2 + 10
    assert value(opened, "Truth") == "organ"
    assert float(value(opened, "Disagreement")) == pytest.approx(0.9, abs=0.01)


def test_dragging_with_shift_changes_the_window(opened: Browser) -> None:
    picture = pixels(opened, "axial")
    width = float(opened.run("document.getElementById('width').value"))
    x, y = opened.centre("[data-pane=axial] canvas")
    opened.mouse("pressed", x, y, button="left", clickCount=1, modifiers=8)
    opened.mouse("moved", x + 80, y, button="left", modifiers=8)
    opened.mouse("released", x + 80, y, button="left", clickCount=1, modifiers=8)
    assert float(opened.run("document.getElementById('width').value")) > width
    assert pixels(opened, "axial") != picture
    opened.key("w")
    assert pixels(opened, "axial") == picture


@pytest.mark.parametrize(
    ("key", "colour"), [("t", (86, 180, 233)), ("p", (255, 166, 0)), ("e", (255, 84, 104))]
)
def test_overlays_are_switched_by_key_and_by_box(
    opened: Browser, key: str, colour: tuple[int, int, int]
) -> None:
    name = {"t": "truth", "p": "prediction", "e": "errors"}[key]
    opened.run("state_is = (id) => document.getElementById(id).checked")
    if name == "errors":
        opened.run("document.querySelector('#layer-errors ~ input').value = 1")
        opened.run(
            "document.querySelector('#layer-errors ~ input').dispatchEvent(new Event('input'))"
        )
    was = opened.run(f"state_is('layer-{name}')")
    seen = {was: coloured(opened, "sagittal", colour)}
    opened.key(key)
    assert opened.run(f"state_is('layer-{name}')") is not was
    seen[not was] = coloured(opened, "sagittal", colour)
    assert seen[True] > seen[False] + 30
    opened.click(f"#layer-{name}")
    assert opened.run(f"state_is('layer-{name}')") is was


def test_keys_and_the_list_change_the_case(opened: Browser) -> None:
    picture = pixels(opened, "axial")
    opened.key("j")
    opened.wait(f"{READY} && document.getElementById('name').textContent === 'second'")
    assert pixels(opened, "axial") != picture
    assert opened.run("document.querySelector('#cases [aria-current]').textContent") == "second"
    opened.click("#cases tbody tr:first-child button")
    opened.wait(f"{READY} && document.getElementById('name').textContent === 'first'")
    assert pixels(opened, "axial") == picture
    opened.click("#cases thead th:nth-child(2) button")
    first = "document.querySelector('#cases tbody tr:first-child button').textContent"
    assert opened.run(first) == "first"
    opened.click("#cases thead th:nth-child(2) button")
    assert opened.run(first) == "second"
    assert opened.run("document.querySelector('#cases thead th:nth-child(2)').ariaSort")
    opened.run("document.getElementById('find').value = 'sec'")
    opened.run("document.getElementById('find').dispatchEvent(new Event('input'))")
    assert opened.run("document.querySelectorAll('#cases tbody tr').length") == 1


def test_help_and_enlarging_work_by_keyboard(opened: Browser) -> None:
    opened.key("?")
    assert opened.run("document.getElementById('help').open") is True
    opened.key("j")  # keys of the page rest while the help is open
    assert shown(opened) == "first"
    opened.key("Escape")
    assert opened.run("document.getElementById('help').open") is False
    width = opened.run("document.querySelector('[data-pane=coronal]').clientWidth")
    opened.key("3")
    opened.key("f")
    assert opened.run("document.querySelector('[data-pane=coronal]').clientWidth") > 1.5 * width
    opened.key("f")
    assert opened.run("document.querySelector('[data-pane=coronal]').clientWidth") == width


def test_3d_shows_the_structures_and_turns(opened: Browser) -> None:
    read = (
        "(() => { const c = document.querySelector('[data-pane=space] canvas');"
        "const t = new OffscreenCanvas(c.width, c.height).getContext('2d'); t.drawImage(c, 0, 0);"
        "const d = t.getImageData(0, 0, c.width, c.height).data; let n = 0, h = 0;"
        "for (let i = 0; i < d.length; i += 4) { if (d[i] > 60) n++;"
        "h = (h * 31 + d[i]) % 1000003 }"
        "return [n, h]; })()"
    )
    settled(opened)
    bright, before = opened.run(read)
    assert bright > 500
    opened.key("4")
    for _ in range(4):
        opened.key("ArrowRight")
    settled(opened)
    assert opened.run(read)[1] != before


def test_no_request_leaves_the_page(opened: Browser) -> None:
    opened.key("j")
    opened.wait(READY)
    assert [each for each in opened.requests if not each.startswith(("file:", "data:"))] == []
    assert len([each for each in opened.requests if each.startswith("file:")]) == 1
    assert opened.complaints == []
    # The policy refuses what an injected script might try.
    tried = "fetch('https://example.org').then(() => 'sent', () => 'refused')"
    assert opened.run(tried) == "refused"


def test_the_server_shows_the_same_and_asks_nobody_else(page: Browser, folder: "Folder") -> None:
    fill(folder)
    shown_view = tc.view(folder.predictions, port=0)
    assert shown_view.server is not None
    try:
        page.requests.clear()
        page.complaints.clear()
        page.open(shown_view.server.address)
        page.wait(READY)
        page.key("j")
        page.wait(f"{READY} && document.getElementById('name').textContent === 'second'")
        assert coloured(page, "sagittal", (255, 166, 0)) > 50
        ours = f"http://127.0.0.1:{shown_view.server.port}/{shown_view.server.token}/"
        asked = [each for each in page.requests if not each.startswith("data:")]
        assert asked
        assert all(each.startswith(ours) for each in asked)
        assert page.complaints == []
    finally:
        shown_view.server.stop()


def test_another_page_cannot_read_the_server(page: Browser, folder: "Folder") -> None:
    fill(folder)
    server = tc.view(folder.predictions).serve()
    try:
        other = folder.root / "other.html"
        other.write_text("<title>another page</title>")
        page.open(other.as_uri())
        read = f"fetch('{server.address}case/0').then(r => r.text(), () => 'refused')"
        assert page.run(read) == "refused"
    finally:
        server.stop()


def test_it_works_inside_of_a_notebook_and_on_a_narrow_screen(
    page: Browser, folder: "Folder"
) -> None:
    fill(folder)
    notebook = folder.root / "notebook.html"
    frame = tc.view(folder.predictions, progress=False)._repr_html_()
    notebook.write_text(f"<!doctype html><body>{frame}", encoding="utf-8")
    page.requests.clear()
    page.complaints.clear()
    page.open(notebook.as_uri(), width=1280)
    page.run("new Promise(done => setTimeout(done, 4000))")
    shot = folder.root / "frame.png"
    page.screenshot(shot)
    colours = _colours(shot)
    assert (86, 180, 233) in colours  # outlines are drawn in the frame
    assert page.complaints == []
    page.open((_written(folder)).as_uri(), width=390, height=800)
    page.wait(READY)
    assert page.run("document.documentElement.scrollWidth") <= 390
    assert page.run("window.scrollY") == 0


def _written(folder: "Folder") -> Path:
    out = folder.root / "view.html"
    tc.view(folder.predictions, out=out, progress=False)
    return out


def _colours(picture: Path) -> set[tuple[Any, ...]]:
    found = (imread(picture)[..., :3] * 255).round().astype(int).reshape(-1, 3)
    return set(map(tuple, found.tolist()))


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(
    page: Browser, folder: "Folder", tmp_path: Path, *, dark: bool
) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm, which fetches axe-core into a temporary folder")
    subprocess.run(
        [npm, "install", "--prefix", str(tmp_path), "axe-core"], check=True, capture_output=True
    )
    axe = (tmp_path / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")
    fill(folder)
    page.open(_written(folder).as_uri(), dark=dark)
    page.wait(READY)
    page.key("e")
    page.call("Runtime.evaluate", expression=axe)
    for step in ("", "document.getElementById('help').showModal();"):
        found = page.run(
            f"(async () => {{ {step} const r = await axe.run(); return r.violations.map("
            "v => [v.impact, v.id, v.nodes.map(n => n.html.slice(0, 120)).join(' | ')]); })()"
        )
        assert [each for each in found if each[0] in {"serious", "critical"}] == []
