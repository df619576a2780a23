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
from contilab.report.notices import Notice, mixtures, states
from contilab.report.protocol import protocol
from contilab.report.provenance import Provenance, provenance, versions
from contilab.report.runs import RunReport, metrics_of
from contilab.report.section import Section
from contilab.report.selection import Choice, choices, factors
from contilab.report.standing import Standing, standings
from contilab.spec.study import Study
from contilab.store.store import Store

Compare = Callable[[Benchmark, Sequence[Choice]], tuple[Family, ...]]


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
    mixed = mixtures(arranged)
    return Page(
        study=study,
        question=question(study.manifest),
        facts=_facts(runs, arranged),
        notices=(*states(runs), *mixed),
        sections=sections,
        standings=standings(found),
        against=against(store, arranged, benchmarks(other[1]), other[0]) if other else (),
        cautions=(*cautions(found, store.mismatches()), *mixed),
        provenance=provenance(store, study, runs, arranged),
        versions=versions(runs),
        glossary=tuple(metrics_of(runs).values()),
    )


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
