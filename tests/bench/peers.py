"""A whole study side by side: contilab, the loop that one would write by hand, and avalanche-lib 0.6.0.

Eight seeds of naive and er on Split Fashion-MNIST, as `by_hand.py` says: the same pixels, net, batch, optimiser and number of
steps everywhere, and fp32, which is what the peers have; contilab is measured with `engine.precision = "auto"` too. It counts
from the start of `contilab plan` to the written report, the loop as one process for all seeds of both methods, Avalanche as
one process per seed; each with all that a process takes to start.

    python tests/bench/peers.py                                   # contilab and the loop, five turns: 10 minutes
    python tests/bench/peers.py --avalanche VENV/bin/python       # and every seed of Avalanche once: 5 minutes more
    python tests/bench/peers.py --precision fp32                  # in fp32 only: 7 minutes
    python tests/bench/peers.py --avalanche VENV/bin/python --avalanche-seeds 2    # two seeds of eight, times four

Peers take turns, Avalanche's seeds spread over them, so ratios hold on a machine that changes its pace; still, let nothing else
run. Aims: at most 1/10 of Avalanche's time and 1/1.7 of the loop's. VENV: torch==2.13.0 torchvision==0.28.0
avalanche-lib==0.6.0; the pixels come from Debian's package dataset-fashion-mnist, or from --fmnist DIR.
"""

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from contilab.hardware.neighbours import MOST_CORES, Neighbours
from contilab.hardware.threads import thread_budget
from contilab.records.outcome import read_record

HERE = Path(__file__).parent
METHODS = ("naive", "er")
AIMS = {"by hand": 1.7, "avalanche-lib": 10.0}  # times contilab's time
MANIFEST = """
name = "peers"
profile = "cpu"
[matrix]
preset = ["split_fmnist_class"]
method = ["naive", "er"]
seed = {seeds}
[overrides]
"benchmark.validation" = 0.0
"benchmark.class_mask" = "all"
"train.batch" = 32
"optim.lr" = 0.05
"eval.keep_parameters" = false
"engine.precision" = "{precision}"
[method_overrides.er]
"memory.total" = 500
"memory.batch" = 32
"""


class Turn(NamedTuple):
    """One turn of a peer. *seconds* of wall time by part, accuracy by method, cores that others used, and what else to tell."""

    seconds: dict[str, float]
    accuracy: dict[str, float]
    foreign_cores: float
    told: str = ""

    @property
    def whole(self):
        """Seconds of all parts."""
        return sum(self.seconds.values())


