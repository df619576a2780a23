"""A whole report as one value, before it is written as Markdown, LaTeX or HTML."""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from contilab.metrics.contract import Metric
from contilab.report.against import Against, against
from contilab.report.benchmark import Benchmark, benchmarks
from contilab.report.cautions import Found, cautions
from contilab.report.comparison import Family, families
from contilab.report.comparison_table import comparison_table, selection_table, statement
from contilab.report.notices import Notice, mixtures, notices, significance
from contilab.report.protocol import Protocol, protocol
from contilab.report.provenance import Provenance, provenance, versions
from contilab.report.runs import RunReport, metrics_of
from contilab.report.selection import Choice, choices, factors
from contilab.report.standing import Standing, standings
from contilab.report.table import Table, every_metric, headline, per_seed
from contilab.spec.study import Study
from contilab.store.store import Store

Compare = Callable[[Benchmark, Sequence[Choice]], tuple[Family, ...]]


class Shown(NamedTuple):
    """A table with what is said of it: *name* for people, *text* in sentences."""

    name: str
    text: str
    table: Table


class Section(NamedTuple):
    """One benchmark: what it is, its tables, what may be claimed, its protocol; figures are drawn apart."""

    anchor: str
    benchmark: Benchmark
    choices: tuple[Choice, ...]
    families: tuple[Family, ...]
    protocol: Protocol

    @property
    def about(self) -> str:
        """What the benchmark is, in one line."""
        seeds = len(self.benchmark.seeds)
        numbers = sorted({variant.tasks for variant in self.benchmark.variants} - {0})  # a study may vary it
        tasks = f", {' or '.join(map(str, numbers))} tasks" if numbers else ""
        counted = f"{seeds} seed{'s' if seeds > 1 else ''}"
        data = " and ".join(self.protocol.values("data.name"))
        return f"{self.benchmark.name}, {self.benchmark.scenario}-incremental{tasks}, {counted}; data: {data}"

    @property
    def headline(self) -> Table:
        """Variant by metric."""
        return headline(self.benchmark)

    @property
    def every_metric(self) -> Table:
        """Metric by variant."""
        return every_metric(self.benchmark)

    @property
    def per_seed(self) -> Table:
        """Run by metric."""
        return per_seed(self.benchmark)

    @property
    def significance(self) -> str:
        """What the seeds allow to be claimed, in one sentence."""
        return significance(self.benchmark, is_tested=bool(self.families))

    @property
    def compared(self) -> str:
        """What its methods are compared with, as a heading; "" where nothing is compared."""
        found = self.families[:1]
        return "".join(f"Compared with {one.baseline}" if one.baseline else "All pairs of methods" for one in found)

    @property
    def comparisons(self) -> tuple[Shown, ...]:
        """One table of tests per metric, `acc` first."""
        return shown(self.families)

    @property
    def selections(self) -> tuple[Shown, ...]:
        """One table per grid that a variant was chosen from."""
        grids = [choice for choice in self.choices if choice.is_grid]
        return tuple(Shown(grid.method, grid.reason, selection_table(grid)) for grid in grids)


class Page(NamedTuple):
    """A report. *question*: the comment that opens the manifest; *versions*: by package, those of all results."""

    study: Study
    question: str
    facts: tuple[tuple[str, str], ...]
    notices: tuple[Notice, ...]
    sections: tuple[Section, ...]
    standings: tuple[Standing, ...]
    against: tuple[Against, ...]
    cautions: tuple[Notice, ...]
    provenance: Provenance
    versions: dict[str, str]
    glossary: tuple[Metric, ...]

    @property
    def commands(self) -> str:
        """The commands that make the study again, for a shell."""
        plan = shlex.join(["contilab", "plan", f"{self.study.name}.toml", *self.study.values])
        return f"{plan}\ncontilab run\ncontilab report {self.study.name}"


def page(
    store: Store,
    study: Study,
    runs: Sequence[RunReport],
    *,
    baseline: str = "",
    has_all_pairs: bool = False,
    other: tuple[str, Sequence[RunReport]] | None = None,
) -> Page:
    """Return the report of *study*.

    baseline: what methods are compared with; has_all_pairs: each with each other one. other: name and runs of a second study.
    """
    arranged, varied = benchmarks(runs), factors(study)
    compare = partial(families, baseline=baseline, has_all_pairs=has_all_pairs)
    sections = tuple(_section(store, place, benchmark, varied, compare) for place, benchmark in enumerate(arranged, 1))
    found = [Found(s.benchmark, s.protocol, s.choices, s.families) for s in sections]
    return Page(
        study=study,
        question=question(study.manifest),
        facts=_facts(runs, arranged),
        notices=tuple(notices(runs, arranged)),
        sections=sections,
        standings=standings(found),
        against=against(store, arranged, benchmarks(other[1]), other[0]) if other else (),
        cautions=(*cautions(found, store.mismatches()), *mixtures(arranged)),
        provenance=provenance(store, study, runs, arranged),
        versions=versions(runs),
        glossary=tuple(metrics_of(runs).values()),
    )


def shown(found: Sequence[Family]) -> tuple[Shown, ...]:
    """Return *found* as tables with what is said of each."""
    return tuple(Shown(one.metric.name, statement(one), comparison_table(one)) for one in found)


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


def _section(store: Store, place: int, benchmark: Benchmark, varied: frozenset[str], compare: Compare) -> Section:
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in benchmark.preset)
    chosen = choices(benchmark, varied)
    tested = compare(benchmark, chosen)
    return Section(f"b{place}-{name}", benchmark, chosen, tested, protocol(store, benchmark))


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
