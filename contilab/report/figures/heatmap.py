"""Accuracy matrices: one map per variant, mean over seeds, every value printed, what is absent hatched."""

from typing import TYPE_CHECKING

from contilab.metrics.contract import Absent, Value
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.figures.svg import Drawing, draw, new_figure
from contilab.report.figures.theme import LINE, SEQUENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 5  # maps side by side
DARK, LIGHT = "#0e1217", "#ffffff"  # values on light and on dark cells, whatever the page
PRINTED_TASKS = 12  # beyond that many tasks the values no longer fit into their cells


def heatmaps(key: str, benchmark: Benchmark) -> Drawing | None:
    """Return the figure, or None if no variant has a result."""
    maps = [(variant, matrix) for variant in benchmark.variants if (matrix := variant.mean_matrix())]
    if not maps:
        return None
    lines = -(-len(maps) // COLUMNS)
    figure = new_figure(2.75 * lines)
    figure.set_layout_engine("constrained", h_pad=0.12, wspace=0.04)
    grid = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    for place, axes in enumerate(grid):
        if place < len(maps):
            _map(axes, *maps[place], is_first=place % COLUMNS == 0)
        else:
            axes.set_axis_off()
    return draw(key, _caption(maps), _words(maps), figure)


def _map(axes: "Axes", variant: Variant, matrix: list[list[Value]], *, is_first: bool) -> None:
    tasks = len(matrix[0])
    names = ["start", *(str(stage + 1) for stage in range(len(matrix)))] if len(matrix) == tasks else ["start", "all"]
    for line, row in enumerate([variant.mean_baseline(), *matrix]):
        for on, value in enumerate(row):
            _cell(axes, on, line + (0.25 if line else 0), value, tasks)
    axes.set_xlim(0, tasks)
    axes.set_ylim(len(matrix) + 1.25, 0)
    axes.set_aspect("equal", anchor="N")
    axes.set_xticks([on + 0.5 for on in range(tasks)], [str(on + 1) for on in range(tasks)])
    axes.set_yticks([0.5, *(line + 1.75 for line in range(len(matrix)))], names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(variant.label)
    axes.set_xlabel("test task")
    if is_first:
        axes.set_ylabel("after task")


def _cell(axes: "Axes", x: float, y: float, value: Value, tasks: int) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.patches import Rectangle

    if isinstance(value, Absent):
        axes.add_patch(Rectangle((x + 0.04, y + 0.04), 0.92, 0.92, facecolor="none", edgecolor=LINE, hatch="///", linewidth=0))
        return
    shade = LinearSegmentedColormap.from_list("accuracy", SEQUENCE)(value)
    axes.add_patch(Rectangle((x + 0.02, y + 0.02), 0.96, 0.96, facecolor=shade, linewidth=0))
    if tasks <= PRINTED_TASKS:
        ink, size = (LIGHT if value > 0.55 else DARK), 8.5 if tasks <= 5 else 45 / tasks
        text = "1" if value > 0.995 else f"{value:.2f}"[1:]
        axes.text(x + 0.5, y + 0.53, text, ha="center", va="center", color=ink, fontsize=size)


def _caption(maps: list[tuple[Variant, list[list[Value]]]]) -> str:
    reasons = {value.reason for _, matrix in maps for row in matrix for value in row if isinstance(value, Absent)}
    hatched = f" Hatched: {'; '.join(sorted(reasons))}." if reasons else ""
    first = (
        "Accuracy on each task (columns) after each stage of training (rows), mean over seeds. "
        "Start is the untrained model, on each task under the mask of that task."
    )
    return first + hatched


def _words(maps: list[tuple[Variant, list[list[Value]]]]) -> str:
    last = (f"{variant.label}: {', '.join(_short(value) for value in matrix[-1])}" for variant, matrix in maps)
    return f"Heat maps of the accuracy matrices. Last row, on each task after the last stage: {'; '.join(last)}."


def _short(value: Value) -> str:
    return "none" if isinstance(value, Absent) else f"{value:.2f}"
