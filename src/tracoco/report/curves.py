"""Charts of a run's log: every loss term, validation, learning rate."""

from collections.abc import Callable, Sequence

from tracoco.report.chart import Chart, Line
from tracoco.report.series import lines, pick
from tracoco.report.wording import number, short
from tracoco.training.run_folder import CHOSEN_ON_TEST
from tracoco.training.run_log import Record


def loss_charts(log: Sequence[Record]) -> list[Chart]:
    """The loss, and each of its terms where there are several."""
    names = list(dict.fromkeys(name for record in log for name in record["terms"]))
    charts = [_loss_chart(log, name, inner("terms", name)) for name in names]
    if len(names) > 1:
        charts.insert(0, _loss_chart(log, "loss", lambda record: record["loss"]))
    return [chart for chart in charts if chart]


def validation_chart(log: Sequence[Record]) -> Chart | None:
    """Dice in percent of the cases that choose the best checkpoint, if there are any."""
    chosen_on = "test" if any("test" in record for record in log) else "validation"
    dice = pick(log, inner(chosen_on, "dice")) * 100
    if not len(dice):
        return None
    best = int(dice.values.argmax())
    about = f"mean of the {chosen_on} cases; best {number(dice.values[best])} % at step "
    about += f"{dice.steps[best]:,.0f}"
    about += f"; {CHOSEN_ON_TEST}" if chosen_on == "test" else ""
    thin = dice.thinned
    title = f"{chosen_on} Dice"
    line = Line(title, thin.steps, thin.values, "points", colour=3)
    return Chart(title, [line], f"{number(dice.values[-1])} %", about)


def rate_chart(log: Sequence[Record]) -> Chart | None:
    """The learning rate."""
    rate = pick(log, lambda record: record["rate"])
    if not len(rate):
        return None
    thin = rate.thinned
    line = Line("learning rate", thin.steps, thin.values, colour=5)
    return Chart("learning rate", [line], short(rate.values[-1]))


def inner(group: str, name: str) -> Callable[[Record], float | None]:
    """Looks up `record[group][name]`, where there is one."""

    def look_up(record: Record) -> float | None:
        value: float | None = record.get(group, {}).get(name)
        return value

    return look_up


def _loss_chart(
    log: Sequence[Record], name: str, figure: Callable[[Record], float | None]
) -> Chart | None:
    values = pick(log, figure)
    if not len(values):
        return None
    return Chart(name, lines(values, name), short(values.smoothed.values[-1]))
