"""The short measurement with which `auto` chooses where nothing is known: every eager form trains the group for a moment.

Each form takes a step with one member, which loads libraries, and two with all of them: what the first of these sets up can
take longer than a hundred steps, and tells nothing of them. Then it has its share of the time. The two fastest so far stay
alive and go on in turns, so that what other processes do meanwhile slows both down. No more than three are ever in memory.

Training draws for whole blocks of steps, a share has time for a few: from one step and from several it is worked out what the
beginning of a chunk takes, and what a whole block would. Otherwise forms that do much for all steps at once would look slow:
with er, five MLPs 2x400 and batch 128 the beginning takes `batched` 17 to 30 ms, a step 13 ms.

A form that makes CUDA graphs is measured once it has them, in chunks of as many steps as its share has time to make graphs of;
making them counts as part of the share. A form that does not come to that is left out, as where training is short.

One thread on a processor is measured by its own processor time: two more processes on the same cores would otherwise decide
which of two forms looks faster, by when the system lets each of them run.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from contilab.engine.choice.form import Form, Table
from contilab.engine.choice.pace import Lap, Pace
from contilab.engine.ensemble import MemberState
from contilab.engine.schedule import BLOCK
from contilab.engine.setup import Setup, initial_members
from contilab.hardware.profile import Rate

MOST_SECONDS = 2.7  # in all, besides the first steps of each form; 3 are promised, and what stands around it takes 0.2
WORTH = 20  # a measurement may take one part in so many of the training it is for; chosen
LEAST_SECONDS = 0.1  # of a measurement that is worth making; chosen: 100 steps of one member of an MLP 2x400
ENOUGH_STEPS = 200  # of one form; chosen: the median of so many steps hardly moves
TURNS = 5  # of the two fastest, at most
LEAST_STEPS = 8  # of a turn; chosen: of 32 MLPs 2x400 a beginning takes two thirds of a step
GRAPH_STEPS = 3  # graphs of n steps, n / 2, ... 1 are made, training included, in at most the time of 3 n graphs of one step
LEAST_SHARE = 0.7  # that steps may have of a lap, whatever its beginning seems to take; chosen

# What a step of one member takes at least, to tell a study from a trifle: Python and small kernels, and the arithmetic of a
# processor with two cores (measured: 0.3 to 0.6 ms for an MLP 2x16, 350 GFLOP/s).
STEP_SECONDS = 3e-4
FLOPS_PER_SECOND = 3.5e11


class _Tried(NamedTuple):
    form: Form
    pace: Pace
    singles: list[Lap]  # of one step
    laps: list[Lap]
    is_alone: bool  # one thread does everything

    @property
    def speed(self) -> float:
        single = min(self.singles, key=lambda lap: _taken(lap, is_busy=self.is_alone))
        speeds = sorted(speed_of_blocks(single, lap, is_busy=self.is_alone) for lap in self.laps)
        return speeds[len(speeds) // 2]


def speed_of_blocks(single: Lap, lap: Lap, *, is_busy: bool) -> float:
    """Return the samples per second of whole blocks, given a lap of one step and one of several.

    *is_busy*: by processor time.

    >>> speed_of_blocks(Lap(1, 8, 0.3, 0.3), Lap(8, 64, 1.0, 1.0), is_busy=False)  # a beginning of 0.2 s, and steps of 0.1 s
    77.57575757575758
    """
    beginning, seconds = (_taken(one, is_busy=is_busy) for one in (single, lap))
    if lap.steps == lap.chunks:
        return lap.samples / seconds
    step = (seconds - lap.chunks * beginning) / (lap.steps - lap.chunks)
    step = min(max(step, LEAST_SHARE * seconds / lap.steps), seconds / lap.steps)  # noise must not shrink or stretch it
    beginnings = (seconds - step * lap.steps) / lap.chunks
    return lap.samples / lap.steps / (step + beginnings / BLOCK)


def _taken(lap: Lap, *, is_busy: bool) -> float:
    return lap.busy_seconds if is_busy else lap.seconds


def seconds_worth(setup: Setup) -> float:
    """Return how long a measurement for *setup* may take: a twentieth of the least that training it takes, 3 s at most.

    The least on a processor; what a GPU takes is seen by the first steps.
    """
    steps = setup.steps * len(setup.runs)
    arithmetic = 3 * setup.learner.model.flops * setup.shared.train.batch / FLOPS_PER_SECOND
    seconds = min(MOST_SECONDS, steps * (STEP_SECONDS + arithmetic) / WORTH)
    return seconds if seconds >= LEAST_SECONDS else 0.0


def _nothing(_form: Form) -> None: ...


def try_out(
    setup: Setup, forms: Sequence[Form], table: Table, seconds: float, late: Callable[[Form], None] = _nothing
) -> tuple[Rate, ...]:
    """Return how fast each of *forms* trains *setup*, fastest first; those that fail are left out.

    *late* is called with each form that would have graphs if training were longer, and so more worth a measurement.
    Takes about *seconds* besides the first two steps of each form, less where these tell that training takes less than `WORTH`
    times as long.
    """
    start = time.perf_counter()
    members = initial_members(setup)
    rates: dict[Form, float] = {}
    fastest: list[_Tried] = []
    for form in forms:
        begin = time.perf_counter()
        tried = _tried(setup, form, table, members)
        if tried is None:
            continue
        start += time.perf_counter() - begin - _step_seconds(tried)  # the first steps, which every form has
        seconds = min(seconds, setup.steps * _step_seconds(tried) / WORTH)
        end = time.perf_counter() + seconds / 2 / len(forms)  # the other half is left to the two fastest
        told = _goes_on(setup, tried, end, makes_graphs=form.execution in table.graphed)
        if told is None and seconds < MOST_SECONDS:
            late(form)
        if told:
            rates[form] = tried.speed
            fastest = sorted([*fastest, tried], key=lambda one: -one.speed)[:2]
        del tried  # before the next one needs memory
    if len(fastest) == 2:
        failed = _race(fastest, start + seconds)
        rates |= {tried.form: tried.speed for tried in fastest}
        if failed:
            del rates[failed.form]
    threads = torch.get_num_threads()
    found = [Rate(*form, threads=threads, processes=1, samples_per_s=speed, spread=0.0) for form, speed in rates.items()]
    return tuple(sorted(found, key=lambda rate: -rate.samples_per_s))


def _tried(setup: Setup, form: Form, table: Table, members: list[MemberState]) -> _Tried | None:
    try:
        Pace(setup._replace(runs=setup.runs[:1]), table.maker(form), members[:1]).lap(1)  # vmap loads libraries for 2 s
        pace = Pace(setup, table.maker(form), members)
        pace.lap(1)
        is_alone = setup.device.type == "cpu" and torch.get_num_threads() == 1
        first = pace.lap(1)
        return _Tried(form, pace, [first], [first], is_alone)
    except Exception:  # noqa: BLE001  a form that cannot train this group is none to choose; out of memory belongs here
        return None


def _goes_on(setup: Setup, tried: _Tried, end: float, *, makes_graphs: bool) -> bool | None:
    """Let *tried* train until *end*, by graphs if it makes some; tell whether it could, None if there was no time for these."""
    try:
        if makes_graphs and not _has_graphs(setup, tried, end):
            return None
        share = end - time.perf_counter()
        if _step_seconds(tried) < share:  # otherwise the second step has to do
            tried.singles.append(tried.pace.lap(1))  # the quicker one counts: what disturbed the other is over
            tried.laps[:] = [tried.pace.during(_enough(tried, share))]
    except Exception:  # noqa: BLE001  as in the first steps
        return False
    return True


def _has_graphs(setup: Setup, tried: _Tried, end: float) -> bool:
    """Let *tried* train until it has graphs, and by these from then on; tell whether it has some before *end*.

    Raises RuntimeError where graphs are given up: it goes on as another form does.
    """
    pace = tried.pace
    _insist(pace)
    pace.most = steps = _longest(setup, _step_seconds(tried), end - time.perf_counter())
    while steps:
        trained = 0
        while trained < 2:  # after the second piece of a kind there is a graph; at borders pieces are shorter
            if time.perf_counter() > end:
                return False
            trained += pace.lap(steps).steps == steps
            _insist(pace)
        steps //= 2
    tried.singles[:] = tried.laps[:] = [pace.lap(1)]
    _insist(pace)
    return pace.most > 0


def _insist(pace: Pace) -> None:
    if reason := pace.report().fallback:
        raise RuntimeError(reason)


def _longest(setup: Setup, step_seconds: float, seconds: float) -> int:
    """Return of how many steps pieces may be if graphs of all lengths are to be made in *seconds*; 0 if there is no time."""
    schedule = setup.stages[0].schedule
    together = min(schedule.samples // schedule.batch, schedule.steps)  # between two borders, besides those of blocks
    most = min(BLOCK, (together + 1) // 2, int(seconds / step_seconds) // GRAPH_STEPS)
    return 2 ** (most.bit_length() - 1) if most > 0 else 0


def _race(pair: Sequence[_Tried], deadline: float) -> _Tried | None:
    """Let the *pair* train in turns, as many as have time for `LEAST_STEPS` of both: fewer tell little but of beginnings.

    Return the one that failed, if one did; then the race is over.
    """
    turns = min(TURNS, int((deadline - time.perf_counter()) / (LEAST_STEPS * sum(map(_step_seconds, pair)))))
    for turn in range(turns):
        share = (deadline - time.perf_counter()) / 2 / (turns - turn)
        for tried in pair:
            try:
                tried.laps.append(tried.pace.during(_enough(tried, share)))
            except Exception:  # noqa: BLE001  as in the first steps
                return tried
    return None


def _step_seconds(tried: _Tried) -> float:
    last = tried.laps[-1]
    return last.seconds / last.steps


def _enough(tried: _Tried, seconds: float) -> float:
    return min(seconds, ENOUGH_STEPS * _step_seconds(tried))
