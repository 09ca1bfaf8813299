"""The whole check: every case opened, the set judged, the needs added up."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from tracoco.project.check.case_check import CaseCheck, CheckTask, check_case, lost_check
from tracoco.project.check.data_set import set_rows
from tracoco.project.check.material import Material
from tracoco.project.check.needs import Needs, disk_rows, needs_of
from tracoco.project.check.row import Row
from tracoco.project.sources import source_bytes
from tracoco.project.workers import in_parallel, suitable_workers


@dataclass(frozen=True, slots=True)
class Checked:
    """All problems, errors first, and what it takes to prepare the cases."""

    rows: tuple[Row, ...]
    needs: Needs

    @property
    def exit_code(self) -> int:
        """0 if there is nothing to say, 1 if there are warnings only, 2 if there are errors."""
        severities = {row.severity for row in self.rows}
        return 2 if "error" in severities else 1 if severities else 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"rows": [asdict(row) for row in self.rows], "needs": asdict(self.needs)}


def check(
    material: Material,
    on_case: Callable[[str], None] | None = None,
    workers: int | None = None,
) -> Checked:
    """Open every case and judge them all.

    Args:
        material: from `gather`; labels of its unlabelled cases stay closed.
        on_case: called with the id of each case once it has been looked at.
        workers: processes, each with one case in memory; None for as many as suit the machine.
    """
    tasks = [CheckTask(case, material.parts[case.id], material.plan) for case in material.cases]
    if workers is None:
        workers = suitable_workers(sum(map(source_bytes, material.cases)))
    done: dict[str, CaseCheck] = {}
    with closing(in_parallel(check_case, tasks, workers, died=lost_check)) as results:
        for task, result in results:
            done[task.case.id] = result
            if on_case:
                on_case(task.case.id)
    checks = [done[case.id] for case in material.cases]
    needs = needs_of(checks, material.plan, material.root)
    rows = [
        *material.rows,
        *disk_rows(needs, material.root),
        *set_rows(checks, material.plan),
        *(row for one in checks for row in one.rows),
    ]
    rows.sort(key=lambda row: (row.severity != "error", row.case))
    return Checked(tuple(rows), needs)
