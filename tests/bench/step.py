"""The training loop of an ensemble beside what one would write by hand, and beside the products of matrices that it needs.

    python tests/bench/step.py --batch 10,32,128             # eight MLPs 784-400-400-10, SGD, fp32
    python tests/bench/step.py --model resnet18r --members 4

All contenders take turns in one process, so ratios hold on a machine that changes its pace; medians of the repetitions. `plain
vmap`: `vmap(grad(functional_call))` over stacked parameters, on inputs that are normalised beforehand, like those of `by hand`.
GEMM: the best square product of 1,024, 2,048 and 4,096.
"""

import argparse
import os
import statistics
import sys
import time

from contilab.hardware.process import prepare
from contilab.hardware.threads import thread_budget, use_threads

prepare()

import torch  # noqa: E402  the process is prepared first
from torch.func import functional_call, grad, vmap  # noqa: E402
from torch.nn.functional import cross_entropy  # noqa: E402

from contilab.bench.arithmetic import flops_per_sample  # noqa: E402
from contilab.bench.baseline import OneAtATime  # noqa: E402
from contilab.bench.noise import group  # noqa: E402
from contilab.engine.choice.pace import Pace  # noqa: E402
from contilab.engine.environment import EXECUTIONS, TABLE  # noqa: E402
from contilab.hardware.neighbours import Neighbours  # noqa: E402
from contilab.spec.sections import Plugin  # noqa: E402

LR = 1e-3


def plain_vmap(setup, members):
    """Return a function of seconds to samples per second."""
    layers = torch.nn.Linear(784, 400), torch.nn.Linear(400, 400), torch.nn.Linear(400, 10)
    net = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    params = {name: torch.stack([value.detach().clone() for _ in range(members)]) for name, value in net.named_parameters()}
    inputs, rows = OneAtATime(setup).inputs, setup.stream.train_rows
    batch = setup.shared.train.batch

    def loss(params, x, row):
        return cross_entropy(functional_call(net, params, (x,)), row)

    gradients = vmap(grad(loss))

    def speed(seconds):
        nonlocal params
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            index = torch.randint(0, len(rows), (members, batch))
            found = gradients(params, inputs[index], rows[index])
            params = {name: value - LR * found[name] for name, value in params.items()}
            steps += 1
        return steps * members * batch / (time.perf_counter() - begin)

    return speed


def product(size):
    """Return a function of seconds to floating-point operations per second."""
    left, right, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)

    def speed(seconds):
        begin, count = time.perf_counter(), 0
        while count == 0 or time.perf_counter() - begin < seconds:
            torch.mm(left, right, out=out)
            count += 1
        return 2 * size**3 * count / (time.perf_counter() - begin)

    return speed


def compare(asked, batch):
    """Measure one batch size and print its table."""
    setup = group(Plugin(name=asked.model), members=asked.members, batch=batch, method=asked.method)
    forms = TABLE.forms(EXECUTIONS, ["fp32"], ["off", *(["on"] if asked.compile else [])])
    contenders = {f"{form.execution}{' compiled' * (form.compile == 'on')}": Pace(setup, TABLE.maker(form)) for form in forms}
    speeds = {name: (lambda seconds, pace=pace: pace.during(seconds).speed) for name, pace in contenders.items()}
    alone = OneAtATime(setup)
    speeds["by hand"] = lambda seconds: alone.during(seconds).speed
    if asked.model == "mlp":
        speeds["plain vmap"] = plain_vmap(setup, asked.members)
    products = {size: product(size) for size in (1024, 2048, 4096)}
    for speed in (*speeds.values(), *products.values()):
        speed(0.2)
    found = {name: [] for name in (*speeds, *products)}
    with Neighbours() as others:
        for _ in range(asked.repetitions):
            for name, speed in (speeds | products).items():
                found[name].append(speed(asked.seconds))
    middle = {name: statistics.median(values) for name, values in found.items()}
    best = max(middle[size] for size in products)
    flops, threads = flops_per_sample(setup), torch.get_num_threads()
    sys.stdout.write(
        f"{asked.members} x {asked.model}, batch {batch}, {asked.method}, {threads} threads: GEMM {best / 1e9:.0f} GFLOP/s, "
        f"{flops / 1e6:.3f} MFLOP per sample; others used {others.cores:.2f} cores\n"
    )
    for name in speeds:
        ratios = [f"{middle[name] / middle[other]:5.2f} x {other}" for other in ("by hand", "plain vmap") if other in middle]
        spread = (max(found[name]) - min(found[name])) / middle[name]
        share = 100 * middle[name] * flops / best
        sys.stdout.write(
            f"  {name:16} {middle[name]:9.0f}/s {share:5.1f} % of GEMM  {'  '.join(ratios)}  spread {spread:.2f}\n"
        )


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--method", default="naive")
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--batch", default="32")
    parser.add_argument("--compile", action="store_true", help="the compiled forms too")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--threads", type=int, default=thread_budget(environ=os.environ).count)
    asked = parser.parse_args()
    use_threads(asked.threads)
    for batch in asked.batch.split(","):
        compare(asked, int(batch))


if __name__ == "__main__":
    main()
