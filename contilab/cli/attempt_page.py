"""What `contilab status` says of one run or one group: what it is, how it stands, its attempts, their log and traceback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from contilab.cli.columns import columns
from contilab.disk.read import names, read_file, read_object, read_table
from contilab.store.block import block, blocks
from contilab.store.generation import Generation, generation, history
from contilab.store.journal import lines
from contilab.store.layout import numbers, short
from contilab.store.status import RunStatus, study_status
from contilab.store.store import Store
from contilab.store.target import groups_of

LOG_LINES = 40  # of the end of a log; chosen: a group of ten tasks logs about as much


def run_table(store: Store, rid: str) -> dict[str, Any]:
    """Return everything about a run as plain tables."""
    result = store.result_dir(rid)
    groups = [group_table(store, gid) for gid in groups_of(store, {rid})]
    plans = {name: study for name, study in store.studies().items() if rid in study.rids}
    status = study_status(store, next(iter(plans.values())))[rid] if plans else _unplanned(store, rid)
    return {
        "run": rid,
        "studies": list(plans),
        **{name: value for name, value in status._asdict().items() if value not in ("", None, 0, False)},
        "config": _config(store, rid),
        "result": str(result.absolute()) if result.is_dir() else None,
        "groups": groups,
        **_log_of_run(result / "log.jsonl", groups, rid),
    }


def group_table(store: Store, gid: str) -> dict[str, Any]:
    """Return everything about a group as plain tables."""
    layout = store.layout
    found = [generation(layout, gid, n) for n in numbers(names(layout.claims(gid)), ".json")]
    blocked = block(layout, gid, blocks(layout), history(layout, gid))
    return {
        "group": gid,
        "runs": list(store.group(gid)),
        "blocked": blocked._asdict() if blocked else None,
        "attempts": [_attempt(store, one) for one in found],
        **_last_log(store, gid, found),
    }


def run_page(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a run."""
    yield f"run {facts['run']}"
    yield f"  studies: {', '.join(facts['studies']) or 'none names it any more'}"
    yield f"  state: {facts['state']}" + (f": {facts['reason']}" if facts.get("reason") else "")
    if facts["result"]:
        yield f"  result: {facts['result']}"
    yield ""
    yield facts["config"].rstrip()
    for group in facts["groups"]:
        yield ""
        yield from group_page({**group, "log": []})
    yield from _shown_log(facts)


def group_page(facts: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a group."""
    yield f"group {facts['group']}"
    yield f"  runs: {', '.join(map(short, facts['runs']))}"
    if blocked := facts["blocked"]:
        reason = f": {blocked['reason']}" if blocked["reason"] else ""
        yield f"  {blocked['state']} after attempt {blocked['n']}{reason}; contilab retry {short(facts['group'])} releases it"
    if not facts["attempts"]:
        yield "  no attempt yet"
        return
    rows = [[f"  {one['n']}", one["kind"], one["who"], one["step"], one["end"], one["error"]] for one in facts["attempts"]]
    yield columns([["  n", "kind", "by", "from step", "end", "error"], *rows])
    traces = [one for one in facts["attempts"] if one["traceback"]]
    if traces:
        yield f"\ntraceback of attempt {traces[-1]['n']}:\n{traces[-1]['traceback'].rstrip()}"
    yield from _shown_log(facts)


def _attempt(store: Store, one: Generation) -> dict[str, Any]:
    who = read_table(store.layout.runner(one.runner)).get("host") if one.runner else ""
    is_over = one.end is not None or one.is_reset
    return {
        "n": one.n,
        "kind": str(one.claim.get("kind", "unreadable")),
        "who": str(who or short(one.runner)),
        "step": one.start("step"),
        "end": one.end_kind if is_over else "open, or died without a word",
        "error": " ".join(one.failure.split()),
        "traceback": str((one.end or {}).get("traceback", "")),
    }


def _unplanned(store: Store, rid: str) -> RunStatus:
    return RunStatus("done" if store.has_result(rid) else "damaged" if store.result_dir(rid).exists() else "waiting")


def _config(store: Store, rid: str) -> str:
    from contilab.runner.sidecars import config_toml

    return config_toml(store.run(rid)).decode()


def _last_log(store: Store, gid: str, found: list[Generation]) -> dict[str, Any]:
    """Return the log of the last attempt that left one; it may be under way, or have died without a word."""
    for one in reversed(found):
        path = store.layout.log(gid, one.n)
        if written := lines(path, store.layout.older_log(gid, one.n)):
            return {"log_of": f"attempt {one.n} in {path.absolute()}", "log": _events(written)}
    return {"log_of": "", "log": []}


def _log_of_run(path: Path, groups: list[dict[str, Any]], rid: str) -> dict[str, Any]:
    """Return the log of the result, else that of the last attempt at a group of the run, without what is about others."""
    if written := (read_file(path) or b"").splitlines():
        return {"log_of": f"the result in {path.absolute()}", "log": _events(written)}
    for group in groups:
        if events := [event for event in group["log"] if event.get("rid", rid) == rid]:
            return {"log_of": group["log_of"], "log": events}
    return {"log_of": "", "log": []}


def _events(written: list[bytes]) -> list[dict[str, Any]]:
    return [event for line in written if (event := read_object(line))][-LOG_LINES:]


def _shown_log(facts: dict[str, Any]) -> Iterator[str]:
    if log := facts["log"]:
        yield f"\nlog of {facts['log_of']}, its last {len(log)} events:"
    for event in log:
        facts = {name: value for name, value in event.items() if name not in ("event", "level", "timestamp", "rid", "group")}
        text = " ".join(f"{name}={value}" for name, value in facts.items())
        yield f"  {event.get('timestamp', '')} {event.get('level', '')} {event.get('event', '')} {text}".rstrip()
