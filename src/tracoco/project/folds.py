"""Folds for cross-validation: how labelled cases are dealt, and what a run of one fold sees."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from tracoco.errors import UserError
from tracoco.files import digest
from tracoco.project.cases import Case
from tracoco.project.fingerprint import Fingerprint
from tracoco.project.folder import Project
from tracoco.project.splits import Splits, members
from tracoco.text import count

Unit = tuple[str, ...]
"""Cases that stay together: those of one group, and those with the same image."""


@dataclass(frozen=True, slots=True)
class Folding:
    """How a person wants the labelled cases to be dealt."""

    folds: int
    stratify: bool = False
    """Whether every fold gets small and large structures, by their volume in the labels."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no cross-validation."""
        if self.folds < 2:
            raise UserError(f"--folds {self.folds} leaves nothing to learn from; ask for 2 or more")


def chosen_folding(folds: int | None, *, stratify: bool, seed: int) -> Folding | None:
    """What was asked for, if anything was."""
    if folds is None and stratify:
        raise UserError("--stratify says how folds are dealt; add --folds N, or leave it out")
    return None if folds is None else Folding(folds, stratify, seed)


def check_folding(folding: Folding, splits: Splits, cases: Sequence[Case]) -> None:
    """Refuse folds that cannot be dealt, before any scan is read."""
    if splits.folds:
        raise UserError(
            f"the project has {len(splits.folds)} folds already, which runs may depend on; leave "
            "out --folds, or remove 'folds' from splits.json to deal them anew"
        )
    _check_enough(folding, _units(splits.labelled, cases))


def with_folds(
    splits: Splits, cases: Sequence[Case], fingerprint: Fingerprint, folding: Folding | None
) -> Splits:
    """The split with its labelled cases dealt; with folds already, with the new cases dealt.

    Groups stay whole, and so do copies of one image.

    Args:
        splits: its validation and test cases are in no fold.
        cases: all cases.
        fingerprint: of these cases; it knows copies, and the volumes of structures.
        folding: what was asked for now.
    """
    units = _units(splits.labelled, cases, fingerprint.copies)
    if folding:
        volumes = {case.id: case.structures_ml or 0.0 for case in fingerprint.cases}
        return replace(splits, folds=deal(units, folding, volumes))
    return replace(splits, folds=_extended(splits.folds, units)) if splits.folds else splits


def deal(units: Sequence[Unit], folding: Folding, volumes: Mapping[str, float]) -> tuple[Unit, ...]:
    """Deal units in an order of chance that is the same on every machine, for ever.

    The largest units come first, and each goes to the fold with the fewest cases. With `stratify`,
    units are first sorted by volume, and every fold gets one of each stretch of neighbours.

    Args:
        units: what stays together.
        folding: how many folds, and the seed of the chance.
        volumes: of the structures of each case.
    """
    _check_enough(folding, units)
    chance = {unit: digest([folding.seed, "fold", *unit]) for unit in units}
    order = sorted(units, key=lambda unit: (-len(unit), chance[unit]))
    stretches = [order]
    if folding.stratify:
        by_volume = sorted(order, key=lambda unit: -fmean(volumes[id_] for id_ in unit))
        starts = range(0, len(order), folding.folds)
        known = [by_volume[start : start + folding.folds] for start in starts]
        stretches = [sorted(each, key=order.index) for each in known]
    folds: list[list[str]] = [[] for _ in range(folding.folds)]
    for stretch in stretches:
        free = list(range(folding.folds))
        for unit in stretch:
            least = min(free, key=lambda fold: (len(folds[fold]), fold))
            folds[least] += unit
            if folding.stratify:
                free.remove(least)
    return tuple(tuple(sorted(fold)) for fold in folds)


def fold_note(splits: Splits, folding: Folding) -> str:
    """How the cases were dealt, in words."""
    sizes = ", ".join(str(len(fold)) for fold in splits.folds)
    balanced = ", balanced by the volume of their structures" if folding.stratify else ""
    return f"{count(len(splits.folds), 'fold')} of {sizes} cases{balanced}"


def fold_splits(project: Project, fold: int | None) -> Splits:
    """The split that a run sees: without the labels of its fold, if it has one.

    The cases of the fold are its validation cases, unless the project has some: those then choose
    `best`, and the fold chooses nothing. No other scan of the same patients is learnt from, with
    or without a label.
    """
    splits = project.load_splits()
    if fold is None:
        return splits
    _check_fold(splits, fold, project)
    held = splits.held_out(fold)
    theirs = _with_groups_of(held, project.load_cases())
    return replace(
        splits,
        labelled=_without(splits.labelled, theirs),
        unlabelled=_without(splits.unlabelled, theirs),
        hidden=_without(splits.hidden, theirs),
        validation=splits.validation or held,
    )


def _check_fold(splits: Splits, fold: int, project: Project) -> None:
    if not splits.folds:
        raise UserError(
            f"{project.splits_file} has no folds; deal them with `tracoco init DATA --out "
            f"{project.root} --update --folds 5`, or make a project with --folds"
        )
    if not 1 <= fold <= len(splits.folds):
        raise UserError(
            f"fold {fold} does not exist: {project.splits_file} has folds 1 to {len(splits.folds)}"
        )


def _with_groups_of(held: Collection[str], cases: Sequence[Case]) -> set[str]:
    """Cases, and all others of their groups."""
    groups = members(cases).values()
    return {id_ for ids in groups if not set(held).isdisjoint(ids) for id_ in ids}


def _without(ids: Unit, left_out: Collection[str]) -> Unit:
    return tuple(id_ for id_ in ids if id_ not in left_out)


def _check_enough(folding: Folding, units: Sequence[Unit]) -> None:
    if folding.folds > len(units):
        cases = sum(map(len, units))
        raise UserError(
            f"--folds {folding.folds} is more than the {count(len(units), 'group')} of the "
            f"{count(cases, 'labelled case')} (scans of one patient stay together); ask for "
            "fewer folds, or label more scans"
        )


def _units(
    labelled: Collection[str], cases: Sequence[Case], copies: Iterable[Sequence[str]] = ()
) -> list[Unit]:
    """The labelled cases, those together that no fold may part."""
    units = [{id_ for id_ in ids if id_ in labelled} for ids in members(cases).values()]
    for alike in copies:
        joined = [unit for unit in units if not unit.isdisjoint(alike)]
        units = [unit for unit in units if unit.isdisjoint(alike)] + [set().union(*joined)]
    return sorted(tuple(sorted(unit)) for unit in units if unit)


def _extended(folds: Sequence[Unit], units: Sequence[Unit]) -> tuple[Unit, ...]:
    """The folds with new cases: in the fold of their patient, or else in the smallest one."""
    known = {id_ for fold in folds for id_ in fold}
    grown = [list(fold) for fold in folds]
    for unit in units:
        fold = next((fold for fold in grown if not set(unit).isdisjoint(fold)), None)
        (fold or min(grown, key=len)).extend(id_ for id_ in unit if id_ not in known)
    return tuple(map(tuple, grown))
