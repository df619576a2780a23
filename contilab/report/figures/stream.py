"""Accuracy on the first task at every evaluation of the stream: what each switch of tasks costs for a while (De Lange 2023)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from contilab.metrics.stream import Stream
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.figures.brief import brief
from contilab.report.figures.strands import strands
from contilab.report.figures.svg import Drawing, draw, new_figure
from contilab.report.figures.theme import LINE, colour, style
from contilab.report.schedule import differing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray[Any, Any]


def stream(key: str, benchmark: Benchmark) -> Drawing | None:
    """Return the figure, or None if no variant has a stream of two tasks."""
    drawn = [(index, variant, found) for index, variant in enumerate(benchmark.variants) if (found := _streams(variant))]
    if not drawn:
        return None
    figure = new_figure(max(3.4, 0.9 + 0.2 * len(drawn)))
    axes = figure.add_subplot()
    for switch in range(1, benchmark.tasks):
        axes.axvline(switch, color=LINE, linewidth=0.8, zorder=0)
    for index, variant, found in drawn:
        _lines(axes, brief(variant.label), index, found)
    axes.set_xticks(range(benchmark.tasks + 1))
    axes.set_xlabel("tasks learned; evaluations evenly apart within each")
    axes.set_ylabel("accuracy on the first task")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0)
    caption = (
        "Accuracy on the first task while all tasks are learned. Evaluations are dense after each switch (vertical lines), so "
        "the beginning of a task takes more room than its share of steps. Thin lines: one seed; thick lines: their mean."
    )
    apart = "; ".join(differing(variant for _, variant, _ in drawn))
    note = f" Schedules differ, so never compare how deep the lines fall: {apart}." if apart else ""
    return draw(key, caption + note, _words([(variant, found) for _, variant, found in drawn]), figure)


def places(found: Stream) -> Array:
    """Return where each evaluation stands: task t reaches from t to t + 1, its evaluations evenly apart.

    >>> from contilab.metrics.stability import EXAMPLE
    >>> places(EXAMPLE).tolist()
    [0.0, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0]
    """
    parts = [task + np.linspace(0, 1, count) for task, count in zip(*np.unique(found.task, return_counts=True), strict=True)]
    placed: Array = np.concatenate(parts)
    return placed


def mean_line(streams: Sequence[Stream]) -> Array | None:
    """Return the mean over *streams* of the accuracy on the first task [K]; None if they were evaluated at different steps."""
    first = streams[0]
    if any(not (np.array_equal(one.task, first.task) and np.array_equal(one.step, first.step)) for one in streams):
        return None
    mean: Array = np.mean([one.accuracy[:, 0] for one in streams], axis=0)
    return mean


def _streams(variant: Variant) -> list[Stream]:
    """Return the streams of the seeds that were not lost, each without the second look at a switch under the old mask."""
    found = [run.stream for run in variant.runs if run.stream is not None and run.state == "finished"]
    return [_without_old_masks(one) for one in found if one.tasks > 1 and not np.isnan(one.accuracy[one.task > 0, 0]).all()]


def _without_old_masks(found: Stream) -> Stream:
    return Stream(*(values[~found.is_old_mask] for values in found))


def _lines(axes: "Axes", label: str, index: int, found: Sequence[Stream]) -> None:
    look: dict[str, Any] = {"color": colour(index)}
    strands(axes, [(places(one), one.accuracy[:, 0]) for one in found], linewidth=0.6, alpha=0.35, **look)
    mean = mean_line(found)
    if mean is not None:
        axes.plot(places(found[0]), mean, linewidth=1.6, linestyle=style(index), label=label, **look)
    else:
        axes.plot([], [], linewidth=1.6, linestyle=style(index), label=f"{label} (no mean: steps differ)", **look)


def _words(drawn: Sequence[tuple[Variant, Sequence[Stream]]]) -> str:
    parts = []
    for variant, found in drawn:
        later = [one.accuracy[one.task > 0, 0] for one in found]
        low, end = (float(np.mean([pick(values) for values in later])) for pick in (np.nanmin, lambda values: values[-1]))
        parts.append(f"{variant.label} falls to {low:.2f} and ends at {end:.2f}")
    return f"Line chart of the accuracy on the first task during training, mean over seeds: {'; '.join(parts)}."
