"""What to be careful about: everything that limits what the numbers of a study can show, each with where it applies."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from contilab.metrics.contract import Absent
from contilab.report.benchmark import Benchmark, Variant
from contilab.report.comparison import Family, Paired
from contilab.report.notices import Notice
from contilab.report.protocol import Protocol
from contilab.report.schedule import differing
from contilab.report.selection import Choice
from contilab.report.statistics.interval import HONEST_SEEDS
from contilab.report.statistics.outlier import TEST, is_testable, outliers
from contilab.report.statistics.paired import seeds_needed
from contilab.store.layout import short

OWN = ("method.", "memory.", "numerics.", "data.")  # where methods may differ: their hyperparameters, and what follows

HALF = 0.5  # of the time of a group; chosen


class Found(NamedTuple):
    """What is known of one benchmark."""

    benchmark: Benchmark
    protocol: Protocol
    choices: Sequence[Choice]
    families: Sequence[Family]


Rule = Callable[[Found], Iterable[str]]


def cautions(found: Sequence[Found], mismatches: Iterable[Mapping[str, object]]) -> list[Notice]:
    """Return the cautions of a study, the most serious first; missing runs and mixtures are noticed elsewhere."""
    known = {run.rid for one in found for run in one.benchmark.runs}
    disagree = sorted({short(str(item["rid"])) for item in mismatches if item["rid"] in known})
    rules = (
        ("Two attempts at these runs disagree: their numbers cannot be repeated", [f"run {rid}" for rid in disagree]),
        ("Too few seeds: no test of these tables can reach .05 after Holm", _each(found, _few_seeds)),
        ("Fewer than ten seeds: bootstrap intervals are too narrow; read the t interval", _each(found, _narrow)),
        ("The cells of one table differ in more than their method", _each(found, _protocol)),
        (
            "Evaluation streams of different schedules: their minima, and all that is made of them, are never compared",
            _each(found, _schedules),
        ),
        ("EWC was capped: no publication has the cap, so a strength means something else than there", _each(found, _capped)),
        ("Memory was too small for its quotas and kept no sample", _each(found, _kept_nothing)),
        ("Classes without a sample in memory cannot be predicted and count as wrong", _each(found, _unpredictable)),
        ("Variants of which none was selected: the best of them is no result of its method", _each(found, _unchosen)),
        (
            "Part of the training samples were held out for validation; published numbers use all of them",
            _each(found, _held_out),
        ),
        (
            "All seeds learned the tasks in one order: their spread leaves out what another order would change",
            _each(found, _one_order),
        ),
        ("Settings of methods were not selected in this study: other values may do better", _each(found, _untuned)),
        (
            f"Seeds that stand apart: flagged by {TEST}; never dropped",
            _each(found, _apart),
        ),
        ("Seeds that stand apart were not looked for: it needs scipy, which comes with contilab[report]", _each(found, _blind)),
        ("Times are of groups of different sizes or machines: do not compare them", _each(found, _times)),
        (
            "Most of the time went into evaluation and records: compare steps_per_second_mean, which leaves them out",
            _each(found, _recorded),
        ),
    )
    return [Notice(text, tuple(items)) for text, items in rules if items]


def _each(found: Sequence[Found], rule: Rule) -> list[str]:
    return [f"{one.benchmark.preset}: {text}" for one in found for text in rule(one)]


def _few_seeds(one: Found) -> Iterable[str]:
    for family in one.families[:1]:
        seeds, need = max(_shared([family]), default=0), seeds_needed(family.size)
        if 0 < seeds < need:
            yield f"{seeds} seeds, {family.size} comparisons need {need}"
    most = one.benchmark.counts[-2:][:1]  # a pair shares no more seeds than the second of all cells has
    if not one.families and most and most[0] < seeds_needed(1):
        yield f"{most[0]} seeds, a single comparison needs {seeds_needed(1)}"


def _narrow(one: Found) -> Iterable[str]:
    made = _shared(one.families)
    if narrow := sorted(seeds for seeds in made if 1 < seeds < HONEST_SEEDS):  # one seed has no interval
        seeds = " to ".join(map(str, dict.fromkeys((narrow[0], narrow[-1]))))
        where = f" in {len(narrow)} of {len(made)} comparisons" if len(narrow) < len(made) else ""
        yield f"{seeds} seeds{where}"


def _shared(families: Iterable[Family]) -> list[int]:
    """Return over how many seeds each comparison was made."""
    found = (item.found for family in families for item in family.comparisons)
    return [len(one.differences) for one in found if isinstance(one, Paired)]


def _protocol(one: Found) -> Iterable[str]:
    own = one.protocol.own
    keys = dict.fromkeys(key for settings in own.values() for key in settings if not key.startswith(OWN))
    for key in keys:
        values = {label: settings.get(key, "none") for label, settings in own.items()}
        yield f"{key} is {', '.join(f'{value} for {label}' for label, value in values.items())}"


def _schedules(one: Found) -> Iterable[str]:
    return differing(one.benchmark.variants)


def _capped(one: Found) -> Iterable[str]:
    for variant in one.benchmark.variants:
        shares = [run.record.notes.get("ewc_capped_share") for run in variant.runs if run.record]
        capped = [float(share) for share in shares if isinstance(share, int | float) and share > 0]
        if capped:
            yield f"{variant.label}, up to {100 * max(capped):.2g} % of the parameters in {len(capped)} seeds"


def _kept_nothing(one: Found) -> Iterable[str]:
    for variant in one.benchmark.variants:
        costs = [run.record.cost for run in variant.runs if run.record]
        if any(cost.buffer_sample_bytes and not cost.buffer_bytes for cost in costs):  # has slots, holds nothing
            yield variant.label


def _unpredictable(one: Found) -> Iterable[str]:
    for variant in one.benchmark.variants:
        notes = [run.record.notes.get("classes_without_entry") for run in variant.runs if run.record]
        lacking = [count for count in notes if isinstance(count, int) and count]
        if seeds := len(lacking):
            yield f"{variant.label}, up to {max(lacking)} classes in {seeds} seed{'s' if seeds > 1 else ''}"


def _unchosen(one: Found) -> Iterable[str]:
    return [f"{choice.name}, {choice.reason}" for choice in one.choices if choice.chosen is None and not choice.is_question]


def _held_out(one: Found) -> Iterable[str]:
    share = one.protocol.shared.get("benchmark.validation", "")
    if share not in ("", "0", "0.0"):
        yield f"benchmark.validation = {share}"


def _one_order(one: Found) -> Iterable[str]:
    orders = {word: one.protocol.values(f"benchmark.{word}_order_seed") for word in ("class", "task")}
    if len(one.benchmark.seeds) > 1 and one.benchmark.tasks > 1 and all(len(found) == 1 for found in orders.values()):
        yield ", ".join(f"{word} order {found[0]}" for word, found in orders.items())


def _untuned(one: Found) -> Iterable[str]:
    """Methods with settings of their own of which the study holds one value each."""
    single = [choice.points[0].variant.label for choice in one.choices if not choice.is_grid]
    own = {label: {**one.protocol.shared, **one.protocol.own.get(label, {})} for label in single}
    names = [label for label in single if any(key.startswith("method.") and key != "method.name" for key in own[label])]
    if names:
        yield ", ".join(names)


def _apart(one: Found) -> Iterable[str]:
    for variant in one.benchmark.variants:
        values = {seed: v for seed, v in variant.by_seed("acc").items() if not isinstance(v, Absent)}
        far = [str(seed) for seed, is_far in zip(values, outliers(list(values.values())), strict=True) if is_far]
        if far:
            yield f"{variant.label}, acc of seed {', '.join(far)}"


def _blind(one: Found) -> Iterable[str]:
    if one.benchmark.fewest_seeds and not is_testable():
        count = len(one.benchmark.variants)
        yield f"{count} cell{'s' if count > 1 else ''}"


def _times(one: Found) -> Iterable[str]:
    places = {place for variant in one.benchmark.variants for place in _places(variant)}
    sizes = sorted({size for size, _ in places})
    processors = sorted({processor for _, processor in places if processor})
    if len(sizes) > 1:
        yield f"groups of {', '.join(map(str, sizes))} runs"
    if len(processors) > 1:
        yield ", ".join(processors)


def _recorded(one: Found) -> Iterable[str]:
    costs = [run.record.cost for run in one.benchmark.runs if run.record]
    shares = [cost.seconds_recording / cost.seconds_group for cost in costs if cost.seconds_group]
    if shares and max(shares) > HALF:
        yield f"up to {100 * max(shares):.0f} % of seconds_group"


def _places(variant: Variant) -> Iterable[tuple[int, str]]:
    for run in variant.runs:
        if run.record:
            yield run.record.cost.members, str(run.circumstances.get("processor", ""))
