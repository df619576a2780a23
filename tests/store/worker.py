"""A runner in small, as a process of its own: claims and publishes, and tells what it did.

Reads one store per line from standard input; answers each with one JSON line: the claims it made and what landed.
`--no-flock` makes every lock succeed. The first file of a result depends on its run only, the second on the attempt.
"""

import argparse
import fcntl
import hashlib
import json
import os
import sys
import time
from pathlib import Path

from contilab.store.claimer import Claimer, Idle
from contilab.store.store import open_store

COMPARED = frozenset({"numbers"})


def content(rid, runner):
    """Return the files of a result."""
    return {"numbers": hashlib.sha256(rid.encode()).digest() * 64, "attempt": runner.encode()}


def drain(root, pause_s):
    """Work until nothing is open; return the claims and what `publish` said of each."""
    store = open_store(root)
    runner = os.urandom(16).hex()
    claimer = Claimer(store, runner=runner, versions={"contilab": "test"})
    claims = []
    while True:
        claim = claimer.claim_next()
        if isinstance(claim, Idle):
            if not claim.busy:
                claimer.close()
                return {"runner": runner, "claims": claims}
            time.sleep(claimer.pause_seconds() if pause_s is None else pause_s)
            continue
        with claim:
            step = claim.checkpoint()
            claim.save_checkpoint(step.step + 1 if step else 1, {"state": runner.encode(), "weights": bytes(64)})
            for rid in claim.rids:
                claim.put_files(rid, content(rid, runner))
            done = claim.publish(dict.fromkeys(claim.rids, "finished"), COMPARED, circumstances={"machine": "same"})
        claims.append({"gid": claim.gid, "n": claim.n, **done._asdict()})


def main():
    """Serve the stores named on standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--no-flock", action="store_true")
    parser.add_argument("--pause", type=float, default=None)
    arguments = parser.parse_args()
    if arguments.no_flock:
        fcntl.flock = lambda *_: None
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        print(json.dumps(drain(Path(line.strip()), arguments.pause)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
