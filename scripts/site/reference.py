"""The reference pages, written from the code: commands, Python, settings, file formats."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, get_args

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.core import TyperGroup

import tracoco as tc
from tracoco.cli import app
from tracoco.config import Config
from tracoco.methods.catalogue import documented
from tracoco.presets import list_presets
from tracoco.project.folder import Project
from tracoco.project.layouts import LAYOUTS
from tracoco.project.plan import Plan
from tracoco.runs.folder import RunFolder
from tracoco.scans.reader import FORMATS

MODULES = ("losses", "methods")
"""Public names that are modules."""
SECTIONS = {"Args:": "Arguments", "Returns:": "Returns", "Raises:": "Raises", "Yields:": "Yields"}
Row = Sequence[str]


def pages() -> dict[str, str]:
    """All reference pages: a file name and its Markdown."""
    return {
        "cli.md": cli_page(),
        "python.md": python_page(),
        "settings.md": settings_page(),
        "file-formats.md": formats_page(),
    }


def table(heading: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown; a bar or a line break in a cell does not end it."""
    lines = [heading, ["---"] * len(heading), *rows]
    cells = ([" ".join(cell.split()).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def code(text: str) -> str:
    """A word that is typed as it stands."""
    return f"`{text}`" if text else ""


def commands() -> dict[str, Any]:
    """The commands in the order of the help."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)  # noqa: S101 - the app has several commands
    return dict(group.commands)


def cli_page() -> str:
    """Every command with its arguments and options."""
    found = commands()
    rows = [(f"[{name}](#{name})", first_line(each.help)) for name, each in found.items()]
    parts = [
        "# Commands",
        "Made from the code. `tracoco COMMAND --help` says the same. An error that you can correct "
        "ends a command with exit code 2 and one line; `check` and `doctor` end with 1 if they "
        "warn of something.",
        table(("command", "what it does"), rows),
    ]
    return "\n\n".join([*parts, *(command_part(name, each) for name, each in found.items())]) + "\n"


def first_line(text: str | None) -> str:
    """The first sentence of a help text."""
    return inspect.cleandoc(text or "").split("\n\n")[0]


def command_part(name: str, command: Any) -> str:
    """The section of one command."""
    about, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in shown if each.param_type_name == "argument"]
    options = [each for each in shown if each.param_type_name == "option" and each.name != "help"]
    usage = " ".join(["tracoco", name, *(_metavar(each) for each in arguments)])
    parts = [f"## {name}", about.strip(), f"    {usage}{' [OPTIONS]' if options else ''}"]
    if example:
        parts += ["Example:", f"    {' '.join(example.split())}"]
    if arguments:
        rows = [(code(_metavar(each)), getattr(each, "help", None) or "") for each in arguments]
        parts.append(table(("argument", "meaning"), rows))
    if options:
        described = [
            (code(", ".join(each.opts)), code(_kind(each)), code(_default(each)), each.help or "")
            for each in options
        ]
        parts.append(table(("option", "value", "default", "meaning"), described))
    return "\n\n".join(parts)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _kind(option: Any) -> str:
    """What is given to an option, as its help shows it."""
    if option.is_flag:
        return ""
    annotation = option.type_descriptor.annotation
    choices = "|".join(map(str, get_args(annotation)))
    return str(option.metavar or choices or annotation.__name__.upper())


def _default(option: Any) -> str:
    if option.is_flag or option.default is None or option.default == ():
        return ""
    value = option.default.value if isinstance(option.default, Enum) else option.default
    return str(value)


def public_names() -> list[str]:
    """Public names that are functions, classes or tables, without modules and the version."""
    return [name for name in tc.__all__ if name not in MODULES and not name.startswith("__")]


def python_page() -> str:
    """Every public name with its signature and its docstring."""
    names = public_names()
    callables = [name for name in names if inspect.isroutine(getattr(tc, name))]
    classes = [name for name in names if inspect.isclass(getattr(tc, name))]
    others = [name for name in names if name not in (*callables, *classes)]
    losses = [(f"losses.{name}", getattr(tc.losses, name)) for name in tc.losses.__all__]
    parts = [
        "# Python",
        "Made from the code. All names are those of `import tracoco as tc`; each is imported when "
        "it is first used. Functions have the options of the command of the same name.",
        "## Functions",
        *(routine_part(name, getattr(tc, name)) for name in callables),
        "## Classes",
        *(class_part(name, getattr(tc, name)) for name in classes),
        "## Losses",
        "Each is a function of maps [B, C, ...] in 2D or 3D.",
        *((class_part if inspect.isclass(each) else routine_part)(n, each) for n, each in losses),
        "## Tables and modules",
        *(f"- `tc.{name}`: {OTHERS[name]}" for name in (*others, *MODULES)),
    ]
    return "\n\n".join(parts) + "\n"


OTHERS = {
    "METHODS": "the row of each method by its name",
    "TensorPair": "what `tc.crop_pair` returns: the first crop, the second crop, and their overlap",
    "losses": "every loss as a function, as listed above",
    "methods": "the table of methods and their modules",
}
"""What public names without a docstring are."""


def routine_part(name: str, routine: Callable[..., Any], level: int = 3) -> str:
    """A function with its signature."""
    signature = wrapped_signature(name, routine)
    return f"{'#' * level} {name}\n\n```python\n{signature}\n```\n\n{docstring(routine)}"


def wrapped_signature(name: str, routine: Callable[..., Any]) -> str:
    """A signature on one line, or with one parameter a line."""
    found = inspect.signature(routine)
    parameters = [each for each in found.parameters.values() if each.name not in ("self", "cls")]
    found = found.replace(parameters=parameters)
    text = _plain(f"{name}{found}")
    if len(text) <= 90:
        return text
    lines, star = [], False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not star:
            lines.append("    *,")
            star = True
        lines.append(f"    {_plain(str(each))},")
    returned = found.return_annotation
    end = "" if returned is found.empty else f" -> {_plain(inspect.formatannotation(returned))}"
    return "\n".join([f"{name}(", *lines, f"){end}"])


MODULE = re.compile(r"\b(?:tracoco|pathlib|collections|torch|numpy|typing)\.(?:\w+\.)*(?=\w)")


def _plain(text: str) -> str:
    """Types by their last name, functions by their name, and paths as text."""
    text = re.sub(r"<function ([\w.]+) at 0x\w+>", r"\1", text)
    return MODULE.sub("", re.sub(r"PosixPath\(('[^']*')\)", r"\1", text))


def class_part(name: str, class_: type) -> str:
    """A class with its fields, properties and methods."""
    parts = [f"### {name}", docstring(class_)]
    found = class_fields(class_)
    if found:
        parts.append(table(("field", "meaning"), [(code(n), about) for n, about in found.items()]))
    for attribute, member in vars(class_).items():
        routine = inspect.unwrap(getattr(member, "__func__", member))
        if attribute.startswith("_") and attribute != "__call__":
            continue
        if isinstance(member, property):
            parts.append(f"**`.{attribute}`**: {first_line(member.__doc__)}")
        elif inspect.isroutine(routine) and inspect.getdoc(routine):
            parts.append(routine_part(f"{name}.{attribute}", routine, level=4))
    return "\n\n".join(parts)


def class_fields(class_: type) -> dict[str, str]:
    """Fields of a dataclass or of settings, with the docstring below each."""
    if issubclass(class_, BaseModel):
        return documented(class_)
    if not is_dataclass(class_):
        return {}
    source = textwrap.dedent(inspect.getsource(class_))
    field = re.compile(r'^    (\w+): [^\n]*\n    """(.*?)"""', re.DOTALL | re.MULTILINE)
    texts = dict(field.findall(source))
    return {name: texts.get(name, "") for name in (each.name for each in fields(class_))}


def docstring(thing: Any) -> str:
    """A docstring in Google's form as Markdown: its sections become lists."""
    text = inspect.getdoc(thing) or ""
    lines: list[str] = []
    section = False
    for line in text.splitlines():
        if line.strip() in SECTIONS:
            section = True
            lines += [f"**{SECTIONS[line.strip()]}**", ""]
        elif section and line.startswith("    "):
            entry = re.match(r"    (\*{0,2}\w+): (.*)", line)
            lines.append(f"- `{entry[1]}`: {entry[2]}" if entry else f"  {line.strip()}")
        else:
            section = section and not line.strip()
            lines.append(line)
    return "\n".join(lines)


def settings_page() -> str:
    """Every setting of a run and of a plan, with its default and its meaning."""
    names = [preset.name for preset in list_presets()]
    parts = [
        "# Settings",
        "Made from the code. A setting of a run is changed by `--set KEY=VALUE`, by "
        "`settings={'KEY': VALUE}` in Python, or by a preset. A run records all of them in "
        "`config.yaml`. Settings of a method are in [methods](methods.md), with the key "
        "`method.NAME`.",
        "## Of a run",
        table(("key", "default", "meaning"), setting_rows(Config)),
        "## Of a plan",
        "Values of `plan.yaml` in a project.",
        table(("key", "default", "meaning"), plan_rows()),
        "## Presets",
        "`tracoco presets NAME` prints one.",
        table(("preset", "for"), [(code(each.name), each.about) for each in list_presets(names)]),
    ]
    return "\n\n".join(parts) + "\n"


def setting_rows(model: type[BaseModel], prefix: str = "") -> Iterator[Row]:
    """One row for each setting; groups are followed down."""
    about = documented_with_bases(model)
    for name, field in model.model_fields.items():
        inner = group_of(field)
        if inner and name != "method":
            yield from setting_rows(inner, f"{prefix}{name}.")
        else:
            key = f"{prefix}{name}" + (".name" if name == "method" else "")
            default = "tracoco" if name == "method" else default_text(field)
            yield code(key), code(default), METHOD if name == "method" else about[name]


METHOD = "The method; its own settings stand beside the name."


def documented_with_bases(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings of fields, those of base classes included."""
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            found |= documented(owner)
    return found


def group_of(field: FieldInfo) -> type[BaseModel] | None:
    """The class of a group of settings, if a field is one."""
    for each in (field.annotation, *get_args(field.annotation)):
        if isinstance(each, type) and issubclass(each, BaseModel):
            return each
    return None


def default_text(field: FieldInfo) -> str:
    """A default as YAML would have it; empty where a value must be given."""
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return ""
    words: Mapping[Any, str] = {None: "null", True: "true", False: "false"}
    known = value is None or isinstance(value, bool)
    return words[value] if known else str(list(value) if isinstance(value, tuple) else value)


def plan_rows() -> Iterator[Row]:
    """One row for each value of a plan."""
    for name, field in Plan.model_fields.items():
        yield code(name), code(default_text(field)), field.description or ""


def formats_page() -> str:
    """Formats of scans, layouts of folders, and the files of a project and of a run."""
    joined = ", ".join
    formats = [
        (
            each.name,
            code(joined(each.suffixes)) or "a folder",
            code(joined(each.written)),
            first_line(each.module.__doc__),
        )
        for each in FORMATS
    ]
    project = [(code(path), about) for path, about in file_rows(Project)]
    run = [(code(path), about) for path, about in (*file_rows(RunFolder), *RUN_FILES)]
    parts = [
        "# File formats",
        "Made from the code.",
        "## Scans",
        table(("format", "read", "labels written", "about"), formats),
        "`predict --dicom-seg` writes DICOM segmentations besides.",
        "## Layouts that `init` recognises",
        table(
            ("layout", "what it looks like"),
            [(code(e.name), e.about.replace("*", "\\*")) for e in LAYOUTS],
        ),
        "`init --layout NAME` takes one of them without looking at the others.",
        "## A project",
        table(("file", "what is in it"), project),
        "## A run",
        table(("file", "what is in it"), run),
    ]
    return "\n\n".join(parts) + "\n"


RUN_FILES = (
    ("config.yaml", "All settings of the run. It is written last: a folder with it is a run."),
    ("plan.yaml, splits.json", "The plan and the split that the run was trained with."),
    ("last.pt, best.pt", "Checkpoints: the last one, and the best one on the validation cases."),
    ("predictions/", "Predictions, with predictions.json and scores.json in each folder."),
    ("tracking.json", "The run's id in each tracker of `train --track`."),
    ("mlruns/", "Beside the run's folder: MLflow's files, where nothing else is set."),
    ("report.html", "The report, one file that needs no network."),
)


def file_rows(folder: type) -> Iterator[tuple[str, str]]:
    """The files of a folder class: its properties that are paths."""
    for name, member in vars(folder).items():
        if isinstance(member, property) and name.endswith(("_file", "_root")):
            source = inspect.getsource(member.fget) if member.fget else ""
            (path,) = re.findall(r'self\.root / "([^"]+)"', source)
            yield path + ("/" if name.endswith("_root") else ""), first_line(member.__doc__)
