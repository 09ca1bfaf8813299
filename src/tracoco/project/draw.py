"""Drawing a split: which labelled cases are kept away from the training, and whose labels show."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tracoco.errors import UserError
from tracoco.project.cases import Case
from tracoco.project.digest import digest
from tracoco.project.groups import members
from tracoco.project.splits import Splits


def make_splits(
    cases: Sequence[Case], *, validation: int, test: int, seed: int, given: Splits | None = None
) -> Splits:
    """Draw validation and test cases from the labelled ones, whole groups at a time.

    The order of the draw is that of a hash of seed and id: the same on every machine, for ever.
    Groups with an unlabelled scan stay in the training, since that scan could go nowhere else.

    Args:
        cases: all cases.
        validation: how many cases at least; groups may bring more.
        test: likewise.
        seed: changes the draw.
        given: the parts that the data names itself; its labelled cases are drawn from.
    """
    given = given or _undrawn(cases)
    _check_counts(given, {"validation": validation, "test": test})
    labelled = set(given.labelled)
    whole = {name: ids for name, ids in members(cases).items() if labelled.issuperset(ids)}
    order = iter(sorted(whole, key=lambda name: digest([seed, name])))
    to_validate, to_test = (_take(order, whole, count) for count in (validation, test))
    left = tuple(id_ for id_ in given.labelled if id_ not in {*to_validate, *to_test})
    if not left or len(to_validate) < validation or len(to_test) < test:
        whole_groups = " (a group is kept whole)" if any(case.group for case in cases) else ""
        raise UserError(
            f"{validation} validation and {test} test cases leave none of the {len(labelled)} "
            f"labelled cases to learn from{whole_groups}; ask for fewer, or label more"
        )
    return replace(
        given,
        labelled=left,
        validation=given.validation or tuple(sorted(to_validate)),
        test=given.test or tuple(sorted(to_test)),
    )


def hide_labels(splits: Splits, keep: int | None) -> Splits:
    """Keep the labels of the first `keep` labelled cases; the others become unlabelled."""
    if keep is None:
        return splits
    if not 1 <= keep <= len(splits.labelled):
        raise UserError(
            f"--hide-labels {keep} asks for {keep} of the {len(splits.labelled)} labelled "
            "training cases to keep their labels; ask for at least 1 and no more than there are"
        )
    hidden = splits.labelled[keep:]
    return replace(
        splits,
        labelled=splits.labelled[:keep],
        unlabelled=(*splits.unlabelled, *hidden),
        hidden=(*splits.hidden, *hidden),
    )


def _undrawn(cases: Sequence[Case]) -> Splits:
    labelled = sorted(case.id for case in cases if case.label)
    if not labelled:
        raise UserError("no case has a label, so there is nothing to learn from; label some")
    unlabelled = sorted(case.id for case in cases if not case.label)
    return Splits(tuple(labelled), tuple(unlabelled), (), ())


def _check_counts(given: Splits, counts: Mapping[str, int]) -> None:
    for part, count in counts.items():
        if count < 0:
            raise UserError(f"{count} {part} cases: a count cannot be negative")
        named = len(given.parts[part])
        if count and named:
            raise UserError(f"the data names its {named} {part} cases; leave out --{part}")


def _take(order: Iterator[str], whole: Mapping[str, list[str]], count: int) -> list[str]:
    """The next groups, until there are so many cases or no groups any more."""
    taken: list[str] = []
    while len(taken) < count and (name := next(order, None)):
        taken += whole[name]
    return taken
