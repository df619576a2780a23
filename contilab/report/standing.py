"""Which method ranks first over several benchmarks of one scenario; scenarios are never ranked together."""

from collections.abc import Sequence
from typing import NamedTuple

from contilab.report.cautions import Found
from contilab.report.statistics.ranks import Ranking, ranking


class Standing(NamedTuple):
    """The ranking of methods by mean `acc` over the benchmarks *presets* of one scenario."""

    scenario: str
    presets: tuple[str, ...]
    ranking: Ranking

    @property
    def anchor(self) -> str:
        """Its place in a page."""
        return f"ranks-{self.scenario}"


def standings(found: Sequence[Found]) -> tuple[Standing, ...]:
    """Return one standing per scenario with at least two benchmarks and two methods that all of them measured.

    A method counts with the variant that stands for it; one without a choice among several variants is left out.
    """
    scenarios = dict.fromkeys(one.benchmark.scenario for one in found)
    made = (_standing(scenario, [one for one in found if one.benchmark.scenario == scenario]) for scenario in scenarios)
    return tuple(standing for standing in made if standing)


def _standing(scenario: str, found: Sequence[Found]) -> Standing | None:
    scores = [_scores(one) for one in found]
    scores = [score for score in scores if score]
    names = [name for name in scores[0] if all(name in score for score in scores)] if scores else []
    if len(scores) < 2 or len(names) < 2:
        return None
    presets = tuple(one.benchmark.preset for one in found if _scores(one))
    return Standing(scenario, presets, ranking(names, [[score[name] for name in names] for score in scores]))


def _scores(one: Found) -> dict[str, float]:
    """Return the mean `acc` by method; a method that stands with several variants (its factors) is left out."""
    methods = [choice.method for choice in one.choices]
    means = {choice.method: choice.chosen.summary("acc").mean for choice in one.choices if choice.chosen}
    return {name: mean for name, mean in means.items() if mean is not None and methods.count(name) == 1}
