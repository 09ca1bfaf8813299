"""Build the documentation site into site/ without warnings and broken links: `make docs`.

python scripts/site/build.py

The pages of docs/ are copied beside the reference pages, which are made from the code, and the
pages of the project (changelog, contributing). A page belongs to the section of its folder. Links
to files outside docs/ lead to a page with that file. The built site is then checked: every link
and anchor leads somewhere, and nothing is loaded from elsewhere.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from scripts.site.links import site_problems
from scripts.site.reference import pages as reference_pages

ROOT = Path(__file__).parents[2]
STAGE, SITE = ROOT / ".site", ROOT / "site"
CONFIG = Path(__file__).with_name("zensical.toml")
PROJECT_PAGES = {
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
}
"""Pages at the top of the repository, and where the site has them."""
SECTIONS = {
    "Getting started": "",
    "Tutorials": "tutorials",
    "How-to": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
    "Project": "project",
}
"""The sections in their order, each with its folder; pages without one stand before all others."""
FIRST = (
    *("index", "getting-started"),
    *("quick-start", "own-scans", "few-labels", "labelling-loop", "labelling-rounds"),
    *("comparing-methods", "own-loop", "new-method", "paper"),
    *("cli", "python", "settings", "methods", "file-formats"),
    *("glossary", "architecture", "recipe", "results", "performance"),
)
"""Pages that come first in their section, in this order; the others follow by name."""
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml"}


def sources() -> dict[str, str]:
    """Every page: its path in the repository, and its path on the site."""
    docs = ROOT / "docs"
    found = {
        path.relative_to(ROOT).as_posix(): path.relative_to(docs).as_posix()
        for path in sorted(docs.rglob("*.md"))
    }
    top = {name: place for name, place in PROJECT_PAGES.items() if (ROOT / name).is_file()}
    return found | top | {f"docs/reference/{name}": f"reference/{name}" for name in REFERENCE}


REFERENCE = ("cli.md", "python.md", "settings.md", "file-formats.md")
"""Pages that are made from the code at every build."""


def stage() -> None:
    """Put all pages and pictures into the folder that the site is built from."""
    shutil.rmtree(STAGE, ignore_errors=True)
    pages = STAGE / "pages"
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("*.md", "*.py"))
    found = sources()
    made = reference_pages()
    for source, place in found.items():
        name = place.rpartition("/")[2]
        text = made[name] if name in made else (ROOT / source).read_text(encoding="utf-8")
        write(pages / place, with_site_links(text, source, place, found))
    config = CONFIG.read_text(encoding="utf-8")
    nav = navigation({place: title(pages / place) for place in found.values()})
    write(STAGE / "zensical.toml", config.replace("nav = []", f"nav = {nav}"))


def write(path: Path, text: str) -> None:
    """Write a page, in a folder that may be new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def with_site_links(text: str, source: str, place: str, found: dict[str, str]) -> str:
    """A page with its links as they are on the site; a file of code gets a page of its own."""

    def moved(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = normal(PurePosixPath(source).parent / target)
        asset = path.removeprefix("docs/") if is_asset(path) else ""
        there = found.get(path) or asset or code_page(path)
        return f"{before}{relative(there, place)}{anchor or ''}{after}"

    return LINK.sub(moved, text)


def normal(path: PurePosixPath) -> str:
    """A path without `..`."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def relative(target: str, page: str) -> str:
    """The way from one page of the site to another."""
    here = PurePosixPath(page).parent
    return "../" * len(here.parts) + target


def is_asset(path: str) -> bool:
    """Whether a file of docs/ is copied as it is."""
    return path.startswith("docs/") and not path.endswith((".md", ".py"))


def code_page(path: str) -> str:
    """Make a page that shows a file of the repository; where it is on the site."""
    if not (ROOT / path).is_file():
        sys.exit(f"a page links to {path}, which does not exist")
    place = f"source/{path}.md"
    language = LANGUAGES.get(Path(path).suffix, "text")
    text = (ROOT / path).read_text(encoding="utf-8").rstrip()
    write(STAGE / "pages" / place, f"# {path}\n\n````{language}\n{text}\n````\n")
    return place


def title(page: Path) -> str:
    """The heading of a page."""
    match = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    if not match:
        sys.exit(f"{page.relative_to(STAGE / 'pages')} has no heading")
    return match[1]


def navigation(titles: dict[str, str]) -> str:
    """The sections with their pages. A page beside the sections counts as how-to."""
    sections: dict[str, list[str]] = {name: [] for name in SECTIONS}
    for place in sorted(titles, key=rank):
        sections[section_of(place)].append(place)
    rows: list[object] = []
    for name, places in sections.items():
        entries = [{titles[place]: place} for place in places]
        if SECTIONS[name]:
            rows += [{name: entries}] if entries else []
        else:
            rows += entries
    return "[\n" + "".join(f"  {inline(row)},\n" for row in rows) + "]"


def section_of(place: str) -> str:
    """The section of a page, by its folder."""
    folder, _, name = place.rpartition("/")
    if not folder and name in ("index.md", "getting-started.md"):
        return "Getting started"
    return {folder_: name_ for name_, folder_ in SECTIONS.items() if folder_}.get(folder, "How-to")


def rank(place: str) -> tuple[int, str]:
    """Where a page stands in its section."""
    name = PurePosixPath(place).stem
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def inline(value: object) -> str:
    """A value of nested lists and tables as TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(k)} = {inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value)


def build() -> None:
    """Build the site; a warning of the builder is an error."""
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=STAGE, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode or re.search(r"warning", said, re.IGNORECASE):
        sys.exit(f"the site was not built:\n{said}")
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.move(STAGE / "site", SITE)


def main() -> Iterator[str]:
    """Stage, build and check; what is wrong with the site."""
    stage()
    build()
    yield from site_problems(SITE)


if __name__ == "__main__":
    problems = list(main())
    if problems:
        sys.exit("\n".join(problems))
    print(f"{SITE.relative_to(ROOT)}: {len(list(SITE.rglob('*.html')))} pages, no broken links")
