"""Which cells of a table were trained under which versions, devices, processors and precisions, where these differ.

They are facts of a group of runs, so the seeds of one cell can differ as well: those are told apart from cells that differ from
each other only.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from contilab.report.benchmark import Benchmark, Variant, plain

MIXABLE = ("versions", "device", "precision", "processor")  # what may differ between results without making them other runs

Values = dict[str, list[int]]  # of one fact of one cell: the seeds by value
Cells = dict[int, Values]  # of one fact: by place of the variant


class Mixture(NamedTuple):
    """One fact that differs within the table *preset*: who has which value, in words. is_within: seeds of one cell differ."""

    preset: str
    text: str
    is_within: bool


def mixtures_of(benchmark: Benchmark) -> Iterable[Mixture]:
    """Yield each fact that differs between the runs of *benchmark*, such as "precision bf16 for er; fp32 for naive, joint"."""
    for name, cells in _by_fact(benchmark).items():
        if len({value for values in cells.values() for value in values}) > 1:
            is_within = any(len(values) > 1 for values in cells.values())
            yield Mixture(benchmark.preset, f"{name} {_grouped(benchmark, cells)}", is_within)


def differing_seeds(variant: Variant) -> tuple[str, ...]:
    """Return each fact that differs between the seeds of *variant*, such as "precision bf16 (seed 3) and fp32 (seeds 0-2)"."""
    return tuple(f"{name} {_values(values)}" for name, values in _facts_of(variant).items() if len(values) > 1)


def _by_fact(benchmark: Benchmark) -> dict[str, Cells]:
    found: dict[str, Cells] = {}
    for place, variant in enumerate(benchmark.variants):
        for name, values in _facts_of(variant).items():
            found.setdefault(name, {})[place] = values
    return found


def _facts_of(variant: Variant) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for run in variant.runs:
        for name, value in _facts(run.circumstances):
            found.setdefault(name, {}).setdefault(value, []).append(run.seed)
    return found


def _facts(circumstances: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield by name what may differ between results, as text."""
    for name in MIXABLE:
        value = circumstances.get(name)
        if isinstance(value, Mapping):
            yield from ((key, plain(item)) for key, item in value.items())
        elif value is not None:
            yield name, plain(value).partition(":")[0]  # cuda:0 and cuda:1 are one kind


def _grouped(benchmark: Benchmark, cells: Cells) -> str:
    """Return who has which value, those with the same ones together."""
    groups: dict[str, list[int]] = {}
    for place, values in cells.items():
        groups.setdefault(_values(values), []).append(place)
    known = [benchmark.variants[place] for place in cells]
    named = ((value, _names([benchmark.variants[place] for place in places], known)) for value, places in groups.items())
    return "; ".join(f"{value} for {names}" for value, names in named)


def _values(found: Values) -> str:
    if len(found) == 1:
        return next(iter(found))
    parts = (f"{value} (seed{'s' if len(seeds) > 1 else ''} {ranges(seeds)})" for value, seeds in sorted(found.items()))
    return " and ".join(parts)


def _names(variants: Sequence[Variant], known: Sequence[Variant]) -> str:
    """Return the labels of *variants*; a method all of whose *known* ones are among them is named once."""
    methods: dict[str, list[str]] = {}
    for variant in variants:
        methods.setdefault(_method(variant), []).append(variant.label)
    parts: list[str] = []
    for method, labels in methods.items():
        is_whole = 1 < len(labels) == sum(_method(one) == method for one in known)
        parts += [f"{method} (all {len(labels)} variants)"] if is_whole else labels
    return ", ".join(parts)


def _method(variant: Variant) -> str:
    return variant.runs[0].cell.method


def ranges(numbers: Iterable[int]) -> str:
    """Return *numbers* in words, neighbours together.

    >>> ranges([0, 1, 2, 3, 7, 9, 8]), ranges([4])
    ('0-3, 7-9', '4')
    """
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in found)
