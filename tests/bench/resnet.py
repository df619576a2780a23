"""Four reduced ResNet-18 with GroupNorm in one process, against one model alone, against vmap, and split over processes.

    python tests/bench/resnet.py                 # 4 members, batch 32, fp32; five turns, a minute
    python tests/bench/resnet.py --precision both --repetitions 9

All contenders take turns, and a round beside busy neighbours is measured again. `alone`: the loop by hand over one model in
channels_last. `split`: one process per thread, each with one thread and its share of the members. `shared`: the loop in
one process, with all threads within each operation. Samples per second are sums over members, ratios medians of the ratios of
each round. Aims: the best execution at least as fast as one model alone, 1.8 times vmap, and split 1.1 times `shared`.
"""

import argparse
import statistics
import sys
from functools import partial

from contilab.hardware.process import prepare

prepare()

import torch  # noqa: E402  the process is prepared first

from contilab.bench.baseline import OneAtATime  # noqa: E402
from contilab.bench.crew import crew  # noqa: E402
from contilab.bench.noise import group  # noqa: E402
from contilab.bench.rounds import middle, rounds  # noqa: E402
from contilab.engine.choice.form import Form  # noqa: E402
from contilab.engine.choice.pace import Pace  # noqa: E402
from contilab.engine.environment import TABLE  # noqa: E402
from contilab.engine.executions.loop import loop  # noqa: E402
from contilab.engine.setup import params_count  # noqa: E402
from contilab.hardware.neighbours import MOST_CORES  # noqa: E402
from contilab.hardware.threads import thread_budget, use_threads  # noqa: E402
from contilab.spec.sections import Plugin  # noqa: E402

ALONE, SHARED, VMAP = "alone", "shared", Form("vmap")
PRECISIONS = ["fp32", "bf16"]
AIMS = {"one model alone": 1.0, "vmap": 1.8, "threads within operations": 1.1}


def contenders(setup, forms, others):
    """Return by name the functions of seconds to samples per second; *others*: processes that share the members."""
    alone = OneAtATime(setup)
    found = {ALONE: lambda seconds: alone.during(seconds).speed, SHARED: _lazily(setup, loop)}
    for form in forms:
        if not TABLE.refusal(form, setup.learner, str(setup.device)):
            found[form] = _lazily(setup, TABLE.maker(form))
            found["split", form] = partial(others.speed, form)
    return found


def _lazily(setup, make):
    """Return the speed of what *make* builds at the first call: the memory of all at once may be too much."""
    paces = []

    def speed(seconds):
        if not paces:
            paces.append(Pace(setup, make))
        return paces[0].during(seconds).speed

    return speed


def ratios(found):
    """Return the three ratios of the rounds *found*, in fp32: medians over rounds, of the best forms of each kind.

    One of which a side was not measured, or failed, is not among them.
    """
    middles = {name: middle(found.speeds(name))[0] for name in found.kept[0].speeds}
    fp32 = [name for name in middles if name not in (ALONE, SHARED) and form_of(name).precision == "fp32"]
    best = max((name for name in fp32 if name[0] != "split"), key=middles.get, default=None)
    split = max((name for name in fp32 if name[0] == "split"), key=middles.get, default=None)
    pairs = {"one model alone": (best, ALONE), "vmap": (best, VMAP), "threads within operations": (split, SHARED)}
    return {
        told: (over, statistics.median(a / b for a, b in zip(found.speeds(over), found.speeds(under), strict=True)))
        for told, (over, under) in pairs.items()
        if {over, under} <= middles.keys()
    }


def form_of(name):
    """Return the form of the contender *name*, whether it trains in one process or is split over several."""
    return name[1] if name[0] == "split" else name


def told(name):
    """Return *name* for people."""
    return f"split: {name[1]}" if name[0] == "split" else str(name)


def measure(asked, plugin):
    """Measure what the command line asks for of the model *plugin* and print the table."""
    threads = torch.get_num_threads()
    setup = group(plugin, members=asked.members, batch=asked.batch)
    forms = TABLE.forms(TABLE.eager, asked.precision, ["off"])
    share = asked.members // asked.processes
    with crew(asked.processes) as others:
        words = {"model": plugin.name, "settings": plugin.settings, "threads": max(1, threads // asked.processes)}
        others.sit(**words, members=share, batch=asked.batch)
        found = rounds(contenders(setup, forms, others), repetitions=asked.repetitions, seconds=asked.seconds)
    params = params_count({name: torch.empty(item.shape) for name, item in setup.learner.model.table.items()})
    sys.stdout.write(
        f"{asked.members} x {plugin.name} ({params:,} parameters), batch {asked.batch}, {threads} threads; split: "
        f"{asked.processes} processes of {share} members; {len(found.kept)} rounds, others used "
        f"{found.foreign_cores:.2f} cores{', TOO BUSY' * (found.foreign_cores > MOST_CORES)}\n"
    )
    for name in found.kept[0].speeds:
        speed, spread = middle(found.speeds(name))
        sys.stdout.write(f"  {told(name):24} {speed:8.1f}/s  spread {spread:.2f}\n")
    for name, reason in found.failed.items():
        sys.stdout.write(f"  {told(name):24} failed: {reason}\n")
    known = ratios(found)
    for what, aim in AIMS.items():
        if what not in known:
            sys.stdout.write(f"  against {what}: not measured in fp32\n")
            continue
        over, ratio = known[what]
        sys.stdout.write(f"  {told(over)} against {what}: {ratio:.2f}  {'passes' if ratio >= aim else 'FAILS'} (aim {aim:g})\n")


def precisions(text):
    """Return the precisions that *text* names, separated by commas; "both" are all of them."""
    found = PRECISIONS if text == "both" else text.split(",")
    if wrong := set(found).difference(PRECISIONS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(wrong))} is none of {', '.join(PRECISIONS)}")
    return found


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet18r")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--precision", type=precisions, default="fp32", help="fp32, bf16 or both; ratios are of fp32")
    parser.add_argument("--processes", type=int, default=min(4, thread_budget().count))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each turn")
    asked = parser.parse_args()
    use_threads(thread_budget().count)
    measure(asked, Plugin(name=asked.model))


if __name__ == "__main__":
    main()
