"""A run as its folder describes it, read once for the whole report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from statistics import fmean

from tracoco.config import Config
from tracoco.evaluation.scores import Evaluation, ScoredCase, read_evaluation
from tracoco.inference.manifest import Manifest, merged_manifest
from tracoco.project.folder import structure_names
from tracoco.project.plan import Plan
from tracoco.project.splits import Splits
from tracoco.runs.facts import Facts
from tracoco.runs.folder import RunFolder
from tracoco.runs.log import StepRecord, read_log
from tracoco.text import listed


@dataclass(frozen=True, slots=True)
class ScoreSet:
    """An evaluated folder of predictions."""

    folder: Path
    evaluation: Evaluation
    manifest: Manifest

    @property
    def name(self) -> str:
        """The folder's name, e.g. `test`."""
        return self.folder.name

    @property
    def seconds(self) -> float | None:
        """Mean time that a prediction took, where it is known."""
        known = self.manifest.seconds
        return fmean(known) if known else None

    @property
    def prediction(self) -> Path:
        """The label file or folder that was scored; beside the scores if the run was moved."""
        recorded = self.evaluation.prediction
        return recorded if recorded is not None and recorded.exists() else self.folder

    @property
    def cases(self) -> list[ScoredCase]:
        """The worst first."""
        return self.evaluation.cases

    def _repr_html_(self) -> str:
        """For a notebook: the folder's name and its scores."""
        return f"<b>{escape(self.name)}</b>{self.evaluation._repr_html_()}"


def read_scores(path: Path) -> ScoreSet:
    """Read a `scores.json` and the manifest that `predict` wrote beside it, if it did."""
    file = path / "scores.json" if path.is_dir() else path
    return ScoreSet(
        file.absolute().parent,
        read_evaluation(file),
        merged_manifest(file.parent),
    )


def find_scores(run: Path, further: Sequence[Path] = ()) -> list[ScoreSet]:
    """The evaluated predictions of a run, `test` first, then those that were given besides."""
    found = sorted(run.glob("predictions/*/scores.json"), key=_test_first)
    sets = [read_scores(path) for path in (*found, *further)]
    return list({each.folder.resolve(): each for each in sets}.values())


def worst_median_best(cases: Sequence[ScoredCase]) -> list[tuple[str, ScoredCase]]:
    """Three cases to look at, out of cases sorted from worst to best; of two medians the worse."""
    scored = [case for case in cases if case.dice is not None]
    if not scored:
        return []
    picked = {0: "worst", len(scored) - 1: "best" if len(scored) > 1 else "only case"}
    picked.setdefault((len(scored) - 1) // 2, "median")
    return [(picked[index], scored[index]) for index in sorted(picked)]


def _with_names(scores: ScoreSet, names: Mapping[int, str]) -> ScoreSet:
    """The scores with these names of structures, in place of those that they were written with."""
    rows = [replace(row, name=names.get(row.label, row.name)) for row in scores.evaluation.rows]
    return replace(scores, evaluation=replace(scores.evaluation, rows=tuple(rows)))


def _test_first(path: Path) -> tuple[bool, str]:
    return path.parent.name != "test", path.parent.name


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Settings, data, log and scores of one run."""

    root: Path
    config: Config
    plan: Plan
    splits: Splits
    facts: Facts
    log: list[StepRecord]
    scores: list[ScoreSet]
    renamed: dict[str, str] = field(default_factory=dict)
    """Names of classes when the run began, with those that they have now."""

    @classmethod
    def read(cls, run: Path, scores: Sequence[Path] = ()) -> "RunRecord":
        """Read a run's folder, and scores that lie elsewhere."""
        folder = RunFolder(run)
        config, plan = folder.config(), folder.plan()
        names = structure_names(run, plan)
        return cls(
            root=run.resolve(),
            config=config,
            plan=plan.model_copy(update={"class_names": tuple(names.values())}),
            splits=folder.splits(),
            facts=folder.facts(),
            log=read_log(folder.log_file),
            scores=[_with_names(each, names) for each in find_scores(run, scores)],
            renamed=dict(zip(plan.class_names, names.values(), strict=True)),
        )

    @property
    def imported_from(self) -> str:
        """Name of the file that the weights come from; empty for a run that was trained here."""
        return Path(self.facts.imported.file).name if self.facts.imported else ""

    @property
    def method(self) -> str:
        """Name of the method, which is not known of imported weights."""
        return "imported" if self.imported_from else self.config.method.name

    @property
    def steps_done(self) -> int:
        """Steps in the log."""
        return self.log[-1].step + 1 if self.log else 0

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to train."""
        return bool(self.imported_from) or self.steps_done >= self.config.training.length

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """Unlabelled cases that the run learnt from; none for a method that reads none."""
        return self.splits.unlabelled if self.config.data.batch[1] else ()

    @property
    def hidden_labels(self) -> int:
        """Labels that there are, but that the run was not given."""
        return self.facts.hidden_labels

    @property
    def fold(self) -> str:
        """The fold of the project that the run held out, in words; empty without one."""
        number = self.config.data.fold
        return f"fold {number} of {len(self.splits.folds)} held out" if number else ""

    @property
    def chosen_on_test(self) -> bool:
        """Whether the test cases choose the run's best checkpoint."""
        return self.config.training.select_on == "test"

    def seen_before(self, scores: ScoreSet) -> list[str]:
        """What makes scores of these cases no test: the run knew them while it was trained."""
        parts = {
            "labelled training": self.splits.labelled,
            "unlabelled training": self.unlabelled,
        }
        if scores.manifest.checkpoint == "best" and not self.chosen_on_test:
            parts["validation"] = self.splits.validation
        scored = scores.evaluation.case_ids
        shared = {part: sorted(scored.intersection(ids)) for part, ids in parts.items()}
        return [
            f"{len(ids)} of the scored cases have names of {part} cases ({listed(ids)})"
            for part, ids in shared.items()
            if ids
        ]

    def collapsed_spans(self) -> list[tuple[int, int]]:
        """First and last step of each time that the pseudo-labels were collapsed."""
        spans: list[tuple[int, int]] = []
        for record in self.log:
            if not record.collapsed:
                continue
            step = record.step
            if spans and spans[-1][1] == step - 1:
                spans[-1] = (spans[-1][0], step)
            else:
                spans.append((step, step))
        return spans
