"""Final accuracy and forgetting side by side: a bar per variant for the mean, a dot per seed."""

from typing import TYPE_CHECKING

from contilab.metrics.contract import Absent
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.figures.brief import brief
from contilab.report.figures.svg import Drawing, draw, new_figure
from contilab.report.figures.theme import INK, MUTED, colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METRICS = ("acc", "forgetting")


def bars(key: str, benchmark: Benchmark) -> Drawing | None:
    """Return the figure, or None if no variant has a value of either metric."""
    if not any(variant.summary(name).n for variant in benchmark.variants for name in METRICS):
        return None
    figure = new_figure(0.85 + 0.36 * len(benchmark.variants))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, name in zip(panels, METRICS, strict=True):
        _panel(axes, name, benchmark.variants)
    panels[0].set_yticks(range(len(benchmark.variants)), [brief(variant.label) for variant in benchmark.variants])
    panels[0].invert_yaxis()
    caption = "Accuracy after the last task, and forgetting. Bars: mean over seeds; dots: one seed each."
    return draw(key, caption, _words(benchmark.variants), figure)


def _panel(axes: "Axes", name: str, variants: tuple[Variant, ...]) -> None:
    for place, variant in enumerate(variants):
        values = [value for run in variant.runs if not isinstance(value := run.values[name], Absent)]
        mean = variant.summary(name).mean
        if mean is None:
            axes.annotate(
                brief(variant.summary(name).reasons[0]),
                (0, place),
                (6, 0),  # a gap that blanks would not make: a page leaves out those that begin a text
                textcoords="offset points",
                va="center",
                color=MUTED,
                fontsize=7.5,
            )
            continue
        axes.barh(place, mean, height=0.62, color=colour(place), alpha=0.3)
        axes.plot(values, _spread(place, len(values)), ".", color=colour(place), markersize=6, clip_on=False)
        side = max([*values, mean, 0.0])
        axes.annotate(f"{mean:.3f}", (side, place), (6, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_title(name, loc="left")
    axes.set_xlim(min(0.0, axes.get_xlim()[0]), 1.14)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def _spread(place: int, count: int) -> list[float]:
    """Return heights around *place*, evenly apart, so that equal values stay visible."""
    return [place + (0.36 * index / (count - 1) - 0.18 if count > 1 else 0.0) for index in range(count)]


def _words(variants: tuple[Variant, ...]) -> str:
    parts = []
    for variant in variants:
        means = ((name, variant.summary(name).mean) for name in METRICS)
        values = ", ".join(f"{name} {'absent' if mean is None else f'{mean:.3f}'}" for name, mean in means)
        parts.append(f"{variant.label}: {values}")
    return f"Bar charts of the means over seeds. {'; '.join(parts)}."
