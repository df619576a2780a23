"""report.md: the report as Markdown, for repositories and terminals."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contilab.metrics.contract import Metric
from contilab.report.against import Against
from contilab.report.characters import printable
from contilab.report.figures.svg import Drawing
from contilab.report.notices import Notice
from contilab.report.page import Page
from contilab.report.section import Section, Shown, shown
from contilab.report.standing import Standing
from contilab.report.table import Entry, Line, Table
from contilab.report.wording import against_text, standing_table, standing_text


def markdown(page: Page, drawings: Mapping[str, Sequence[Drawing]]) -> str:
    """Return *page* as Markdown; figures by anchor of their section, as files in figures/."""
    blocks = [
        f"# {escaped(page.study.name)}",
        _paragraph(page.question),
        _list(f"{name}: {value}" for name, value in page.facts),
        *map(_notice, page.notices),
        *(block for section in page.sections for block in _section(section, drawings.get(section.anchor, ()))),
        *(block for standing in page.standings for block in _standing(standing, drawings.get(standing.anchor, ()))),
        *(block for one in page.against for block in _against(one)),
        *_provenance(page),
        "## What to be careful about",
        *(map(_notice, page.cautions) if page.cautions else ["Nothing was found that a reader must be warned of."]),
        *_reproduce(page),
        "## Metrics",
        _list(_explained(item) for item in page.glossary),
    ]
    return printable("\n\n".join(block.strip("\n") for block in blocks if block.strip()) + "\n")


def escaped(text: str) -> str:
    r"""Return *text* as Markdown that shows it literally, in one line.

    >>> print(escaped("a|b <i>*x* $y$"))
    a\|b &lt;i&gt;\*x\* \$y\$
    """
    line = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", line)


def _paragraph(text: str) -> str:
    r"""Return *text* as a block of its own, which does not begin a list or a rule.

    >>> print(_paragraph("- a"), _paragraph("1. a"), _paragraph("a - 1."))
    \- a 1\. a a - 1.
    """
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", escaped(text))


def _section(section: Section, drawings: Sequence[Drawing]) -> Iterable[str]:
    yield f"## {escaped(section.benchmark.preset)}"
    yield f"Benchmark {escaped(section.about)}."
    yield "Mean over seeds, standard deviation (sd, with n - 1) and number of seeds (n). Metrics are explained at the end."
    yield _table(section.headline)
    yield escaped(section.significance)
    yield escaped(section.in_full)
    yield from _comparisons(section.comparisons)
    yield from map(_drawing, drawings)
    for grid in section.selections:
        yield f"### {escaped(grid.name)}\n\n{escaped(grid.text)}\n\n{_table(grid.table)}"
    yield f"### Values per seed\n\n{_table(section.per_seed)}"
    yield f"### Every metric\n\n{_table(section.every_metric)}"
    yield f"### Protocol\n\n{_settings(section.protocol.shared)}"
    for label, own in section.protocol.own.items():
        if own:
            yield f"Only {escaped(label)}:\n\n{_settings(own)}"


def _comparisons(found: Sequence[Shown]) -> Iterable[str]:
    for one in found:
        yield f"### Comparison: {escaped(one.name)}\n\n{escaped(one.text)}\n\n{_table(one.table)}"


def _standing(standing: Standing, drawings: Sequence[Drawing]) -> Iterable[str]:
    yield f"## Ranks over {len(standing.presets)} {standing.scenario}-incremental benchmarks"
    yield escaped(standing_text(standing))
    yield _table(standing_table(standing))
    yield from map(_drawing, drawings)


def _against(one: Against) -> Iterable[str]:
    yield f"## Compared with {escaped(one.other)}: {escaped(one.preset)}"
    yield from map(escaped, against_text(one))
    yield from _comparisons(shown(one.families))


def _provenance(page: Page) -> Iterable[str]:
    yield "## What was run"
    yield _list(f"{name}: {'; '.join(values)}" for name, values in page.provenance.facts)
    yield _table(page.provenance.seeds)


def _notice(notice: Notice) -> str:
    return f"**{escaped(notice.text)}**\n\n{_list(notice.items)}"


def _drawing(drawing: Drawing) -> str:
    return f"![{escaped(drawing.alt)}](figures/{drawing.key}.svg)\n\n{escaped(drawing.caption)}"


def _reproduce(page: Page) -> Iterable[str]:
    yield "## Reproduce"
    yield _fenced(page.commands)
    yield f"The manifest, `{page.study.name}.toml`:"
    yield _fenced(page.study.manifest, "toml")
    if page.versions:
        yield "Versions behind the results:"
        yield _list(f"{name} {version}" for name, version in page.versions.items())


def _explained(item: Metric) -> str:
    return f"{item.name} ({', '.join(filter(None, (item.unit, item.paper)))}): {item.summary}"


def _table(table: Table) -> str:
    lines = [[table.corner, *(column.name + _arrow(column.better) for column in table.columns)]]
    lines += [[_head(line), *map(_entry, line.entries)] for line in table.lines]
    rows = ["| " + " | ".join(escaped(cell) for cell in line) + " |" for line in lines]
    rule = "|---" + "|---:" * len(table.columns) + "|"
    notes = "\n".join(f"- {escaped(f'({mark}) {text}' if mark else text)}" for mark, text in table.notes)
    return "\n".join([rows[0], rule, *rows[1:]]) + (f"\n\n{notes}" if notes else "")


def _head(line: Line) -> str:
    return f"{line.head} ({line.detail})" if line.detail else line.head


def _entry(entry: Entry) -> str:
    detail = f" ({entry.detail})" if entry.detail else ""
    return entry.text + detail + "".join(f" ({mark})" for mark in entry.marks)


def _arrow(better: str) -> str:
    return {"higher": " ↑", "lower": " ↓"}.get(better, "")


def _settings(settings: Mapping[str, Any]) -> str:
    return _list(f"{key} = {value}" for key, value in settings.items())


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(item)}" for item in items)


def _fenced(text: str, language: str = "") -> str:
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    body = text.rstrip("\n")
    return f"{fence}{language}\n{body}\n{fence}"
