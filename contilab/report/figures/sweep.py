"""Sweep curves: for each grid, the score on validation samples and on test samples at every point, the chosen one marked."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from contilab.metrics.contract import Absent
from contilab.report.benchmark import plain
from contilab.report.figures.brief import brief
from contilab.report.figures.svg import Drawing, draw, new_figure
from contilab.report.figures.theme import INK, colour
from contilab.report.selection import CRITERION, Choice, Point
from contilab.report.statistics.interval import t_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = (CRITERION, "acc")
COLUMNS = 3  # grids side by side
LETTERS = 42  # below each of them


def sweep(key: str, choices: Sequence[Choice]) -> Drawing | None:
    """Return the figure, or None if no grid has a value."""
    grids = [choice for choice in choices if choice.is_grid and any(point.variant.summary("acc").n for point in choice.points)]
    if not grids:
        return None
    lines = -(-len(grids) // COLUMNS)
    figure = new_figure(2.9 * lines)
    grid = figure.subplots(lines, COLUMNS, squeeze=False, sharey=True).ravel()
    for place, axes in enumerate(grid):
        if place < len(grids):
            _panel(axes, grids[place])
        else:
            axes.set_axis_off()
    grid[0].legend(loc="best")
    return draw(key, _caption(grids), _words(grids), figure)


def _caption(grids: Sequence[Choice]) -> str:
    chosen = [grid.chosen is not None for grid in grids]
    line = "The dotted line marks what was chosen on validation samples; test accuracy is shown, not used."
    parts = ["Mean accuracy at each point of the grid, with 95 % t intervals over seeds.", line if any(chosen) else ""]
    if not all(chosen):
        parts.append("Where no line stands, all variants are shown; none was selected.")
    return " ".join(filter(None, parts))


def _panel(axes: "Axes", choice: Choice) -> None:
    for index, name in enumerate(SHOWN):
        found = [(place, values) for place, point in enumerate(choice.points) if (values := _values(point, name))]
        places, means = [place for place, _ in found], [fmean(values) for _, values in found]
        look = {"color": colour(index), "marker": "os"[index], "linestyle": ("-", "--")[index]}
        axes.plot(places, means, label=name, linewidth=1.6, markersize=4.5, **look)  # type: ignore[arg-type]  # each is text
        for place, values in found:
            if not isinstance(interval := t_interval(values), Absent):
                axes.plot([place, place], interval, color=colour(index), linewidth=1, alpha=0.6)
    if choice.chosen:
        chosen = next(place for place, point in enumerate(choice.points) if point.variant is choice.chosen)
        axes.axvline(chosen, color=INK, linewidth=0.9, linestyle=":")
    room = max(9, LETTERS // len(choice.points))
    axes.set_xticks(range(len(choice.points)), [brief(_label(point), room) for point in choice.points])
    axes.set_xlim(-0.4, len(choice.points) - 0.6)
    axes.set_title(brief(choice.name), loc="left")
    axes.set_xlabel(", ".join(key.rpartition(".")[2] for key in choice.points[0].settings))
    axes.grid(visible=True, axis="y")
    axes.set_axisbelow(True)


def _values(point: Point, name: str) -> list[float]:
    return [value for value in point.variant.values(name) if not isinstance(value, Absent)]


def _label(point: Point) -> str:
    return ", ".join(plain(value) for value in point.settings.values())


def _words(grids: Sequence[Choice]) -> str:
    parts = []
    for choice in grids:
        name = CRITERION if choice.chosen else "acc"
        means = ((_label(point), point.variant.summary(name).mean) for point in choice.points)
        scores = "; ".join(f"{label}: {'none' if mean is None else f'{mean:.3f}'}" for label, mean in means)
        chosen = f"chosen {choice.chosen.label}" if choice.chosen else "none selected"
        parts.append(f"{choice.name} by {name}, {scores}, {chosen}")
    return f"Line charts of the accuracy over each grid. {'. '.join(parts)}."
