"""Cost against accuracy: operations of training, which no machine changes, and final accuracy."""

from typing import TYPE_CHECKING, Any

from contilab.metrics.contract import Absent
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.figures.brief import brief
from contilab.report.figures.svg import Drawing, draw, new_figure
from contilab.report.figures.theme import colour, marker

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COST, GAIN = "flops", "acc"


def cost(key: str, benchmark: Benchmark) -> Drawing | None:
    """Return the figure, or None if fewer than two variants have both values."""
    drawn = [(index, v) for index, v in enumerate(benchmark.variants) if _mean(v, COST) > 0 and v.summary(GAIN).n]
    if len(drawn) < 2:
        return None
    figure = new_figure(max(3.4, 0.9 + 0.2 * len(drawn)))
    axes = figure.add_subplot()
    for index, variant in drawn:
        points = [
            (x, y)
            for x, y in zip(variant.values(COST), variant.values(GAIN), strict=True)
            if not isinstance(x, Absent) and not isinstance(y, Absent)
        ]
        axes.plot(*zip(*points, strict=True), ".", color=colour(index), alpha=0.45, markersize=6)
        mean = (_mean(variant, COST), _mean(variant, GAIN))
        look: dict[str, Any] = {"color": colour(index), "markerfacecolor": "none", "markeredgewidth": 1.8}  # so overlaps show
        axes.plot(*mean, marker(index), markersize=9, label=brief(variant.label), **look)
    _scale(axes, [_mean(variant, COST) for _, variant in drawn])
    axes.set_ylim(-0.02, 1.04)
    axes.set_ylabel(GAIN)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0)
    what = "Final accuracy against the operations of training (G: 1e9, T: 1e12)."
    caption = f"{what} Large marks: mean over seeds; dots: one seed each."
    return draw(key, caption, _words([variant for _, variant in drawn]), figure)


def _scale(axes: "Axes", costs: list[float]) -> None:
    from matplotlib.ticker import EngFormatter

    is_wide = max(costs) > 30 * min(costs)
    axes.set_xscale("log" if is_wide else "linear")
    if not is_wide:
        axes.set_xlim(0, 1.08 * max(costs))
    axes.xaxis.set_major_formatter(EngFormatter())  # as in 100 G: mathematical text is switched off
    axes.set_xlabel(f"operations of training{', logarithmic' if is_wide else ''}")


def _mean(variant: Variant, name: str) -> float:
    return variant.summary(name).mean or 0.0


def _words(variants: list[Variant]) -> str:
    parts = (f"{v.label}: {_mean(v, COST):.3g} operations, acc {_mean(v, GAIN):.3f}" for v in variants)
    return f"Scatter plot of cost and accuracy, means over seeds. {'; '.join(parts)}."
