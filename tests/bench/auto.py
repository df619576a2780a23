"""How good the choices of `auto` are: with a profile against the best row of bench, without one against the best eager row.

    python tests/bench/auto.py --json choices.jsonl                # all 13 cases, each in a process of its own
    python tests/bench/auto.py --json choices.jsonl --minutes 13   # no case begins that would not end by then; call again
    python tests/bench/auto.py --json eager.jsonl --compile off    # eager forms alone: the half of the claim without a profile
    python tests/bench/auto.py --model mlp --members 1,8 --batch 10

A case that the file tells of is not measured again; the summary is of all cases of the file, so several calls make one table.
A case takes half a minute without compiled forms (13 cases: 8 minutes). Compiling takes a minute more for a perceptron, and
three to seven for a ResNet: its forms took 20 to 100 s each on one core; --precision fp32 halves that. What was compiled stays
in torch's cache, so a case that was interrupted is quicker the next time (13 cases with nothing compiled yet: 40 minutes).

Aims: with a profile of bench at least 90 % of the best row; without one at least 85 % of the best eager row, for less than 3 s
besides the first step of each form. Speeds are medians of five turns on all threads, choices of `auto` are made five times,
each measured anew; the first one in a process where nothing was trained before. Let nothing else run.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from contilab.hardware.process import prepare

prepare()

import torch  # noqa: E402  the process is prepared first

from contilab.bench.measure import Wanted, measure  # noqa: E402
from contilab.bench.noise import group  # noqa: E402
from contilab.engine.choice import trial  # noqa: E402
from contilab.engine.choice.form import Form, form_of  # noqa: E402
from contilab.engine.choice.pace import Pace  # noqa: E402
from contilab.engine.environment import choose  # noqa: E402
from contilab.hardware.neighbours import MOST_CORES  # noqa: E402
from contilab.hardware.profile import Answer, Profiles  # noqa: E402
from contilab.hardware.threads import thread_budget, use_threads  # noqa: E402
from contilab.spec.sections import Execution, Numerics, Plugin  # noqa: E402

CASES = [("mlp", members, batch) for members in (1, 8, 32) for batch in (10, 32, 128)]
CASES += [("resnet18r", members, batch) for members in (1, 4) for batch in (10, 32)]
WITH_PROFILE, WITHOUT, MOST_SECONDS = 0.90, 0.85, 3.0
EXPECTED = {("mlp", "off"): 30, ("mlp", "on"): 100, ("resnet18r", "off"): 40, ("resnet18r", "on"): 450}  # seconds of a case


class _Noted(Pace):
    """A pace that adds to *beginnings* the seconds of its building and first step, which the trial is not charged for."""

    beginnings = 0.0

    def __init__(self, *words, **named):
        self._begin = time.perf_counter()
        super().__init__(*words, **named)
        self._has_begun = False

    def lap(self, limit):
        """Train by one chunk, as any pace."""
        lap = super().lap(limit)
        if not self._has_begun:
            self._has_begun = True
            _Noted.beginnings += time.perf_counter() - self._begin
        return lap


def chosen(setup, profiles):
    """Return the form that `auto` chooses, what it took, and what of that were first steps; all in seconds."""
    _Noted.beginnings = 0.0
    begin = time.perf_counter()
    with patch.object(trial, "Pace", _Noted):
        choices = choose(setup.runs, Execution(device="cpu"), setup.learner, profiles=profiles, setup=setup)
    form = Form(choices.execution.value, choices.precision.value, choices.compile.value)
    return form, time.perf_counter() - begin, _Noted.beginnings


def asking(model, members, batch, precision):
    """Return the group whose runs leave the choice to `auto`, but for a *precision* that is asked for."""
    setup = group(Plugin(name=model), members=members, batch=batch)
    return setup._replace(runs=tuple(replace(run, engine=Numerics(precision=precision)) for run in setup.runs))


def case(model, members, batch, asked):
    """Measure one case and return it as a plain table."""
    trials = [chosen(asking(model, members, batch, asked.precision), Profiles()) for _ in range(asked.trials)]
    wanted = Wanted(
        Plugin(name=model),
        members,
        batch,
        precisions=(asked.precision,),
        compiles=("off", "on") if asked.compile == "on" else ("off",),
        repetitions=asked.repetitions,
        seconds=asked.seconds,
    )
    found = measure(wanted)
    speeds = {form_of(rate): rate.samples_per_s for rate in found.rates}
    eager = max(speed for form, speed in speeds.items() if form.compile == "off")
    profiles = Profiles()
    profiles.keep(found.shape, Answer(found.rates, "bench", "", 0.0))
    stored, _, _ = chosen(asking(model, members, batch, asked.precision), profiles)
    return {
        "model": model,
        "members": members,
        "batch": batch,
        "compile": asked.compile,
        "precision": asked.precision,
        "threads": torch.get_num_threads(),
        "stored": str(stored),
        "stored_share": speeds.get(stored, 0.0) / max(speeds.values()),
        "tried": [str(form) for form, _, _ in trials],
        "tried_shares": [speeds.get(form, 0.0) / eager for form, _, _ in trials],
        "trial_seconds": [seconds for _, seconds, _ in trials],
        "first_step_seconds": [seconds for _, _, seconds in trials],
        "foreign_cores": found.foreign_cores,
        "speeds": {str(form): round(speed) for form, speed in sorted(speeds.items(), key=lambda pair: -pair[1])},
        "refused": {f"{row.execution} {row.precision} {row.compile}": row.reason for row in found.rows if row.reason},
    }


def line(one):
    """Return what is told of one case, and whether it passes."""
    share = statistics.median(one["tried_shares"])
    charged = [whole - first for whole, first in zip(one["trial_seconds"], one["first_step_seconds"], strict=True)]
    cost = statistics.median(charged)
    faults = [
        *(["profile"] if one["stored_share"] < WITH_PROFILE else []),
        *(["trial"] if share < WITHOUT else []),
        *(["time"] if cost >= MOST_SECONDS else []),
    ]
    names = "/".join(dict.fromkeys(one["tried"]))
    text = (
        f"{one['model']:10} E {one['members']:2} B {one['batch']:3}  "
        f"with a profile {one['stored']}: {one['stored_share']:.0%} of the best{' eager' * (one['compile'] == 'off')}"
        f"  without {names}: {share:.0%} (worst {min(one['tried_shares']):.0%}) of the best eager, {cost:.1f} s (first of the "
        f"process {charged[0]:.1f} s) besides first steps of {one['first_step_seconds'][0]:.1f} s"
        f"  {'passes' if not faults else 'FAILS: ' + ', '.join(faults)}"
        f"{'  others used ' + format(one['foreign_cores'], '.2f') + ' cores' if one['foreign_cores'] > MOST_CORES else ''}"
    )
    return text, not faults


def main():
    """Check all cases, or those that the command line names."""
    asked = arguments()
    if asked.case:
        model, members, batch = asked.case.split(",")
        use_threads(thread_budget().count)
        sys.stdout.write(json.dumps(case(model, int(members), int(batch), asked)) + "\n")
        return
    done = {key(one): one for one in kept(asked.json)}
    begin, left = time.monotonic(), []
    for one in wanted(asked):
        if (*one, asked.compile, asked.precision) in done:
            continue
        if asked.minutes and time.monotonic() - begin + EXPECTED[one[0], asked.compile] > 60 * asked.minutes:
            left.append(one)
            continue
        found = measured(one, asked)
        done[key(found)] = found
        sys.stdout.write(line(found)[0] + "\n")
        sys.stdout.flush()
    told = [
        line(done[*one, asked.compile, asked.precision])
        for one in wanted(asked)
        if (*one, asked.compile, asked.precision) in done
    ]
    sys.stdout.write("\n" + "\n".join(text for text, _ in told) + "\n")
    sys.stdout.write(f"{sum(passes for _, passes in told)} of {len(told)} cases pass; {len(left)} are still to be measured\n")


def wanted(asked):
    """Return the cases that the command line names."""
    return [
        one
        for one in CASES
        if all(
            not words or str(value) in words.split(",")
            for words, value in zip((asked.model, asked.members, asked.batch), one, strict=True)
        )
    ]


def measured(one, asked):
    """Measure the case *one* in a process of its own, keep it in the file, and return it."""
    options = [
        "--compile",
        asked.compile,
        "--precision",
        asked.precision,
        "--trials",
        asked.trials,
        "--repetitions",
        asked.repetitions,
    ]
    words = [sys.executable, __file__, "--case", ",".join(map(str, one)), *options, "--seconds", asked.seconds]
    text = subprocess.run(list(map(str, words)), check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    if asked.json:
        with Path(asked.json).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    return json.loads(text)


def kept(path):
    """Return the cases that the file tells of."""
    return (
        [json.loads(text) for text in Path(path).read_text(encoding="utf-8").splitlines()]
        if path and Path(path).exists()
        else []
    )


def key(one):
    """Return what tells a case from others."""
    return one["model"], one["members"], one["batch"], one["compile"], one["precision"]


def arguments():
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="")
    parser.add_argument("--members", default="")
    parser.add_argument("--batch", default="")
    parser.add_argument("--compile", default="on", choices=["on", "off"], help="off: measure eager forms alone")
    parser.add_argument("--precision", default="auto", choices=["auto", "fp32"], help="auto: bf16 too where the machine has it")
    parser.add_argument("--json", default="", metavar="FILE", help="keep each case there, one per line")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no case that would take longer than this in all")
    parser.add_argument("--trials", type=int, default=5, help="choices without a profile")
    parser.add_argument("--repetitions", type=int, default=5, help="turns of each form")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn")
    parser.add_argument("--case", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
