"""The `tracoco` command: read the arguments, call one function, print one result.

Torch takes seconds to import, so each command imports what it needs when it runs.
"""

import sys
from typing import NoReturn

# In the order in which the help lists the commands.
from tracoco.cli import demo, init, plan, check, prepare, train, self_train  # isort: skip
from tracoco.cli import predict, evaluate, context, view, report, compare  # isort: skip
from tracoco.cli import benchmark, paper, next_, update, serve, tune, export, submit  # isort: skip
from tracoco.cli import import_, methods, presets, doctor  # isort: skip
from tracoco.cli.app import app
from tracoco.console import plain_output
from tracoco.errors import Stopped, UserError

__all__ = [
    "app",
    "benchmark",
    "check",
    "compare",
    "context",
    "demo",
    "doctor",
    "evaluate",
    "export",
    "import_",
    "init",
    "main",
    "methods",
    "next_",
    "paper",
    "plan",
    "predict",
    "prepare",
    "presets",
    "report",
    "self_train",
    "serve",
    "submit",
    "train",
    "tune",
    "update",
    "view",
]


def main() -> NoReturn:
    """Run one command: 0 when it did what was asked, 2 when the user has to change something."""
    with plain_output():
        _run()


def _run() -> NoReturn:
    try:
        app()
    except Stopped as error:
        _complain(str(error))
        sys.exit(128 + error.signal)
    except UserError as error:
        _complain(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _complain(f"{error.filename}: {error.strerror}; check the path and its permissions")
    sys.exit(2)


def _complain(problem: str) -> None:
    print(f"{' '.join(['tracoco', *sys.argv[1:2]])}: {problem}", file=sys.stderr)
