"""One attempt at a group: train its runs, write each result with what stands next to it, publish."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import fmean
from typing import Any, NamedTuple

from contilab.engine.environment import environment
from contilab.engine.train import train
from contilab.engine.watch import Progress, Watch
from contilab.errors import Stopped
from contilab.metrics.compute import compute
from contilab.records.outcome import COMPARED, Outcome, files_of
from contilab.records.record import Record
from contilab.runner.logging import GroupLog
from contilab.runner.progress import Display
from contilab.runner.resources import Resources
from contilab.runner.sidecars import CONFIG, ENVIRONMENT, LOG, config_toml, env_json, machine
from contilab.runner.tally import Tally
from contilab.spec.group import group_address
from contilab.spec.run import Run
from contilab.store.claim import Claim, Published
from contilab.store.ending import Kind, is_environment
from contilab.store.layout import short


class Surroundings(NamedTuple):
    """What an attempt needs besides its claim."""

    resources: Resources
    shown: Display
    stop: Callable[[], bool]


def attempt(claim: Claim, runs: list[Run], around: Surroundings, tally: Tally) -> None:
    """Train *runs* under *claim* and publish their results; how it ended goes into the store, the log and *tally*."""
    log = GroupLog(group=short(claim.gid), attempt=claim.n)
    around.shown.begin(_label(runs), len(runs))
    try:
        log.log("group_started", what=_label(runs), runs=len(runs), seeds=sorted({run.seed for run in runs}))
        outcomes = train(runs, around.resources.execution, _watch(claim, around, log))
        published = _publish(claim, outcomes, {run.rid: run for run in runs}, around.resources, log)
        tally.add_published(len(published.landed))
        if published.mismatched:
            log.log("results_disagree", level="warning", rids=[short(rid) for rid in published.mismatched])
        ending = "group_superseded" if published.is_superseded else "group_done"
        log.log(ending, published=len(published.landed), mean_acc=_mean_acc(outcomes))
    except Stopped:
        kind: Kind = "superseded" if claim.is_superseded() else "released"
        with suppress(OSError):  # without it the attempt looks like a crash, and others go on after a while
            claim.end(kind)
        log.log(f"group_{kind}")
    except Exception as error:  # noqa: BLE001  whatever training raises is kept with the group, and the others go on
        _fail(claim, error, log, tally)
    finally:
        around.shown.end()


def _watch(claim: Claim, around: Surroundings, log: GroupLog) -> Watch:
    def progress(progress: Progress) -> None:
        claim.tell(step=progress.step, steps=progress.steps, samples_per_second=progress.samples_per_second)
        around.shown.step(progress)

    def details(event: str, **facts: Any) -> None:
        log.log(event, **{"level": "debug", **facts})

    return Watch(progress=progress, stop=lambda: around.stop() or claim.is_superseded(), log=details)


def _publish(claim: Claim, outcomes: list[Outcome], runs: Mapping[str, Run], resources: Resources, log: GroupLog) -> Published:
    choices = {**environment(list(runs.values()), resources.execution), **resources.choices}
    for outcome in outcomes:
        log.log("run_done", level="debug", rid=outcome.rid, state=outcome.record.state, acc=_acc(outcome.record))
    for outcome in outcomes:
        run = runs[outcome.rid]
        papers = {CONFIG: config_toml(run), ENVIRONMENT: env_json(choices), LOG: log.lines(run.rid)}
        claim.put_files(run.rid, {**files_of(outcome), **papers})
    return claim.publish(
        {outcome.rid: outcome.record.state for outcome in outcomes},
        frozenset(COMPARED),
        circumstances=_circumstances(choices, claim.rids),
        acc={outcome.rid: _acc(outcome.record) for outcome in outcomes},
    )


def _circumstances(choices: Mapping[str, Any], rids: tuple[str, ...]) -> dict[str, Any]:
    """Return what must be equal before two attempts must agree in every bit."""
    used = {name: str(choice["value"]) for name, choice in choices.items() if isinstance(choice, Mapping)}
    processor = machine()["capabilities"]["cpu"]["model"]
    return {**used, "versions": machine()["versions"], "processor": processor, "members": group_address(rids)}


def _fail(claim: Claim, error: Exception, log: GroupLog, tally: Tally) -> None:
    place = f"group {short(claim.gid)}"
    text = f"{type(error).__name__}: {error}"
    # the disk that failed is the one the end is written to; without it the attempt looks like a crash, which is right too
    with suppress(OSError):
        claim.fail(error)
    if is_environment(error):
        tally.add_environment(place, claim.rids, error)
        log.log("group_environment_fault", level="error", error=text)
    else:
        tally.add_failed(claim.gid, claim.rids, error)
        log.log("group_failed", level="error", error=text)


def _acc(record: Record) -> float | None:
    value = compute(record)["acc"]
    return value if isinstance(value, float) else None


def _mean_acc(outcomes: list[Outcome]) -> float | None:
    found = [value for outcome in outcomes if (value := _acc(outcome.record)) is not None]
    return round(fmean(found), 4) if found else None


def _label(runs: list[Run]) -> str:
    first = runs[0]
    return f"{first.benchmark.name} {first.benchmark.scenario} {first.method.name}"
