"""Parts of the members side by side, each in a thread of its own, so that none waits for another within a step.

Between the products of a step lie operations of 5 to 50 µs, too short for two threads: the second one falls asleep and wakes
late, and beside other processes each operation waits for a thread that has no processor just then. Members are independent, so
each thread trains some of them, all steps of a chunk. What the interpreter does between two operations is done by one thread at
a time, so models whose operations are no longer than that stay in one part.

Samples per second of `batched` in two parts over one, on 2026-11-30 with two threads on two Xeon cores, eight MLPs at batch 32
unless told: 2x16 0.63, 2x100 0.96, 2x200 0.99, 2x400 1.07 (batch 10 1.05, 128 1.07, er 1.03), four reduced ResNet-18 1.15;
beside a busy process, 2x400 1.14 to 1.80. Two processes of four MLPs 2x400 each, without a common interpreter: 1.30. Of
`loop` on two AMD EPYC cores: 2x400 at batch 10, 32, 128 1.05, 1.21, 1.08, four ResNets 1.12.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, partial
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from contilab.engine.draws import Draw
from contilab.engine.ensemble import MemberState, tree_bytes
from contilab.engine.executions.blocks import draws_of_blocks, evenly
from contilab.engine.executions.contract import Ensemble, Execution, MakeExecution
from contilab.engine.executions.rounding import is_rounded
from contilab.engine.step import Learner, Lesson

LEAST_BYTES = 2**20  # of a member's parameters; chosen by the numbers above
MOST_UNEVEN = 1.1  # chosen: the largest part over an even one; beyond that a thread idles for longer than parts save

Result = TypeVar("Result")


class _Part(NamedTuple):
    """Some of the members, and what trains them."""

    execution: Execution
    members: int
    ensemble: Ensemble


def abreast(make: MakeExecution, *, in_bf16: bool = False) -> MakeExecution:
    """Return what builds an execution that trains as many equal parts at once as there are threads, each by what *make* builds.

    In fewer parts with more threads each, or in one, where members do not divide evenly. On a processor only. Chains whose
    products the library rounds stay in one part, since that is a state of the whole process (`rounding`), unless what *make*
    builds has autocast *in_bf16*, which each thread has for itself. *make*'s have nothing to report.
    """

    def made(learner: Learner) -> Execution:
        executions = [make(learner)]  # one for each part: what one holds is not for two threads

        def gather(members: list[MemberState]) -> list[_Part]:
            count = 1 if is_rounded(learner.model) and not in_bf16 else _parts(members)
            executions.extend(make(learner) for _ in range(count - len(executions)))
            with _shared_by(count):  # blocks are as large as the threads that a part has
                return [
                    _Part(execution, len(own), execution.gather(own))
                    for execution, own in zip(executions, evenly(members, count), strict=False)
                ]

        return Execution(gather=gather, scatter=_scatter, train=_train)

    return made


def _parts(members: list[MemberState]) -> int:
    first, threads, most = members[0], torch.get_num_threads(), MOST_UNEVEN * len(members)
    if first.stored.device.type != "cpu" or tree_bytes(first.params) < LEAST_BYTES:
        return 1
    counts = range(1, min(len(members), threads) + 1)
    return max(count for count in counts if threads % count == 0 and -(-len(members) // count) * count <= most)


def _scatter(parts: list[_Part]) -> list[MemberState]:
    return [member for part in parts for member in part.execution.scatter(part.ensemble)]


def _train(parts: list[_Part], lesson: Lesson, draws: Draw) -> tuple[list[_Part], Tensor]:
    own = draws_of_blocks(draws, [part.members for part in parts])
    jobs = [partial(part.execution.train, part.ensemble, lesson, draws) for part, draws in zip(parts, own, strict=True)]
    trained = _at_once(jobs)
    parts = [part._replace(ensemble=ensemble) for part, (ensemble, _) in zip(parts, trained, strict=True)]
    return parts, torch.cat([losses for _, losses in trained], dim=1)


def _at_once(jobs: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return what *jobs* return, each done in a thread; raises what the first of them raised, once all have ended."""
    if len(jobs) == 1:
        return [jobs[0]()]
    with _shared_by(len(jobs)) as share:
        futures: list[Future[Result]] = [_pool(len(jobs)).submit(_by, share, job) for job in jobs]
        wait(futures)
    return [future.result() for future in futures]


def _by(threads: int, job: Callable[[], Result]) -> Result:
    torch.set_num_threads(threads)  # OpenMP counts them for each thread that calls
    return job()


@contextmanager
def _shared_by(count: int) -> Iterator[int]:
    """Leave each of *count* callers its share of the threads; MKL counts them for the process, so they are given back here."""
    threads = torch.get_num_threads()
    share = max(1, threads // count)
    torch.set_num_threads(share)
    try:
        yield share
    finally:
        torch.set_num_threads(threads)


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="abreast")
