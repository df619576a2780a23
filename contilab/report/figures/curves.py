"""Accuracy over tasks: a thin line per seed, a thick one for their mean with its interval; joint training as a level."""

from collections.abc import Iterable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from contilab.metrics.contract import Absent, Value
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.figures.brief import brief
from contilab.report.figures.strands import strands
from contilab.report.figures.svg import Drawing, draw, new_figure
from contilab.report.figures.theme import colour, marker, style
from contilab.report.statistics.interval import t_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def curves(key: str, benchmark: Benchmark) -> Drawing | None:
    """Return the figure, or None if no variant has a result."""
    drawn = [(index, variant, found) for index, variant in enumerate(benchmark.variants) if (found := variant.curves())]
    if not drawn:
        return None
    figure = new_figure(max(3.8, 0.9 + 0.2 * len(drawn)))
    axes = figure.add_subplot()
    for index, variant, found in drawn:
        _lines(axes, variant.tasks, brief(variant.label), index, list(found.values()))
    axes.set_xticks(range(1, benchmark.tasks + 1))
    axes.set_xlabel("tasks learned")
    axes.set_ylabel("acc_seen_macro")
    axes.grid(visible=True, axis="y")
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0)
    caption = (
        "Mean accuracy over the tasks learned so far. Thin lines: one seed; thick lines: their mean, with 95 % t interval."
    )
    return draw(key, caption, _words([(variant, found) for _, variant, found in drawn]), figure)


def mean_curve(series: list[list[Value]]) -> list[float | None]:
    """Return, per stage, the mean over the seeds that have a value there.

    >>> mean_curve([[0.5, 0.25], [1.0, Absent("the run diverged in task 1 at step 3")]])
    [0.75, 0.25]
    """
    columns = [[value for value in stage if not isinstance(value, Absent)] for stage in zip(*series, strict=True)]
    return [fmean(column) if column else None for column in columns]


def _lines(axes: "Axes", tasks: int, label: str, index: int, series: list[list[Value]]) -> None:
    look: dict[str, Any] = {"color": colour(index), "solid_capstyle": "round"}
    is_joint = len(series[0]) < tasks
    places = [tasks] if is_joint else list(range(1, len(series[0]) + 1))
    heights = [_gaps([None if isinstance(value, Absent) else value for value in values]) for values in series]
    if is_joint:
        axes.plot(places * len(series), [height for [height] in heights], ".", alpha=0.4, color=colour(index))
    else:
        strands(axes, [(places, each) for each in heights], linewidth=0.8, alpha=0.4, color=colour(index), capstyle="round")
    mean = mean_curve(series)
    if is_joint and mean[0] is not None:
        axes.plot([1, tasks], [mean[0]] * 2, linestyle=(0, (1, 1.6)), linewidth=1.8, label=f"{label} (one stage)", **look)
    elif not is_joint:
        line: dict[str, Any] = {"linewidth": 2, "linestyle": style(index), "marker": marker(index), "markersize": 4.5}
        axes.plot(places, _gaps(mean), label=label, **line, **look)
        low, high = zip(*map(_interval, zip(*series, strict=True)), strict=True)
        axes.fill_between(places, low, high, color=colour(index), alpha=0.12, linewidth=0)


def _interval(stage: Iterable[Value]) -> tuple[float, float]:
    found = t_interval([value for value in stage if not isinstance(value, Absent)])
    return (float("nan"), float("nan")) if isinstance(found, Absent) else (max(found.low, 0.0), min(found.high, 1.0))


def _gaps(values: list[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]  # a gap in the line, never a zero


def _words(drawn: list[tuple[Variant, dict[int, list[Value]]]]) -> str:
    parts = []
    for variant, found in drawn:
        mean = mean_curve(list(found.values()))
        ends = [f"{value:.2f}" if value is not None else "no value" for value in (mean[0], mean[-1])]
        parts.append(f"{variant.label} {ends[0]}" if len(mean) == 1 else f"{variant.label} from {ends[0]} to {ends[1]}")
    return f"Line chart of the mean accuracy over the tasks learned, first to last: {'; '.join(parts)}."
