"""Everything put together: from a project and settings to a trained run."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from tracoco.config import Config
from tracoco.data.batches import BatchSource, Share, batches
from tracoco.data.crop_pair import CropRule
from tracoco.errors import UserError
from tracoco.evaluation.metrics import dice
from tracoco.inference.sliding_window import predict_volume, strides
from tracoco.methods import method_row
from tracoco.methods.method import Method, resolved_choice
from tracoco.project.folder import Project
from tracoco.project.plan import Plan
from tracoco.project.splits import Splits
from tracoco.project.store import Store
from tracoco.training.build import run_crop, run_method
from tracoco.training.journal import Journal
from tracoco.training.progress import shown_progress
from tracoco.training.run_folder import RunFolder
from tracoco.training.signals import stop_on_signals
from tracoco.training.team import Team, joined_team
from tracoco.training.trainer import FitResult, Trainer, Validate


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a run is made of: settings with every value spelt out, and the prepared data."""

    config: Config
    plan: Plan
    splits: Splits
    store: Store

    @classmethod
    def of(cls, project: Project, config: Config) -> "Experiment":
        """Read the project and check that it and the settings go together."""
        plan, splits, store = project.load_plan(), project.load_splits(), Store(project.store_root)
        crop = run_crop(config, plan)
        taught = method_row(config.method.name).taught
        if taught and not splits.unlabelled:
            raise UserError(
                f"{project.splits_file} has no unlabelled cases, which '{config.method.name}' "
                "learns from; add scans without labels, or use --method supervised"
            )
        if taught and not config.data.unlabelled_batch:
            raise UserError(
                f"data.unlabelled_batch is 0, but '{config.method.name}' learns from unlabelled "
                "crops; set it to 2, or use --method supervised"
            )
        strides(crop, config.inference.overlap)  # now, rather than after the training
        data = config.data.model_copy(
            update={
                "crop": crop,
                # A method that learns nothing from unlabelled crops need not read them.
                "unlabelled_batch": config.data.unlabelled_batch if taught else 0,
            }
        )
        choice = resolved_choice(config.method)
        store.check(splits, plan)
        return cls(config.model_copy(update={"data": data, "method": choice}), plan, splits, store)

    @property
    def crop(self) -> tuple[int, ...]:
        """Size of a crop in the store's axis order."""
        return run_crop(self.config, self.plan)

    @property
    def labelled_share(self) -> float:
        """Share of the foreground in the labelled scans."""
        counts = [self.store.case(case).class_voxels for case in self.splits.labelled]
        total = np.sum([count for count in counts if count], axis=0)
        return float(total[1:].sum() / total.sum())

    def source(self, team: Team) -> BatchSource:
        """The batches of this process."""
        plane = (1, 2) if self.plan.dimensions == 2 else (0, 1)
        a, b = (self.plan.spacing_mm[axis] for axis in plane)
        rule = CropRule(
            self.crop, plane, turns=bool(np.isclose(a, b, rtol=0.01)), config=self.config.data
        )
        share = Share(team.rank, team.world_size)
        labelled, unlabelled = self.splits.labelled, self.splits.unlabelled
        return BatchSource(self.store, labelled, unlabelled, rule, self.config.seed, share)

    def method(self, team: Team) -> Method:
        """The method with its first weights."""
        batch = self.config.data.labelled_batch * team.world_size
        return run_method(self.config, self.plan, max(1, len(self.splits.labelled) // batch))

    def facts(self, team: Team) -> dict[str, Any]:
        """What the run folder says of the data and of the batch over all processes."""
        batch = self.config.data.labelled_batch + self.config.data.unlabelled_batch
        return {
            "labelled_share": self.labelled_share,
            "global_batch": batch * team.world_size,
            "world_size": team.world_size,
            "threads": torch.get_num_threads(),
            "splits": self.splits.hash(),
            "store": self.store.hash(),
        }

    def identity(self, team: Team) -> dict[str, Any]:
        """What must be the same for a run to go on as if it had never been stopped."""
        settings = self.config.model_dump(mode="json", exclude={"data": {"workers"}})
        return {
            **{f"{group} settings": values for group, values in settings.items()},
            "splits": self.splits.hash(),
            "plan": self.plan.hash(),
            "data": self.store.hash(),
            "number of processes": team.world_size,
        }

    def announcement(self, team: Team) -> str:
        """What is about to be done, in one line; the batch is per process, so both are said."""
        data, splits = self.config.data, self.splits
        crops = data.labelled_batch + data.unlabelled_batch
        return (
            f"{self.config.method.name} on {team.device}: {len(splits.labelled)} labelled and "
            f"{len(splits.unlabelled) if data.unlabelled_batch else 0} unlabelled cases, "
            f"{crops} crops a step and process, {crops * team.world_size} in all"
        )

    def validation(self, team: Team) -> Validate | None:
        """A function that scores a method on the validation cases, if there are any."""
        if not self.splits.validation:
            return None
        cases = [self.store.case(case) for case in self.splits.validation]

        def validate(method: Method) -> dict[str, float]:
            scores = []
            for case in cases:
                volume = torch.from_numpy(np.array(case.image())).to(team.device)
                answer = predict_volume(method.predict, volume, self.crop, self.config.inference)
                found, truth = answer.argmax(dim=0).cpu().numpy(), case.label()
                present = [k for k in range(1, self.plan.classes) if (truth == k).any()]
                scores += [dice(found == k, truth == k) or 0.0 for k in present]
            return {"dice": float(np.mean(scores)) if scores else 0.0}

        return validate


def train(
    project: Project,
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    device: str = "auto",
    console: Console | None = None,
) -> FitResult:
    """Train one run into `out`, alone or as one of the processes that `torchrun` started."""
    experiment = Experiment.of(project, config)
    folder = RunFolder(out)
    with ExitStack() as stack:
        team = stack.enter_context(joined_team(device))
        stop = stack.enter_context(stop_on_signals())
        method = experiment.method(team)
        open_folder(folder, experiment, team, resume=resume)
        identity = experiment.identity(team)
        trainer = Trainer(method, experiment.config, out, team, identity=identity)
        if resume:
            trainer.resume()
        steps = experiment.config.training.steps
        journal = None
        if team.leads:
            title = experiment.config.method.name
            display = stack.enter_context(shown_progress(title, trainer.step, steps, console))
            share = experiment.labelled_share
            display.say(experiment.announcement(team))
            journal = stack.enter_context(Journal(out, trainer.step, share, display))
        workers = experiment.config.data.workers
        return trainer.fit(
            batches(experiment.source(team), trainer.step, steps, workers),
            journal,
            stop,
            experiment.validation(team),
        )


def open_folder(folder: RunFolder, experiment: Experiment, team: Team, *, resume: bool) -> None:
    """Make the run's folder, or see that it is there to go on with; all processes agree on it."""
    resuming = resume and folder.begun
    if not resuming:
        folder.check_free(resume=resume)
    team.wait()  # no process may make the folder before all have seen that it is new
    if team.leads and not resuming:
        folder.create(experiment.config, experiment.plan, experiment.splits, experiment.facts(team))
    team.wait()
