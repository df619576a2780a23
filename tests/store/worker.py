"""A runner in small, as a process of its own: claims and publishes, and tells what it did.

Reads one store per line from standard input; answers each with one JSON line: the claims it made and what landed.
`--no-flock` makes every lock succeed, `--trouble` causes what trouble.py describes; an attempt that meets a fault of the disk
ends as the protocol says. `--poison GID:KILL` (or RAISE) lets the process die (or fail) when it trains that group,
`--largest-file` limits what it may write. Three faults of the disk in a row end it.
The first file of a result depends on its run only, the second on the attempt.
"""

import argparse
import fcntl
import hashlib
import json
import os
import resource
import runpy
import signal
import sys
import time
from pathlib import Path

from contilab.store.claimer import Claimer, Idle
from contilab.store.store import open_store

COMPARED = frozenset({"numbers"})


def content(rid, runner):
    """Return the files of a result."""
    return {"numbers": hashlib.sha256(rid.encode()).digest() * 64, "attempt": runner.encode()}


def drain(root, pause_s, poison=""):
    """Work until nothing is open; return the claims and what `publish` said of each."""
    store = open_store(root)
    runner = os.urandom(16).hex()
    claimer = Claimer(store, runner=runner, versions={"contilab": "test"})
    claims, faults, in_a_row, claim = [], 0, 0, None
    while in_a_row < 3:
        try:
            claim = claimer.claim_next()
        except OSError:  # the claimer has ended the attempt, if there was one
            faults, in_a_row = faults + 1, in_a_row + 1
            continue
        if isinstance(claim, Idle):
            if not claim.busy:
                break
            time.sleep(claimer.pause_seconds() if pause_s is None else pause_s)
            continue
        with claim:
            try:
                done = attempt(claim, poison)._asdict()
                in_a_row = 0
            except (OSError, ValueError) as error:
                faults, in_a_row = faults + 1, in_a_row + 1
                try:
                    claim.fail(error)
                except OSError:  # not even the last words fit, and the reserve is used up: this runner is of no use
                    in_a_row = 3
                done = {"landed": [], "late": [], "error": str(error)}
        claims.append({"gid": claim.gid, "n": claim.n, **done})
    claimer.close()
    blocked = claim.quarantined if isinstance(claim, Idle) else ()
    return {"runner": runner, "claims": claims, "faults": faults, "quarantined": list(blocked)}


def attempt(claim, poison):
    """Take a checkpoint over, write the next, build the results and publish them."""
    step = claim.checkpoint()
    if poison == f"{claim.gid}:KILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if poison == f"{claim.gid}:RAISE":
        raise ValueError("this group cannot be trained")
    claim.save_checkpoint(step.step + 1 if step else 1, {"state": claim.runner.encode(), "weights": bytes(64)})
    for rid in claim.rids:
        claim.put_files(rid, content(rid, claim.runner))
    return claim.publish(dict.fromkeys(claim.rids, "finished"), COMPARED, circumstances={"machine": "same"})


def main():
    """Serve the stores named on standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-flock", action="store_true")
    parser.add_argument("--pause", type=float, default=None)
    parser.add_argument("--trouble", action="append", default=[])
    parser.add_argument("--poison", default="")
    parser.add_argument("--largest-file", type=int, default=None)
    arguments = parser.parse_args()
    if arguments.no_flock:
        fcntl.flock = lambda *_: None
    for kind in arguments.trouble:
        runpy.run_path(str(Path(__file__).parent / "trouble.py"))["cause"](kind)
    if arguments.largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (arguments.largest_file, arguments.largest_file))
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        print(json.dumps(drain(Path(line.strip()), arguments.pause, arguments.poison)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
