"""plan.yaml: a plan for a person to read and change."""

import json
import textwrap
from pathlib import Path

import yaml

from tracoco.config import checked
from tracoco.errors import UserError
from tracoco.files import write_text
from tracoco.project.plan import Plan


def write_plan(path: Path, plan: Plan) -> None:
    """Write plan.yaml with a line about each value, for a person to read and change."""
    values = plan.model_dump(mode="json")
    blocks = []
    for name, field in Plan.model_fields.items():
        comment = textwrap.fill(
            str(field.description), 98, initial_indent="# ", subsequent_indent="# "
        )
        blocks.append(f"{comment}\n{name}: {json.dumps(values[name], ensure_ascii=False)}\n")
    write_text(path, "\n".join(blocks))


def read_plan(path: Path) -> Plan:
    """Read plan.yaml, or say which value is wrong."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is not valid YAML ({reason}); correct or restore it") from error
    return checked(Plan, values, str(path))
