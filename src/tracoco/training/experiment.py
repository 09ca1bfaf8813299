"""What a run is made of, read from a project and checked against the settings."""

from dataclasses import dataclass

import numpy as np
import torch

from tracoco.config import Config, recorded_settings
from tracoco.data.crop_pair import CropRule
from tracoco.data.pseudo_label_files import PseudoLabels
from tracoco.data.source import BatchSource, Shard
from tracoco.evaluation.validation import Show, mean_dice
from tracoco.inference.windows import check_windows
from tracoco.methods import dropped_settings, method_row, resolved_choice
from tracoco.methods.method import Method
from tracoco.processes import StopRequest
from tracoco.project.folder import Project
from tracoco.project.folds import fold_splits
from tracoco.project.plan import Plan
from tracoco.project.planner import BatchSizes, within_cases
from tracoco.project.splits import Splits, with_fewer_labels
from tracoco.project.store import Store, StoredCase
from tracoco.runs.build import machine_name, resolved, run_crop, run_method
from tracoco.runs.facts import Facts, Identity, PseudoLabelFacts
from tracoco.runs.weights_origin import StartingWeights
from tracoco.training.contract import (
    check_cases,
    check_modules,
    check_needs,
    check_plan,
    check_slices,
    raised_batch,
)
from tracoco.training.distributed import Process
from tracoco.training.trainer import Validate


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a run is made of: settings with every value spelt out, and the prepared data."""

    config: Config
    plan: Plan
    splits: Splits
    """The project's, less the labels that the settings hide."""
    store: Store
    hidden_labels: int = 0
    start: StartingWeights | None = None
    """Weights of an earlier run or of a file to begin with, in place of drawn ones."""
    watermark: str = ""
    """What must be said of every result on this data, e.g. that scans were cropped by labels."""
    pseudo_labels: PseudoLabels | None = None
    """Of the unlabelled cases, for a method that learns from those of an earlier run."""
    dropped: tuple[str, ...] = ()
    """Settings of the preset's method that the chosen method does not share."""
    raised_from: BatchSizes | None = None
    """The plan's batch, where the method needs a larger one."""

    @classmethod
    def of(cls, project: Project, config: Config) -> "Experiment":
        """Read the project and check that it and the settings go together."""
        plan, store = project.load_plan(), Store(project.store_root)
        given = fold_splits(project, config.data.fold)
        splits = with_fewer_labels(given, config.data.labelled, project.splits_file)
        check_plan(plan, project.plan_file)
        store.check(splits, plan)
        unlabelled = len(splits.unlabelled) + len(partly_drawn(splits, store))
        scans = len(splits.labelled), unlabelled or len(splits.labelled)
        choice, dropped = resolved_choice(config.method), tuple(dropped_settings(config.method))
        planned = within_cases(plan.batch, *scans)
        sizes = raised_batch(planned, config.data, choice)
        config = resolved(config, plan.model_copy(update={"batch": sizes}))
        check_cases(config, splits, project.splits_file, unlabelled=unlabelled)
        check_needs(config, plan, choice)
        check_slices(config, plan)
        check_windows(run_crop(config, plan), config.inference)  # rather than after the training
        data = config.data
        if not method_row(config.method.name).trained_by_unlabelled:
            # A method that learns nothing from unlabelled crops need not read them.
            data = data.model_copy(update={"unlabelled_batch": 0})
        config = config.model_copy(update={"data": data, "method": choice})
        hidden = len(given.labelled) - len(splits.labelled) + len(given.hidden)
        mark = project.load_origin().watermark
        raised = planned if sizes != planned else None
        return cls(
            config,
            plan,
            splits,
            store,
            hidden,
            watermark=mark,
            dropped=dropped,
            raised_from=raised,
        )

    @property
    def crop(self) -> tuple[int, ...]:
        """Size of a crop in the store's axis order."""
        return run_crop(self.config, self.plan)

    @property
    def crops_shape(self) -> tuple[int, ...]:
        """Of a step's crops as a network sees them, [B, C, ...]."""
        return (
            sum(self.config.data.batch),
            self.plan.channels,
            *self.crop[-self.plan.dimensions :],
        )

    @property
    def unlabelled(self) -> tuple[str, ...]:
        """The cases that unlabelled crops come from, if the method takes any."""
        if not self.config.data.batch[1]:
            return ()
        reused = self.splits.labelled if self.config.data.reuse_labelled else self.partly_drawn
        return (*self.splits.unlabelled, *reused)

    @property
    def partly_drawn(self) -> tuple[str, ...]:
        """Labelled cases with voxels that nobody has drawn: these count as unlabelled."""
        return partly_drawn(self.splits, self.store)

    @property
    def epoch(self) -> int:
        """Labelled scans, or slices of them where networks see slices."""
        if self.plan.dimensions == 3:
            return len(self.splits.labelled)
        return sum(self.store.case(id_).shape[0] for id_ in self.splits.labelled)

    @property
    def choosing_cases(self) -> list[StoredCase]:
        """The cases that choose `best`; none where the method gives nothing to score."""
        if not method_row(self.config.method.name).segments:
            return []
        on_test = self.config.training.select_on == "test"
        ids = self.splits.test if on_test else self.splits.validation
        return [self.store.case(id_) for id_ in ids]

    @property
    def chosen_by_fold(self) -> bool:
        """Whether cases of the fold choose `best`; their scores of `last` must stay an estimate."""
        held_out = self.splits.held_out(self.config.data.fold)
        return any(case.id in held_out for case in self.choosing_cases)

    @property
    def class_voxels(self) -> tuple[int, ...]:
        """Voxels of each class in the labelled scans, background first."""
        counts = [self.store.case(case).class_voxels for case in self.splits.labelled]
        return tuple(np.sum([count for count in counts if count], axis=0).tolist())

    @property
    def labelled_fractions(self) -> dict[str, float]:
        """Fraction of each class in the labelled scans, background first."""
        total = np.asarray(self.class_voxels)
        fractions = (total / total.sum()).tolist()
        return dict(zip(self.plan.class_names, fractions, strict=True))

    def source(self, process: Process) -> BatchSource:
        """The batches of this process."""
        plane = (1, 2) if self.plan.dimensions == 2 else (0, 1)
        turns = self._square(*plane)
        pairs = method_row(self.config.method.name).pairs
        limits = self.plan.intensity_limits
        rule = CropRule(
            self.crop,
            plane,
            turns,
            self.config.data,
            mirror_axes=self.plan.mirror_axes,
            pairs=pairs,
            limits=limits,
        )
        shard = Shard(process.rank, process.world_size)
        cases = (self.splits.labelled, self.unlabelled)
        return BatchSource(self.store, *cases, rule, self.config.seed, shard, self.pseudo_labels)

    def _square(self, first: int, second: int) -> bool:
        """Whether voxels are as long along one axis as along another, so that crops may be turned.

        Where the plan leaves an axis as scanned, each scan that is learnt from must say so.
        """
        planned = self.plan.spacing_mm[first], self.plan.spacing_mm[second]
        if None not in planned:
            return _same_length(*planned)
        cases = map(self.store.case, (*self.splits.labelled, *self.unlabelled))
        return all(_same_length(case.spacing_mm[first], case.spacing_mm[second]) for case in cases)

    def method(self, process: Process) -> Method:
        """The method with its first weights."""
        batch = self.config.data.batch[0] * process.world_size
        epoch = max(1, self.epoch // batch)
        method = run_method(self.config, self.plan, epoch, self.class_voxels)
        name = self.config.method.name
        check_modules(name, method_row(name), method)
        return method

    def facts(self, process: Process) -> Facts:
        """What the run folder says of the data and of the batch over all processes."""
        return Facts(
            labelled_share=sum(list(self.labelled_fractions.values())[1:]),
            global_batch=sum(self.config.data.batch) * process.world_size,
            world_size=process.world_size,
            threads=torch.get_num_threads(),
            device=str(process.device),
            machine=machine_name(process.device),
            select_on=self.config.training.select_on,
            hidden_labels=self.hidden_labels,
            watermark=self.watermark,
            init_from=self.start,
            pseudo_labels=self._pseudo_label_facts(),
            splits=self.splits.hash(),
            store=self.store.hash(),
        )

    def _pseudo_label_facts(self) -> PseudoLabelFacts | None:
        if self.pseudo_labels is None:
            return None
        manifest = self.pseudo_labels.manifest()
        fractions = zip(self.plan.class_names, manifest.class_fractions, strict=True)
        return PseudoLabelFacts(
            folder=str(self.pseudo_labels.root.absolute()),
            hash=manifest.hash(),
            threshold=manifest.threshold,
            counted=manifest.counted,
            class_fractions=dict(fractions),
        )

    def identity(self, process: Process) -> Identity:
        """What must be the same for the run to be resumed."""
        return Identity(
            settings=recorded_settings(self.config),
            mirrored_axes=self.plan.mirror_axes if self.config.data.flips == "plan" else (),
            splits=self.splits.hash(),
            plan=self.plan.hash(),
            data=self.store.hash(),
            processes=process.world_size,
            starting_weights=self.start.identity if self.start else None,
            pseudo_labels=self.pseudo_labels.manifest().hash() if self.pseudo_labels else None,
        )

    def validation(
        self, process: Process, stop: StopRequest | None = None, show: Show | None = None
    ) -> Validate | None:
        """A function that scores a method on the cases that choose `best`, if there are any.

        With a request to stop it raises `Stopped` instead.
        """
        cases, config = self.choosing_cases, self.config
        if not cases:
            return None

        def validate(method: Method) -> float:
            device = process.device
            return mean_dice(method, cases, self.crop, config.inference, device, stop, show=show)

        return validate


def partly_drawn(splits: Splits, store: Store) -> tuple[str, ...]:
    """The labelled cases that have voxels which nobody has drawn."""
    return tuple(id_ for id_ in splits.labelled if store.case(id_).undrawn)


def _same_length(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and bool(np.isclose(a, b, rtol=0.01))
