"""Execute the notebooks of examples/notebooks and write them as pages of docs/tutorials.

python -m scripts.site.notebooks [NAME ...]

The pages are committed with their outputs. A test compares their text and code with the notebooks,
and the slow suite executes them.
"""

import base64
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "examples" / "notebooks"
PAGES = ROOT / "docs" / "tutorials"
MOST_LINES = 12
IMAGE = re.compile(r"<img src='data:image/png;base64,([^']+)'")


def names() -> list[str]:
    """The notebooks, by their names."""
    return sorted(path.stem for path in NOTEBOOKS.glob("*.py"))


def read(name: str) -> Any:
    """A notebook without outputs."""
    return jupytext.read(NOTEBOOKS / f"{name}.py")


def execute(notebook: Any, folder: Path) -> Any:
    """The notebook with its outputs; it runs in a folder of its own."""
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    client = NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": str(folder)}})
    return client.execute()


def page_of(name: str) -> Path:
    """Where a notebook's page is."""
    return PAGES / f"{name.replace('_', '-')}.md"


def cell_text(cell: Any) -> str:
    """A cell as Markdown, without its outputs."""
    return cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```"


def note(name: str) -> str:
    """Where the notebook of a page is."""
    file = f"examples/notebooks/{name}.py"
    return (
        f"This page is the notebook [{file}](../../{file}) with its outputs. "
        f"`jupytext --to ipynb {file}` makes a file for Jupyter."
    )


def page(name: str, notebook: Any) -> str:
    """The page of an executed notebook; its pictures are written beside it."""
    first, *others = notebook.cells
    title, _, rest = first.source.partition("\n")
    parts = [title, note(name), rest.strip()]
    pictures = Pictures(name)
    for cell in others:
        parts.append(cell_text(cell))
        for output in cell.get("outputs", []):
            parts += shown(output, pictures)
    return "\n\n".join(parts) + "\n"


class Pictures:
    """The pictures of one page, as files."""

    def __init__(self, name: str) -> None:
        """Remove those of before."""
        self.stem = name.replace("_", "-")
        self.folder = PAGES / "images"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.count = 0
        for old in self.folder.glob(f"{self.stem}-*.png"):
            old.unlink()

    def add(self, encoded: str) -> str:
        """Write one; the path for the page."""
        self.count += 1
        file = f"{self.stem}-{self.count}.png"
        (self.folder / file).write_bytes(base64.b64decode(encoded))
        return f"images/{file}"


def shown(output: Any, pictures: Pictures) -> Iterator[str]:
    """An output as Markdown: pictures, tables and text; bars and lines of progress are left out."""
    if output.output_type == "stream":
        if output.name == "stdout":
            lines = output.text.rstrip().splitlines()
            yield "```text\n" + "\n".join(lines[-MOST_LINES:]) + "\n```"
        return
    data = output.get("data", {})
    html = data.get("text/html", "")
    if "image/png" in data:
        yield f"![Output of the cell above]({pictures.add(data['image/png'])})"
    elif html and "<progress" not in html and not html.startswith("<pre"):
        yield IMAGE.sub(lambda found: f"<img src='{pictures.add(found[1])}'", html)
    elif "text/plain" in data and not html and output.output_type == "execute_result":
        yield f"```text\n{data['text/plain']}\n```"


def main() -> None:
    """Execute and write all, or those that are named."""
    for name in sys.argv[1:] or names():
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(read(name), Path(folder))
            page_of(name).write_text(page(name, notebook).replace(folder, "/home/me"), "utf-8")
        print(page_of(name).relative_to(ROOT))


if __name__ == "__main__":
    main()
