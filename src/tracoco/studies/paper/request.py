"""What a user asks of a table or figure: on which projects, at which size, with how many seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from tracoco.errors import UserError
from tracoco.evaluation.scores import chosen_protocol
from tracoco.project.folder import Project
from tracoco.studies.benchmark.grid import RunSpec
from tracoco.studies.benchmark.runner import Runner, Scoring
from tracoco.studies.paper.case_lists import Part, case_list, listed_name, ordered, recognise

DATA = ("la", "pancreas", "brats19", "acdc", "brats19-slices")


@dataclass(frozen=True, slots=True)
class PaperRequest:
    """The choices that all tables and figures share."""

    projects: Mapping[str, Path]
    """By data set; the project under "" stands in for every one that is not named."""
    preset: str | None = None
    """Settings in place of the paper's own presets, e.g. for a small machine."""
    changes: tuple[str, ...] = ()
    labelled: int | None = None
    """Labelled cases in place of the paper's number."""
    seeds: int = 1
    best_on_test: bool = False
    device: str = "auto"
    console: Console | None = field(default=None, compare=False)

    def project(self, data: str) -> Project | None:
        """The project for a data set, if there is one."""
        path = self.projects.get(data, self.projects.get(""))
        return None if path is None else Project(path)

    def runner(self, data: str) -> Runner | None:
        """What trains and tests on that project; runs of all tables and figures lie together."""
        project = self.project(data)
        if project is None:
            return None
        name = data if is_the_papers(project, data) else project.root.name
        return Runner(project, name, project.root / "paper", self.device, self.console)

    def spec(self, preset: str, changes: Sequence[str]) -> RunSpec:
        """A run: the paper's preset or the user's, what the row changes, what the user changes."""
        labelled = [] if self.labelled is None else [f"data.labelled={self.labelled}"]
        on_test = ["training.select_on=test"] if self.best_on_test else []
        last = (*changes, *labelled, *on_test, *self.changes)
        return RunSpec(self.preset or preset, last)

    def scoring(self, checkpoint: str = "last", *, cct: bool = False) -> Scoring:
        """The paper's conventions."""
        return Scoring(checkpoint, chosen_protocol("paper", cct=cct))


def parse_projects(given: Sequence[str]) -> dict[str, Path]:
    """`DATASET=FOLDER`, or a folder alone, which stands in for all that are not named."""
    projects: dict[str, Path] = {}
    for each in given:
        data, equals, folder = each.partition("=")
        key, path = (data, folder) if equals and data in DATA else ("", each)
        if equals and data not in DATA and not Path(each).exists():
            raise UserError(f"--project {each}: '{data}' is none of {', '.join(DATA)}")
        if key in projects:
            raise UserError(f"--project names {key or 'a stand-in'} twice; keep one")
        if not Project(Path(path)).exists:
            raise UserError(f"--project {each}: {path} is no project; make one with tracoco init")
        projects[key] = Path(path)
    return projects


def is_the_papers(project: Project, data: str) -> bool:
    """Whether a project holds all cases of the paper's lists, labelled ones in the lists' order."""
    splits = project.load_splits()
    dataset = data.removesuffix("-slices")
    training = [*splits.labelled, *splits.unlabelled, *splits.validation]
    if recognise(training, splits.test) != dataset:
        return False
    parts: dict[Part, tuple[str, ...]] = {
        "train": (*splits.labelled, *splits.unlabelled),
        "validation": splits.validation,
        "test": splits.test,
    }
    complete = all(
        {listed_name(id_) for id_ in ids} == set(case_list(dataset, part))
        for part, ids in parts.items()
    )
    return complete and list(splits.labelled) == ordered(dataset, splits.labelled)
