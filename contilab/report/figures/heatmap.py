"""Accuracy matrices: one map per variant, mean over seeds, every value printed, what is absent hatched.

All maps of a benchmark lie in one pair of axes, in units of one cell, and are rendered without a layout pass: with axes of
their own, fifty maps took three quarters of the time of a whole report (measured).
"""

from typing import TYPE_CHECKING, NamedTuple

from contilab.metrics.contract import Absent, Value
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.figures.brief import brief
from contilab.report.figures.svg import WIDTH, Drawing, draw, new_figure
from contilab.report.figures.theme import INK, LINE, SEQUENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 5  # maps side by side
DARK, LIGHT = "#0e1217", "#ffffff"  # values on light and on dark cells, whatever the page
LIGHT_FROM = 0.75  # the accuracy at which both have the same contrast to their cell, 4.3
PRINTED_TASKS = 12  # beyond that many tasks the values no longer fit into their cells
LEFT, ABOVE, BELOW = 2.2, 1.3, 2.4  # cells around a map: names of its rows, its title, names of its columns
START = 1.25  # the row of the untrained model, and the gap below it

Matrix = list[list[Value]]


class Cells(NamedTuple):
    """The cells of all maps: places and values of those that are measured, places of those that are hatched."""

    measured: list[tuple[float, float, float]]
    absent: list[tuple[float, float]]


def heatmaps(key: str, benchmark: Benchmark) -> Drawing | None:
    """Return the figure, or None if no variant has a result."""
    maps = [(variant, matrix) for variant in benchmark.variants if (matrix := variant.mean_matrix())]
    if not maps:
        return None
    lines = [maps[first : first + COLUMNS] for first in range(0, len(maps), COLUMNS)]
    heights = [ABOVE + START + max(len(matrix) for _, matrix in line) + BELOW for line in lines]
    pitch = LEFT + max(len(matrix[0]) for _, matrix in maps) + 0.2
    inch = WIDTH / (COLUMNS * pitch)  # of one cell
    figure = new_figure(sum(heights) * inch)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, COLUMNS * pitch)
    axes.set_ylim(sum(heights), 0)
    cells = Cells([], [])
    for number, line in enumerate(lines):
        for place, (variant, matrix) in enumerate(line):
            _map(axes, cells, variant, matrix, (place * pitch + LEFT, sum(heights[:number]) + ABOVE))
    _paint(axes, cells, min(8.5, 30 * inch) if pitch <= LEFT + PRINTED_TASKS + 0.2 else 0.0)
    return draw(key, _caption(maps), _words(maps), figure)


def _map(axes: "Axes", cells: Cells, variant: Variant, matrix: Matrix, corner: tuple[float, float]) -> None:
    """Name a map whose upper left cell is at *corner*, and add its cells."""
    left, top = corner
    tasks = len(matrix[0])
    names = [str(stage + 1) for stage in range(len(matrix))] if len(matrix) == tasks else ["all"]
    for line, (name, row) in enumerate(zip(["start", *names], [variant.mean_baseline(), *matrix], strict=True)):
        y = top + line + (START - 1 if line else 0)
        axes.text(left - 0.25, y + 0.53, name, ha="right", va="center", color=INK, fontsize=8.5)
        for on, value in enumerate(row):
            if isinstance(value, Absent):
                cells.absent.append((left + on, y))
            else:
                cells.measured.append((left + on, y, value))
    bottom = top + START + len(matrix)
    for on in range(tasks):
        axes.text(left + on + 0.5, bottom + 0.55, str(on + 1), ha="center", va="center", color=INK, fontsize=8.5)
    axes.text(left + tasks / 2, bottom + 1.4, "test task", ha="center", va="center", color=INK)
    if len(matrix) > 2 and left < 2 * LEFT:  # once per line of maps
        axes.text(left - 1.75, top + START + len(matrix) / 2, "after task", rotation=90, ha="center", va="center", color=INK)
    room = 72 * WIDTH / COLUMNS  # points; bold letters are 0.68 of their size wide on average
    title = brief(variant.label)
    size = min(9.5, room / (0.68 * len(title)))
    axes.text(left - LEFT + 0.5, top - 0.55, title, va="center", color=INK, fontweight="bold", fontsize=size)


def _paint(axes: "Axes", cells: Cells, size: float) -> None:
    """Draw all cells at once, and print their values; *size*: of the type in points, 0 where there is no room."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    shade = LinearSegmentedColormap.from_list("accuracy", SEQUENCE)
    boxes = [Rectangle((x + 0.02, y + 0.02), 0.96, 0.96) for x, y, _ in cells.measured]
    axes.add_collection(PatchCollection(boxes, facecolors=[shade(value) for *_, value in cells.measured], linewidths=0))
    gaps = [Rectangle((x + 0.04, y + 0.04), 0.92, 0.92) for x, y in cells.absent]
    axes.add_collection(PatchCollection(gaps, facecolors="none", edgecolors=LINE, hatch="///", linewidths=0))
    if not size:
        return
    for x, y, value in cells.measured:
        text = "1" if value > 0.995 else f"{value:.2f}"[1:]
        ink = LIGHT if value > LIGHT_FROM else DARK
        axes.text(x + 0.5, y + 0.53, text, ha="center", va="center", color=ink, fontsize=size)


def _caption(maps: list[tuple[Variant, Matrix]]) -> str:
    reasons = {value.reason for _, matrix in maps for row in matrix for value in row if isinstance(value, Absent)}
    hatched = f" Hatched: {'; '.join(sorted(reasons))}." if reasons else ""
    first = (
        "Accuracy on each task (columns) after each stage of training (rows), mean over seeds. "
        "Start is the untrained model, on each task under the mask of that task."
    )
    return first + hatched


def _words(maps: list[tuple[Variant, Matrix]]) -> str:
    last = (f"{variant.label}: {', '.join(_short(value) for value in matrix[-1])}" for variant, matrix in maps)
    return f"Heat maps of the accuracy matrices. Last row, on each task after the last stage: {'; '.join(last)}."


def _short(value: Value) -> str:
    return "none" if isinstance(value, Absent) else f"{value:.2f}"
