"""Which cases teach with a label, which without, which choose, which are kept for the end."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from tracoco.config import Settings, checked
from tracoco.errors import UserError, raise_all
from tracoco.files import read_json, write_json
from tracoco.project.cases import Case
from tracoco.project.digest import digest


@dataclass(frozen=True, slots=True)
class Splits:
    """Ids of the cases of each part; no case is in two of them."""

    labelled: tuple[str, ...]
    unlabelled: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse a split that leaks, or that has nothing to learn from."""
        raise_all(_problems(asdict(self)))

    @property
    def annotated(self) -> frozenset[str]:
        """The cases whose label may be opened."""
        return frozenset((*self.labelled, *self.validation, *self.test))

    @property
    def ids(self) -> tuple[str, ...]:
        """All cases, sorted."""
        return tuple(sorted((*self.annotated, *self.unlabelled)))

    def hash(self) -> str:
        """Changes with the parts and with their order, since both decide the batches."""
        return digest(asdict(self))


def make_splits(cases: Sequence[Case], *, validation: int, test: int, seed: int) -> Splits:
    """Draw validation and test cases from the labelled ones.

    The order of the draw is that of a hash of seed and id: the same on every machine, for ever.
    """
    if min(validation, test) < 0:
        raise UserError(f"{validation} validation and {test} test cases: neither can be negative")
    labelled = [case.id for case in cases if case.label]
    drawn = sorted(labelled, key=lambda id_: digest([seed, id_]))
    if validation + test >= len(drawn):
        raise UserError(
            f"{validation} validation and {test} test cases leave none of the {len(drawn)} "
            "labelled cases to learn from; ask for fewer, or label more"
        )
    return Splits(
        labelled=tuple(sorted(drawn[validation + test :])),
        unlabelled=tuple(sorted(case.id for case in cases if not case.label)),
        validation=tuple(sorted(drawn[:validation])),
        test=tuple(sorted(drawn[validation : validation + test])),
    )


def check_splits(splits: Splits, cases: Sequence[Case], source: str) -> None:
    """Refuse a split that names unknown cases, or asks for labels that do not exist."""
    known = {case.id: case for case in cases}
    problems = [
        f"{source} lists case '{id_}', but cases.json has no such case; correct either"
        for id_ in splits.ids
        if id_ not in known
    ]
    problems += [
        f"{source} wants the label of case '{id_}', which has none; move it to 'unlabelled'"
        for id_ in sorted(splits.annotated & known.keys())
        if known[id_].label is None
    ]
    raise_all(problems)


def write_splits(path: Path, splits: Splits) -> None:
    """Write splits.json, which a person may edit."""
    write_json(path, asdict(splits))


def read_splits(path: Path) -> Splits:
    """Read splits.json."""
    return Splits(**checked(_File, read_json(path), str(path)).model_dump())


class _File(Settings):
    labelled: tuple[str, ...]
    unlabelled: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()


def _problems(parts: dict[str, tuple[str, ...]]) -> list[str]:
    problems = [] if parts["labelled"] else ["a split needs at least one labelled case"]
    for part, ids in parts.items():
        twice = sorted({id_ for id_ in ids if ids.count(id_) > 1})
        if twice:
            problems.append(f"{part} cases are listed twice: {_quoted(twice)}. Name each once")
    for (one, first), (other, second) in combinations(parts.items(), 2):
        shared = sorted(set(first) & set(second))
        if shared:
            problems.append(
                f"{one} and {other} cases overlap: {_quoted(shared)}. A split must keep them apart"
            )
    return problems


def _quoted(ids: Sequence[str]) -> str:
    return ", ".join(f"'{id_}'" for id_ in ids)
