"""How good the choices of `auto` are: with a profile against the best row of bench, without one against the best eager row.

    python tests/bench/auto.py                                   # the perceptron and the reduced ResNet-18
    python tests/bench/auto.py --model mlp --members 1,8 --batch 10

With a profile a choice should reach 90 % of the best row, without one 85 % of the best eager row, and take less than 3 s
besides one step of each form. Medians of five turns on all threads; let nothing else run.
"""

import argparse
import sys
import time

import torch

from contilab.bench.measure import Wanted, measure
from contilab.bench.noise import group
from contilab.engine.choice.form import Form, form_of
from contilab.engine.choice.trial import MOST_SECONDS, try_out
from contilab.engine.environment import TABLE, choose
from contilab.hardware.precision import candidates
from contilab.hardware.profile import Answer, Profiles
from contilab.hardware.threads import thread_budget, wait_briefly
from contilab.spec.sections import Execution, Plugin

CASES = [("mlp", members, batch) for members in (1, 8, 32) for batch in (10, 32, 128)]
CASES += [("resnet18r", members, batch) for members in (1, 4) for batch in (10, 32)]


def check(model, members, batch):
    """Print one line for one case."""
    found = measure(Wanted(Plugin(name=model), members, batch))
    speeds = {form_of(rate): rate.samples_per_s for rate in found.rates}
    eager = max(speed for form, speed in speeds.items() if form.compile == "off")
    setup = group(Plugin(name=model), members=members, batch=batch)
    profiles = Profiles()
    profiles.keep(found.shape, Answer(found.rates, "bench", "", 0.0))
    choices = choose(setup.runs, Execution(device="cpu"), setup.learner, profiles=profiles, setup=setup)
    chosen = Form(choices.execution.value, choices.precision.value, choices.compile.value)
    forms = [form for form in TABLE.forms(TABLE.eager, candidates("cpu"), ("off",)) if form in speeds]
    begin = time.perf_counter()
    tried = form_of(try_out(setup, forms, TABLE, MOST_SECONDS)[0])
    seconds = time.perf_counter() - begin
    told = (
        f"{model:10} E {members:2} B {batch:3}  "
        f"with a profile {chosen}: {speeds[chosen] / max(speeds.values()):4.0%} of the best"
        f"  without {tried}: {speeds[tried] / eager:4.0%} of the best eager, {seconds:.1f} s"
        f"  others {found.foreign_cores:.2f} cores\n"
    )
    sys.stdout.write(told)
    sys.stdout.flush()


def main():
    """Check all cases, or those that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="")
    parser.add_argument("--members", default="")
    parser.add_argument("--batch", default="")
    asked = parser.parse_args()
    wait_briefly()
    torch.set_num_threads(thread_budget().count)
    for model, members, batch in CASES:
        wanted = ((asked.model, model), (asked.members, str(members)), (asked.batch, str(batch)))
        if all(not words or word in words.split(",") for words, word in wanted):
            check(model, members, batch)


if __name__ == "__main__":
    main()
