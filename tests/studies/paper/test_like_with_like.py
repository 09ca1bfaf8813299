"""The paper's comparisons of co-training methods vary the loss alone: all else is the preset's."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tracoco.config import Config
from tracoco.errors import UserError
from tracoco.project.folder import Project
from tracoco.studies.paper.figures import divergence as figures_divergence
from tracoco.studies.paper.figures.figure_settings import FigureRun
from tracoco.studies.paper.request import PaperRequest
from tracoco.studies.paper.table_rows import table_rows

COTRAINING = ("cps", "cac-co", "tracoco")
SHARED = {
    "noise": 0.2,
    "unsupervised_weight": 1.0,
    "rampup": "cosine",
    "rampup_epochs": 40,
    "rampup_steps": None,
    "cutmix": True,
}
"""What the presets of the paper say of co-training, whatever the loss."""


def shared(config: Config) -> dict[str, Any]:
    return {key: config.method.settings[key] for key in SHARED}


def compared() -> list[tuple[str, Config]]:
    """The runs that `tracoco paper cac-comparison` asks for."""
    rows = table_rows("cac-comparison")
    configs = [PaperRequest({}).spec(row.preset, row.changes).config(0) for row in rows]
    return [(row.preset, config) for row, config in zip(rows, configs, strict=True)]


def test_the_table_compares_cac_with_co_training_and_tracoco_at_the_same_settings() -> None:
    found = [(preset, config) for preset, config in compared() if config.method.name in COTRAINING]
    assert {preset for preset, _ in found} == {"la-8", "la-16", "brats19-25", "brats19-50"}
    assert {config.method.name for _, config in found} == {"cac-co", "tracoco"}
    assert len(found) == 8
    for preset, config in found:
        assert shared(config) == SHARED, (preset, config.method.name)


def test_the_rows_of_a_preset_differ_in_their_method_alone() -> None:
    for wanted in ("la-8", "brats19-50"):
        rows = [config for preset, config in compared() if preset == wanted]
        others = [config.model_dump(exclude={"method"}) for config in rows]
        assert len(others) == 3
        assert all(each == others[0] for each in others)


def test_the_figure_of_divergence_trains_co_training_and_tracoco_at_the_same_settings(
    small: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    configs: dict[str, Config] = {}

    def asked(request: PaperRequest, _: str, runs: Sequence[FigureRun]) -> Iterator[None]:
        for run in runs:
            configs[run.title] = request.spec(run.preset, run.changes).config(0)
        raise UserError("asked")
        yield

    monkeypatch.setattr(figures_divergence, "trained_runs", asked)
    with pytest.raises(UserError, match="asked"):
        figures_divergence.divergence(PaperRequest({"brats19": small.root}), "brats19")
    assert [config.method.name for config in configs.values()] == ["mean-teacher", "cps", "tracoco"]
    for title in ("co-training", "tracoco"):
        assert shared(configs[title]) == SHARED, title
    others = [config.model_dump(exclude={"method"}) for config in configs.values()]
    assert all(each == others[0] for each in others)


@pytest.mark.parametrize("preset", ["la-8", "pancreas-12", "brats19-25", "brats19-50"])
@pytest.mark.parametrize("method", COTRAINING)
def test_a_preset_of_the_paper_holds_for_every_co_training_method(preset: str, method: str) -> None:
    config = PaperRequest({}).spec(preset, (f"method.name={method}",)).config(0)
    assert shared(config) == SHARED


def test_what_a_user_sets_holds_for_all_rows() -> None:
    request = PaperRequest({}, changes=("method.noise=0.1",))
    rows = [row for row in table_rows("cac-comparison") if row.published.method in COTRAINING]
    configs = [request.spec(row.preset, row.changes).config(0) for row in rows]
    assert {config.method.settings["noise"] for config in configs} == {0.1}
    assert {config.method.settings["rampup_epochs"] for config in configs} == {40}
