"""A whole report as one value, before it is written as Markdown or HTML."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from contilab.metrics.contract import Metric
from contilab.metrics.table import METRICS, metric
from contilab.report.benchmark import Benchmark, benchmarks
from contilab.report.figures.svg import Drawing
from contilab.report.notices import Notice, notices, significance
from contilab.report.protocol import Protocol, protocol
from contilab.report.runs import RunReport
from contilab.report.table import Table, every_metric, headline, per_seed
from contilab.spec.study import Study
from contilab.store.store import Store


class Section(NamedTuple):
    """One benchmark: what it is, its tables, what may be claimed, its protocol; figures are drawn apart."""

    anchor: str
    benchmark: Benchmark
    headline: Table
    every_metric: Table
    per_seed: Table
    significance: str
    protocol: Protocol

    @property
    def about(self) -> str:
        """What the benchmark is, in one line."""
        seeds = len(self.benchmark.seeds)
        tasks = f", {self.benchmark.tasks} tasks" if self.benchmark.tasks else ""
        return f"{self.benchmark.name}, {self.benchmark.scenario}-incremental{tasks}, {seeds} seed{'s' if seeds > 1 else ''}"


class Page(NamedTuple):
    """A report. *question*: the comment that opens the manifest; *versions*: by package, those of all results."""

    study: Study
    question: str
    facts: tuple[tuple[str, str], ...]
    notices: tuple[Notice, ...]
    sections: tuple[Section, ...]
    versions: dict[str, str]
    glossary: tuple[Metric, ...]

    @property
    def commands(self) -> str:
        """The commands that make the study again, for a shell."""
        plan = shlex.join(["contilab", "plan", f"{self.study.name}.toml", *self.study.values])
        return f"{plan}\ncontilab run\ncontilab report {self.study.name}"


def page(store: Store, study: Study, runs: Sequence[RunReport]) -> Page:
    """Return the report of *study*."""
    arranged = benchmarks(runs)
    sections = tuple(_section(store, place, benchmark) for place, benchmark in enumerate(arranged, 1))
    said = tuple(notices(runs, arranged))
    return Page(study, question(study.manifest), _facts(runs, arranged), said, sections, _versions(runs), _glossary())


def figures(section: Section) -> list[Drawing]:
    """Draw the figures of *section*; matplotlib is needed."""
    from contilab.report.figures.bars import bars
    from contilab.report.figures.curves import curves
    from contilab.report.figures.heatmap import heatmaps
    from contilab.report.figures.svg import styled

    with styled():
        drawn = (
            make(f"{section.anchor}-{name}", section.benchmark)
            for name, make in (("curves", curves), ("bars", bars), ("matrices", heatmaps))
        )
        return [drawing for drawing in drawn if drawing]


def question(manifest: str) -> str:
    r"""Return the comment that opens a manifest, as one line.

    >>> question("# Does replay help\n# at 500 samples?\n\n# settings\nname = 'a'")
    'Does replay help at 500 samples?'
    """
    lines: list[str] = []
    for line in manifest.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return " ".join(filter(None, lines))


def _section(store: Store, place: int, benchmark: Benchmark) -> Section:
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in benchmark.preset)
    tables = headline(benchmark), every_metric(benchmark), per_seed(benchmark)
    return Section(f"b{place}-{name}", benchmark, *tables, significance(benchmark), protocol(store, benchmark))


def _facts(runs: Sequence[RunReport], arranged: Sequence[Benchmark]) -> tuple[tuple[str, str], ...]:
    have = sum(run.record is not None for run in runs)
    diverged = sum(run.state == "diverged" for run in runs)
    cells = sum(len(benchmark.variants) for benchmark in arranged)
    return (
        ("runs with a result", f"{have} of {len(runs)}"),
        ("diverged", str(diverged)),
        ("without a result", str(len(runs) - have)),
        ("benchmarks", str(len(arranged))),
        ("cells", str(cells)),
        ("seeds", str(len({run.seed for run in runs}))),
    )


def _versions(runs: Sequence[RunReport]) -> dict[str, str]:
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, version in run.circumstances.get("versions", {}).items():
            found.setdefault(name, {})[str(version)] = None
    return {name: ", ".join(sorted(values)) for name, values in sorted(found.items())}


def _glossary() -> tuple[Metric, ...]:
    return tuple(map(metric, METRICS))
