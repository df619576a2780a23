"""What a reader must know before the numbers: runs without a result, diverged runs, mixtures, and too few seeds."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from contilab.report.benchmark import Benchmark
from contilab.report.mixture import Mixture, mixtures_of
from contilab.report.runs import RunReport
from contilab.report.statistics.paired import LEVEL, minimum_p


class Notice(NamedTuple):
    """One thing to know: a sentence, and the runs or cells that it is about."""

    text: str
    items: tuple[str, ...] = ()


def states(runs: Sequence[RunReport]) -> Iterable[Notice]:
    """Yield which runs of a study diverged, and which have no result."""
    diverged = [run for run in runs if run.state == "diverged"]
    if diverged:
        text = f"{len(diverged)} of {len(runs)} runs diverged; metrics that read what they lost are absent"
        yield Notice(text, tuple(map(_named, diverged)))
    for state in dict.fromkeys(run.state for run in runs if run.record is None):
        found = [run for run in runs if run.state == state]
        text = f"{len(found)} of {len(runs)} runs {'has' if len(found) == 1 else 'have'} no result: {state}"
        yield Notice(text, tuple(map(_named, found)))


def mixtures(benchmarks: Iterable[Benchmark]) -> list[Notice]:
    """Return which cells were trained under which circumstances, where these differ: within a cell, else within a table."""
    found = [mixture for benchmark in benchmarks for mixture in mixtures_of(benchmark)]
    kinds = "versions, devices, processors or precisions"
    texts = {
        f"Seeds of one cell were trained under different {kinds}": [one for one in found if one.is_within],
        f"Cells of one table were trained under different {kinds}": [one for one in found if not one.is_within],
    }
    return [Notice(text, _alike(group)) for text, group in texts.items() if group]


def significance(benchmark: Benchmark, *, is_tested: bool = False) -> str:
    """Return what the seeds of *benchmark* allow to be claimed, in one sentence; "" without a result.

    is_tested: the tests stand in tables of their own.
    """
    counts = benchmark.counts
    if not counts:
        return ""
    fewest, most = counts[0], counts[-2:][0]  # a pair shares no more seeds than the second of all cells has
    least, those = minimum_p(most), f"{most} seed{'s' if most > 1 else ''}"
    test = f"the smallest p that an exact paired test over {those} can give is {least:.6g}"
    if least > LEVEL:
        return f"No difference in this table can be significant at .05: {test}. Six seeds are the least that can."
    lost = f"; over {fewest}, which is all that some cells have, {minimum_p(fewest):.6g}" if fewest < most else ""
    return f"{'The tests stand below' if is_tested else 'No test was made for this table'}; {test}{lost}."


def _alike(found: Iterable[Mixture]) -> tuple[str, ...]:
    """Return *found* in words, tables of which the same is said together."""
    presets: dict[str, dict[str, None]] = {}
    for one in found:
        presets.setdefault(one.text, {})[one.preset] = None
    return tuple(f"{', '.join(names)}: {text}" for text, names in presets.items())


def _named(run: RunReport) -> str:
    return f"{run.name}{': ' if run.problem else ''}{run.problem}"
