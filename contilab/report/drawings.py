"""All figures of a report, by the anchor of the section they belong to; matplotlib is needed."""

from contilab.report.benchmark import Benchmark
from contilab.report.figures.svg import Drawing
from contilab.report.page import Page
from contilab.report.section import Section

MOST = 24  # variants that can still be told apart in one figure, chosen; 100 of them also take longer to draw than all the rest


def drawings(page: Page) -> dict[str, list[Drawing]]:
    """Draw the figures of *page*: of each benchmark, and of each ranking over benchmarks."""
    from contilab.report.figures.ranks import ranks
    from contilab.report.figures.svg import styled

    with styled():
        found = {section.anchor: _section(section) for section in page.sections}
        return found | {standing.anchor: ranks(standing.anchor, standing) for standing in page.standings}


def _section(section: Section) -> list[Drawing]:
    from contilab.report.figures.bars import bars
    from contilab.report.figures.cost import cost
    from contilab.report.figures.curves import curves
    from contilab.report.figures.heatmap import heatmaps
    from contilab.report.figures.stream import stream
    from contilab.report.figures.sweep import sweep

    makers = (("curves", curves), ("stream", stream), ("bars", bars), ("cost", cost), ("matrices", heatmaps))
    shown = _readable(section)
    note = "" if shown is section.benchmark else " Only variants that enter comparisons are shown."
    drawn = [make(f"{section.anchor}-{name}", shown) for name, make in makers]
    noted = [drawing._replace(caption=drawing.caption + note) for drawing in drawn if drawing]
    grid = sweep(f"{section.anchor}-sweep", section.choices)
    return [*noted, grid] if grid else noted


def _readable(section: Section) -> Benchmark:
    """Return the benchmark of *section*, of too many variants only those that enter comparisons."""
    candidates = tuple(variant for choice in section.choices for variant in choice.candidates)
    has_too_many = len(section.benchmark.variants) > MOST and len(candidates) < len(section.benchmark.variants)
    return section.benchmark._replace(variants=candidates) if has_too_many else section.benchmark
