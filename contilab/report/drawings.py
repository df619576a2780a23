"""All figures of a report, by the anchor of the section they belong to; matplotlib is needed."""

from contilab.report.figures.svg import Drawing
from contilab.report.page import Page, Section


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
    drawn = [make(f"{section.anchor}-{name}", section.benchmark) for name, make in makers]
    drawn.append(sweep(f"{section.anchor}-sweep", section.choices))
    return [drawing for drawing in drawn if drawing]
