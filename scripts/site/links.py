"""Check a built site: links and anchors lead somewhere, and nothing is loaded from elsewhere."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch"}
"""Kinds of <link> that a browser follows by itself."""


class Page(HTMLParser):
    """The anchors, links and loaded files of one page."""

    def __init__(self, path: Path) -> None:
        """Read a page."""
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element refers to."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values:
            self.loaded.append(values[LOADED[tag]])
        if tag == "link" and LOADED_LINKS & set(values.get("rel", "").split()):
            self.loaded.append(values.get("href", ""))


def site_problems(root: Path) -> Iterator[str]:
    """One line for each link that leads nowhere, and each file that comes from elsewhere."""
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(root)
        for target in page.loaded:
            if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
                yield f"{name}: loads {target}"
            elif not _is_there(path, target, root):
                yield f"{name}: {target} is missing"
        for target in page.links:
            parts = urlsplit(target)
            if parts.scheme or target.startswith("//"):
                continue
            there = _place(path, parts.path, root)
            anchors = pages[there].anchors if there in pages else {unquote(parts.fragment)}
            if not there.exists():
                yield f"{name}: {target} is missing"
            elif parts.fragment and unquote(parts.fragment) not in anchors:
                yield f"{name}: {target} has no such anchor"


def _place(page: Path, target: str, root: Path) -> Path:
    """The file that a link leads to."""
    if not target:
        return page
    base = root if target.startswith("/") else page.parent
    there = (base / unquote(target).lstrip("/")).resolve()
    return there / "index.html" if there.is_dir() else there


def _is_there(page: Path, target: str, root: Path) -> bool:
    parts = urlsplit(target)
    return parts.scheme == "data" or _place(page, parts.path, root).exists()
