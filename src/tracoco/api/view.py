"""Scans, labels and predictions in a browser: what `tracoco view` calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from tracoco.console import counted, progress_console
from tracoco.errors import UserError
from tracoco.files import write_text
from tracoco.project.folder import Project
from tracoco.viewer.cases import ViewSet, find_cases_to_view
from tracoco.viewer.page import frame, one_file
from tracoco.viewer.server import ViewServer

HEIGHT = 720
"""Pixels of the frame in a notebook."""


class HasFolder(Protocol):
    """A run."""

    @property
    def folder(self) -> Path:
        """The run's folder."""


@dataclass(slots=True)
class View:
    """Cases to look at. A notebook shows the page itself."""

    content: ViewSet
    limit_mb: float
    progress: bool = True
    file: Path | None = None
    """The page, if it was written."""
    server: ViewServer | None = None
    """The local server, if one was started."""

    def page(self) -> str:
        """The page with all that it shows, as text."""
        console = progress_console() if self.progress else None
        with counted("packing", len(self.content.cases), console) as on_case:
            return one_file(self.content, self.limit_mb, on_case)

    def serve(self, port: int = 0) -> ViewServer:
        """Start the local server; with port 0 the system chooses a free one."""
        self.server = ViewServer(self.content, port)
        return self.server

    def _repr_html_(self) -> str:
        """The page in a frame, apart from the notebook around it."""
        return frame(self.page(), f"Viewer of {self.content.title}", HEIGHT)


def view(  # noqa: PLR0913 - each is an option of the command, with the same default
    source: HasFolder | Project | Path | str,
    *,
    out: Path | str | None = None,
    part: Literal["labelled", "unlabelled", "validation", "test"] | None = None,
    case: Sequence[str] = (),
    limit_mb: float = 50.0,
    port: int | None = None,
    progress: bool = True,
) -> View:
    """Show scans with labels, predictions and maps: as a file, by a local server, or in a notebook.

    Args:
        source: a run, a project, or a folder of predictions.
        out: write one HTML file that holds all it shows.
        part: only the cases of this part of the split.
        case: only these cases.
        limit_mb: largest size of the volumes in a file or a notebook. Cases that would take more
            than their part are shown at lower resolution or left out, and the page says so.
        port: start a server on this port of 127.0.0.1; 0 for a free one.
        progress: show progress on standard error.
    """
    if not limit_mb > 0:
        raise UserError(f"--limit-mb {limit_mb:g} leaves room for nothing; give e.g. 50")
    if out is not None and port is not None:
        raise UserError("a file needs no port; leave out either --out or --port")
    content = find_cases_to_view(_path(source)).only(part, case)
    shown = View(content, limit_mb, progress)
    if out is not None:
        shown.file = Path(out)
        _check_writable(shown.file)
        write_text(shown.file, shown.page())
    if port is not None:
        shown.serve(port)
    return shown


def _check_writable(file: Path) -> None:
    """Refuse a name that is probably a mistake before minutes are spent on packing."""
    if file.is_dir() or file.suffix.lower() not in {".html", ".htm"}:
        raise UserError(f"--out {file} is no name of a page; end it with .html")


def _path(source: HasFolder | Project | Path | str) -> Path:
    if isinstance(source, Project):
        return source.root
    return Path(source) if isinstance(source, Path | str) else source.folder
