"""The page: one HTML file that holds all it shows, or that asks the local server for volumes."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tracoco.errors import UserError
from tracoco.text import listed
from tracoco.viewer.cases import ViewCase, ViewSet
from tracoco.viewer.volumes import PackedCase, compressed, pack_case

SCRIPTS = ("volumes.js", "planes.js", "surface.js", "controls.js", "viewer.js")
"""In the order in which they are read; together they are one script."""
MOST_HALVINGS = 2
"""How often a scan's resolution is halved to fit into a file."""
MB = 1_000_000


@dataclass(slots=True)
class Embedded:
    """Cases for one file, within its limit."""

    described: list[dict[str, Any] | None] = field(default_factory=list)
    """One entry a case; None for one that is left out."""
    volumes: dict[str, str] = field(default_factory=dict)
    """Base64 of compressed bytes by `case/volume`."""
    left_out: list[str] = field(default_factory=list)
    smaller: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Characters of all volumes."""
        return sum(map(len, self.volumes.values()))

    def notes(self, limit_mb: float) -> Iterator[str]:
        """What a reader of the page must know."""
        limit = f"the limit of {limit_mb:g} MB (--limit-mb)"
        if self.left_out:
            names = listed(self.left_out)
            yield f"{len(self.left_out)} cases are left out by {limit}: {names}"
        if self.smaller:
            names = listed(self.smaller)
            yield f"{len(self.smaller)} cases are shown at lower resolution, by {limit}: {names}"
        yield from self.unreadable


def embed(view: ViewSet, limit_mb: float, on_case: Callable[[str], object] = str) -> Embedded:
    """Pack cases until the limit is reached.

    Each case may take an equal part of what is left. One that would take more is halved in
    resolution, at most twice, and left out if it is too large even then.
    """
    found = Embedded()
    for index, case in enumerate(view.cases):
        share = (limit_mb * MB - found.size) / (len(view.cases) - index)
        _embed_case(found, index, case, view, share)
        on_case(case.id)
    if view.cases and not found.volumes:
        reasons = found.unreadable or [f"no case fits into {limit_mb:g} MB; raise --limit-mb"]
        raise UserError(reasons[0])
    return found


def _embed_case(found: Embedded, index: int, case: ViewCase, view: ViewSet, share: float) -> None:
    try:
        packed = pack_case(case, view)
    except (UserError, OSError) as error:
        found.unreadable.append(f"{case.id}: {error}")
        found.described.append(None)
        return
    for halved in range(MOST_HALVINGS + 1):
        texts = _texts(packed)
        if sum(map(len, texts.values())) <= share:
            found.volumes |= {f"{index}/{name}": text for name, text in texts.items()}
            found.described.append(packed.describe())
            found.smaller += [case.id] if halved else []
            return
        if halved < MOST_HALVINGS:
            packed = packed.smaller()
    found.left_out.append(case.id)
    found.described.append(None)


def _texts(packed: PackedCase) -> dict[str, str]:
    return {
        name: base64.b64encode(compressed(volume)).decode()
        for name, volume in packed.volumes.items()
    }


def one_file(view: ViewSet, limit_mb: float, on_case: Callable[[str], object] = str) -> str:
    """The page as text, with all that it shows."""
    embedded = embed(view, limit_mb, on_case)
    kept = [index for index, about in enumerate(embedded.described) if about is not None]
    data = _data(view, kept, (*embedded.notes(limit_mb), *view.notes))
    for row, index in zip(data["cases"], kept, strict=True):
        row["volumes"] = embedded.described[index]
    return _render(view.title, data, embedded.volumes, connect="'none'")


def served(view: ViewSet) -> str:
    """The page of the local server, which reads volumes when a case is chosen."""
    return _render(view.title, _data(view, range(len(view.cases)), view.notes), {}, "'self'")


def frame(page: str, title: str, height: int) -> str:
    """A page inside of another one, which it can neither read nor change."""
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts" allow="fullscreen" '
        f'loading="lazy" style="width: 100%; height: {height}px; border: 0" '
        f'srcdoc="{escape(page)}"></iframe>'
    )


def content_policy(connect: str, script: str, style: str) -> str:
    """What the page may load and run: itself, and from nowhere else."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        f"img-src data: blob:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _data(view: ViewSet, kept: Sequence[int], notes: Sequence[str]) -> dict[str, Any]:
    rows = [_row(index, view.cases[index], view.labels) for index in kept]
    return {"title": view.title, "units": view.units, "notes": list(notes), "cases": rows}


def _row(index: int, case: ViewCase, names: Mapping[int, str]) -> dict[str, Any]:
    scores = case.scores
    distances = [row.hd95 for row in scores.rows if row.hd95 is not None] if scores else []
    return {
        "key": index,
        "case": case.id,
        "part": case.part,
        "source": case.source,
        "labelled": case.truth is not None,
        "predicted": case.prediction is not None,
        "dice": scores.dice if scores else None,
        "hd95": sum(distances) / len(distances) if distances else None,
        "missed": scores.missed if scores else False,
        "disagreement": case.uncertainty.disagreement if case.uncertainty else None,
        "entropy": case.uncertainty.entropy if case.uncertainty else None,
        "scores": [
            {
                "name": names.get(row.label, row.name),
                "dice": row.dice,
                "hd95": row.hd95,
                "missed": row.missed,
            }
            for row in (scores.rows if scores else ())
        ],
    }


def _render(title: str, data: dict[str, Any], volumes: dict[str, str], connect: str) -> str:
    static = files("tracoco.viewer").joinpath("static")
    style = static.joinpath("viewer.css").read_text(encoding="utf-8")
    parts = [static.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS]
    script = '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"
    environment = Environment(
        loader=PackageLoader("tracoco.viewer", "static"), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("viewer.html.jinja").render(
        title=title,
        policy=content_policy(connect, script, style),
        style=style,
        script=script,
        data=json.dumps(data).replace("<", "\\u003c"),
        volumes=volumes,
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
