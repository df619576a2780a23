"""Which method ranks first over several benchmarks of one scenario; scenarios are never ranked together."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from contilab.report.benchmark import Variant
from contilab.report.cautions import Found
from contilab.report.statistics.ranks import Ranking, ranking


class Standing(NamedTuple):
    """The ranking of methods by mean `acc` over the benchmarks *presets* of one scenario.

    left_out: methods that are not in it, since some benchmark has none of them, or several variants and selected none.
    short: those whose mean is of fewer seeds than planned, each with the benchmark and both numbers.
    """

    scenario: str
    presets: tuple[str, ...]
    ranking: Ranking
    left_out: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Its place in a page."""
        return f"ranks-{self.scenario}"


def standings(found: Sequence[Found]) -> tuple[Standing, ...]:
    """Return one standing per scenario with at least two benchmarks and two methods that all of them measured.

    A method counts with the variant that was selected for it; with each value of its factors, where none was to be selected.
    """
    scenarios = dict.fromkeys(one.benchmark.scenario for one in found)
    made = (_standing(scenario, [one for one in found if one.benchmark.scenario == scenario]) for scenario in scenarios)
    return tuple(standing for standing in made if standing)


def _standing(scenario: str, found: Sequence[Found]) -> Standing | None:
    scores = {place: score for place, one in enumerate(found) if (score := _scores(one))}
    names = [name for name in next(iter(scores.values()), {}) if all(name in score for score in scores.values())]
    if len(scores) < 2 or len(names) < 2:
        return None
    known = dict.fromkeys(name for place in scores for name in _names(found[place]))
    presets = tuple(found[place].benchmark.preset for place in scores)
    ranks = ranking(names, [[score[name] for name in names] for score in scores.values()])
    left_out = tuple(name for name in known if name not in names)
    return Standing(scenario, presets, ranks, left_out, tuple(_short([found[place] for place in scores], names)))


def _short(found: Sequence[Found], names: Collection[str]) -> Iterable[str]:
    for one in found:
        for name, variant in _ranked(one).items():
            if name in names and (n := variant.count("acc")) < len(variant.runs):
                yield f"{name} in {one.benchmark.preset} ({n} of {len(variant.runs)})"


def _names(one: Found) -> list[str]:
    """Return what would be ranked of *one*, if all benchmarks had it."""
    unselected = [choice.name for choice in one.choices if choice.chosen is None and not choice.is_question]
    return [*_scores(one), *unselected]


def _scores(one: Found) -> dict[str, float]:
    """Return the mean `acc` by what is ranked."""
    means = {name: variant.summary("acc").mean for name, variant in _ranked(one).items()}
    return {name: mean for name, mean in means.items() if mean is not None}


def _ranked(one: Found) -> dict[str, Variant]:
    """Return what stands for each method, or for each value of its factors."""
    chosen = {choice.name: choice.chosen for choice in one.choices if choice.chosen}
    return chosen | {variant.label: variant for choice in one.choices if choice.is_question for variant in choice.candidates}
