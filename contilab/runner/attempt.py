"""One attempt at a group: train its runs, write each result with what stands next to it, publish."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from contilab.errors import Stopped
from contilab.metrics.compute import compute
from contilab.records.outcome import COMPARED, Outcome, files_of
from contilab.records.record import Record
from contilab.runner.logging import GroupLog
from contilab.runner.parts import Split, in_parts
from contilab.runner.progress import Display
from contilab.runner.resources import Resources
from contilab.runner.resumption import Resumptions
from contilab.runner.sidecars import CONFIG, ENVIRONMENT, LOG, config_toml, env_json, machine, processor
from contilab.runner.tally import Tally
from contilab.runner.training import FALLBACK, Training
from contilab.spec.group import group_address
from contilab.spec.run import Run
from contilab.store.claim import Claim, Published
from contilab.store.ending import Kind, is_environment
from contilab.store.layout import short


class Surroundings(NamedTuple):
    """What an attempt needs besides its claim. *seconds_left*: until this process must have ended, once *stop* says so.

    *share*: processes that share this machine. *most*: runs to train at once, as a worker that trained more was killed.
    """

    resources: Resources
    shown: Display
    stop: Callable[[], bool]
    seconds_left: Callable[[], float] = lambda: math.inf
    share: int = 1
    most: int | None = None


def attempt(claim: Claim, runs: list[Run], around: Surroundings, tally: Tally) -> None:
    """Train *runs* under *claim* and publish their results; how it ended goes into the store, the log and *tally*."""
    log = GroupLog(claim.keep_line, group=short(claim.gid), attempt=claim.n)
    try:
        log.log("group_started", what=_label(runs), runs=len(runs), seeds=sorted({run.seed for run in runs}))
        _train(claim, runs, around, tally, log)
    except Stopped:
        kind = _kind_of_stop(claim)
        log.log(f"group_{kind}")
        _end(lambda: claim.end(kind), claim, tally)
    except Exception as error:  # noqa: BLE001  whatever training raises is kept with the group, and the others go on
        _fail(claim, error, log, tally)
    finally:
        around.shown.end()


def _train(claim: Claim, runs: list[Run], around: Surroundings, tally: Tally, log: GroupLog) -> None:
    """Train *runs* together, in parts where memory does not suffice, and publish each part."""
    begins = Resumptions(claim, around.resources, log)
    training = Training(
        claim, log, around.shown, begins, stop=around.stop, seconds_left=around.seconds_left, share=around.share
    )

    def train(part: Sequence[Run], is_last: bool) -> list[Outcome]:  # noqa: FBT001  as `in_parts` calls it
        around.shown.begin(_label(runs), len(part))  # the parent goes by the number of runs that are trained at once
        return training.train(part, is_last)

    published: list[Published] = []
    accs: list[float | None] = []
    for part, split, outcomes in in_parts(runs, train, partial(_tell_of_memory, log), most=around.most):
        choices = training.choices(part, split, len(runs))
        published.append(_publish(claim, outcomes, part, choices, log))
        tally.add_published(len(published[-1].landed))
        accs += [_acc(outcome.record) for outcome in outcomes]
        if published[-1].is_superseded:
            break
    mismatched = [short(rid) for one in published for rid in one.mismatched]
    if mismatched:
        log.log("results_disagree", level="warning", rids=mismatched)
    ending = "group_superseded" if published[-1].is_superseded else "group_done"
    log.log(ending, published=sum(len(one.landed) for one in published), mean_acc=_mean(accs))


def _kind_of_stop(claim: Claim) -> Kind:
    if claim.is_superseded():
        return "superseded"
    return "cancelled" if claim.is_cancelled() else "released"


def _tell_of_memory(log: GroupLog, part: Sequence[Run], split: Split) -> None:
    at_a_time = -(-len(part) // split.parts)
    log.log(split.event, level="warning", runs=len(part), next=f"trains {at_a_time} at a time", **split.facts)


def _publish(
    claim: Claim, outcomes: list[Outcome], part: Sequence[Run], choices: Mapping[str, Any], log: GroupLog
) -> Published:
    runs = {run.rid: run for run in part}
    for outcome in outcomes:
        log.log("run_done", level="debug", rid=outcome.rid, state=outcome.record.state, acc=_acc(outcome.record))
    for outcome in outcomes:
        run = runs[outcome.rid]
        papers = {CONFIG: config_toml(run), ENVIRONMENT: env_json(choices), LOG: log.lines(run.rid)}
        claim.put_files(run.rid, {**files_of(outcome), **papers})
    return claim.publish(
        {outcome.rid: outcome.record.state for outcome in outcomes},
        frozenset(COMPARED),
        circumstances=_circumstances(choices, tuple(runs)),
        acc={outcome.rid: _acc(outcome.record) for outcome in outcomes},
    )


def _circumstances(choices: Mapping[str, Any], rids: tuple[str, ...]) -> dict[str, Any]:
    """Return what must be equal before two attempts must agree in every bit."""
    used = {name: str(choice["value"]) for name, choice in choices.items() if isinstance(choice, Mapping)}
    used |= {"compile": "on until it failed"} if choices[FALLBACK] else {}
    return {**used, "versions": machine()["versions"], "processor": processor(used["device"]), "members": group_address(rids)}


def _fail(claim: Claim, error: Exception, log: GroupLog, tally: Tally) -> None:
    place = f"group {short(claim.gid)}"
    text = f"{type(error).__name__}: {error}"
    if is_environment(error):
        tally.add_environment(place, claim.rids, error)
        log.log("group_environment_fault", level="error", error=text)
    else:
        tally.add_failed(claim.gid, error)
        log.log("group_failed", level="error", error=text)
    _end(lambda: claim.fail(error), claim, tally)


def _end(write: Callable[[], None], claim: Claim, tally: Tally) -> None:
    """Let *write* say how the attempt ended. Where not even that fits, with the reserve given up, this runner must end.

    The attempt looks like a crash then, which is right too.
    """
    try:
        write()
    except OSError as error:
        tally.add_silenced(f"group {short(claim.gid)}", error)


def _acc(record: Record) -> float | None:
    value = compute(record)["acc"]
    return value if isinstance(value, float) else None


def _mean(accs: list[float | None]) -> float | None:
    found = [value for value in accs if value is not None]
    return round(fmean(found), 4) if found else None


def _label(runs: list[Run]) -> str:
    first = runs[0]
    return f"{first.benchmark.name} {first.benchmark.scenario} {first.method.name}"