def contilab(seeds, precision):
    """Plan, train and report the study in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "store")
        text = MANIFEST.format(seeds=json.dumps(list(range(seeds))), precision=precision)
        Path(folder, "peers.toml").write_text(text, encoding="utf-8")
        commands = {"plan": ["plan", f"{folder}/peers.toml"], "run": ["run"], "report": ["report", "peers"]}
        with Neighbours() as others:
            seconds = {name: command([*words, "--store", str(store)]) for name, words in commands.items()}
        groups, accuracy = results(store)
        return Turn(divided(seconds, groups), accuracy, others.cores, "; ".join(group["told"] for group in groups.values()))


def command(words):
    """Run `contilab` with *words* and return how long it took."""
    program = "from contilab.cli.main import main; main()"
    begin = time.perf_counter()
    spoken([sys.executable, "-c", program, *words])
    return time.perf_counter() - begin


def spoken(words, environ=None):
    """Run a command and return what it wrote; where it fails, end with what it complained of."""
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environ)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def results(store):
    """Return by method what its group took and how it was trained, and the mean accuracy of its seeds after the last task."""
    groups, accuracies = {}, {method: [] for method in METHODS}
    for path in sorted((store / "results").glob("*/record.jsonl")):
        record = read_record(path.parent)
        method = tomllib.loads((path.parent / "config.toml").read_text(encoding="utf-8"))["method"]["name"]
        chosen = json.loads((path.parent / "env.json").read_text(encoding="utf-8"))
        cost = record.cost
        form = " ".join(chosen[name]["value"] for name in ("execution", "precision"))
        compiled = " compiled" * (chosen["compile"]["value"] == "on")
        groups[method] = {
            "training": cost.seconds_group - cost.seconds_recording,
            "evaluation": cost.seconds_recording,
            "told": f"{method}: {cost.members} members by {form}{compiled} on {chosen['threads']['value']} threads, "
            f"{cost.seconds_group - cost.seconds_recording:.1f} s training, {cost.seconds_recording:.1f} s evaluation",
        }
        accuracies[method].append(statistics.fmean(record.accuracy[-1]))
    return groups, {method: statistics.fmean(found) for method, found in accuracies.items() if found}


def divided(seconds, groups):
    """Return *seconds* with those of `run` divided into start-up, training and evaluation.

    Groups that two workers trained side by side take longer together than the run: then those of the longest count.
    """
    totals = {name: group["training"] + group["evaluation"] for name, group in groups.items()}
    counted = list(groups) if sum(totals.values()) < seconds["run"] else [max(totals, key=totals.get)]
    parts = {part: sum(groups[name][part] for name in counted) for part in ("training", "evaluation")}
    startup = seconds["run"] - sum(parts.values())
    return {"plan": seconds["plan"], "start-up": startup, **parts, "report": seconds["report"]}


def by_hand(seeds):
    """Let one process train all seeds by hand."""
    return processes({"by hand": [[sys.executable, HERE / "by_hand.py", ",".join(METHODS), *range(seeds)]]})


def processes(many, **environ):
    """Run each list of commands one after the other and return the turn; *environ*: besides what is set."""
    seconds, accuracy = {}, {}
    surrounding = {**os.environ, "NT": str(thread_budget().count), **environ}
    with Neighbours() as others:
        for name, commands in many.items():
            begin = time.perf_counter()
            for words in commands:
                for line in spoken(list(map(str, words)), surrounding).splitlines():
                    if line.startswith("{"):
                        told = json.loads(line)
                        accuracy.setdefault(told["method"], []).append(told["accuracy"])
            seconds[name] = time.perf_counter() - begin
    return Turn(seconds, {method: statistics.fmean(found) for method, found in accuracy.items()}, others.cores)


def unzipped(source, folder):
    """Put the files of *source* below *folder* as torchvision wants them, and return *folder*."""
    raw = Path(folder, "FashionMNIST", "raw")
    raw.mkdir(parents=True)
    for path in Path(source).glob("*-ubyte.gz"):
        with gzip.open(path) as packed, (raw / path.stem).open("wb") as out:
            shutil.copyfileobj(packed, out)
    return str(folder)


def compare(asked):
    """Measure every peer in turns; yields its name with each turn."""
    jobs = [(method, seed) for seed in range(asked.avalanche_seeds or asked.seeds) for method in METHODS]
    with tempfile.TemporaryDirectory() as folder:
        root = unzipped(asked.fmnist, folder) if asked.avalanche else ""
        for turn in range(asked.turns):
            for precision in asked.precision:
                yield f"contilab {precision}", contilab(asked.seeds, precision)
            yield "by hand", by_hand(asked.seeds)
            mine = jobs[turn :: asked.turns] if asked.avalanche else []
            for method, seed in mine:
                words = [asked.avalanche, HERE / "avalanche_lib.py", method, seed]
                yield "avalanche-lib", processes({f"{method} {seed}": [words]}, AVA_ROOT=root)


def summary(turns, asked, precision):
    """Return the lines of the table for *turns*, lists of them by peer, with contilab in *precision*."""
    name = f"contilab {precision}"
    turns = {peer: found for peer, found in turns.items() if peer == name or not peer.startswith("contilab")}
    scale = asked.seeds / (asked.avalanche_seeds or asked.seeds)
    own = statistics.median(turn.whole for turn in turns[name])
    lines = [f"{asked.seeds} seeds x (naive, er), Split Fashion-MNIST, {thread_budget().count} threads, {asked.turns} turns"]
    for peer, found in turns.items():
        seconds = (
            scale * sum(turn.whole for turn in found)
            if peer == "avalanche-lib"
            else statistics.median(turn.whole for turn in found)
        )
        marks = {method: [turn.accuracy[method] for turn in found if method in turn.accuracy] for method in METHODS}
        accuracies = ", ".join(f"{method} {statistics.fmean(values):.4f}" for method, values in marks.items() if values)
        most = max(turn.foreign_cores for turn in found)
        verdict = ""
        if peer in AIMS:
            verdict = f"  {'passes' if seconds / own >= AIMS[peer] else 'FAILS'} (aim {AIMS[peer]:g})"
        lines.append(
            f"  {peer:13} {seconds:7.1f} s  {seconds / own:6.2f} times contilab{verdict}; accuracy {accuracies}; "
            f"others used up to {most:.2f} cores{', TOO BUSY' * (most > MOST_CORES)}"
        )
        if peer == "avalanche-lib" and scale != 1:
            lines.append(f"    measured: {asked.avalanche_seeds} of {asked.seeds} seeds, times {scale:g}")
    parts = {part: statistics.median(turn.seconds[part] for turn in turns[name]) for part in turns[name][0].seconds}
    lines.append("  contilab's median: " + ", ".join(f"{part} {seconds:.1f} s" for part, seconds in parts.items()))
    lines.append(f"  the last turn: {turns[name][-1].told}")
    return lines


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--turns", type=int, default=5)
    words = ["fp32", "auto"]
    parser.add_argument("--precision", nargs="+", choices=words, default=words, help="of contilab; the peers have fp32")
    parser.add_argument("--avalanche", help="the Python of the environment that has it")
    parser.add_argument("--avalanche-seeds", type=int, default=0, help="so many of the seeds, the time scaled; all")
    parser.add_argument("--fmnist", default="/usr/share/datasets/fashion-mnist", help="folder of the four .gz files")
    asked = parser.parse_args()
    turns = {}
    for peer, turn in compare(asked):
        turns.setdefault(peer, []).append(turn)
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in turn.seconds.items())
        sys.stderr.write(f"{peer}: {turn.whole:.1f} s ({parts}), others {turn.foreign_cores:.2f} cores\n")
    for precision in asked.precision:
        sys.stdout.write("\n".join(summary(turns, asked, precision)) + "\n")


if __name__ == "__main__":
    main()
