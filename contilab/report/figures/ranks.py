"""Critical-difference diagram (Demsar 2006): mean ranks over benchmarks, bars join what the Nemenyi test cannot tell apart."""

from contilab.metrics.contract import Absent
from contilab.report.figures.brief import brief
from contilab.report.figures.svg import Drawing, draw, new_figure
from contilab.report.figures.theme import INK, MUTED
from contilab.report.standing import Standing


def ranks(key: str, standing: Standing) -> list[Drawing]:
    """Return the diagram; nothing where there is no critical difference."""
    found = standing.ranking
    if isinstance(found.critical, Absent):
        return []
    order = sorted(range(len(found.names)), key=found.ranks.__getitem__)
    most = len(order)
    figure = new_figure(1.1 + 0.26 * (most + len(found.cliques)))
    axes = figure.add_subplot()
    axes.plot([1, 1 + found.critical], [0.9, 0.9], color=INK, linewidth=1.5)
    axes.annotate(f"critical difference {found.critical:.2f}", (1, 0.9), (0, 4), textcoords="offset points", fontsize=8.5)
    for level, (first, last) in enumerate(found.cliques):
        ends = [found.ranks[order[first]] - 0.03, found.ranks[order[last]] + 0.03]
        axes.plot(ends, [-0.45 - 0.45 * level] * 2, color=INK, linewidth=3.5, solid_capstyle="round")
    top = -0.6 - 0.45 * len(found.cliques)
    for place, index in enumerate(order):
        rank, height = found.ranks[index], top - 0.5 * (place + 1)
        axes.plot([rank, rank, most + 0.1], [0, height, height], color=MUTED, linewidth=0.9)
        axes.annotate(
            f"{brief(found.names[index])}  {rank:.2f}", (most + 0.1, height), (4, 0), textcoords="offset points", va="center"
        )
    axes.set_xlim(0.9, max(most, 1 + found.critical) + 0.1)
    axes.set_ylim(top - 0.5 * most - 0.3, 1.4)
    axes.set_xticks(range(1, most + 1))
    axes.xaxis.set_ticks_position("top")
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.spines["top"].set_visible(True)
    axes.spines["top"].set_position(("data", 0))
    axes.set_yticks([])
    describe = "" if found.is_telling else " The ranks only describe."
    caption = (
        f"Mean rank by acc over {found.benchmarks} benchmarks, 1 is best; bars join methods that are not told apart at .05."
    )
    return [draw(key, caption + describe, _words(standing), figure)]


def _words(standing: Standing) -> str:
    found = standing.ranking
    parts = (f"{name} {rank:.2f}" for rank, name in sorted(zip(found.ranks, found.names, strict=True)))
    return f"Critical-difference diagram. Mean ranks: {', '.join(parts)}. Critical difference {found.critical:.2f}."
