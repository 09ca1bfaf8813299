"""A project that all figures are drawn from, so that they share its runs."""

from collections.abc import Callable
from typing import Any

import pytest
from samples import make_project

from tracoco.project.folder import Project
from tracoco.studies.paper.request import PaperRequest

SMALL = ("network.filters=4", "data.crop=[16, 16, 8]", "data.workers=0")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """3 labelled, 2 unlabelled, 1 validation and 2 test cases."""
    return make_project(tmp_path_factory.mktemp("figures"), labelled=6, unlabelled=2, test=2)


@pytest.fixture(scope="session")
def ask(small: Project) -> Callable[..., PaperRequest]:
    """Ask for a figure of that project, which stands in for the paper's data unless named."""

    def asked(data: str = "", steps: int = 2, **changes: Any) -> PaperRequest:
        settings: dict[str, Any] = {"preset": "demo", "labelled": 2, "device": "cpu"}
        settings["changes"] = (*SMALL, f"training.steps={steps}")
        return PaperRequest({data: small.root}, **settings | changes)

    return asked
