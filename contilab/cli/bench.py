"""`contilab bench`: how many samples per second this machine trains, by execution and number of members."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from contilab import catalog
from contilab.cli.columns import columns
from contilab.errors import UsageError

if TYPE_CHECKING:
    from contilab.bench.measure import Row

HEADS = ("model", "method", "execution", "members", "batch", "threads", "device", "samples/s", "foreign load")


def bench(
    *,
    model: Annotated[str, typer.Option(help="Model of the catalog, with its default settings.")] = "mlp",
    method: Annotated[str, typer.Option(help="Method of the catalog.")] = "naive",
    members: Annotated[str, typer.Option(help="Numbers of members, separated by commas.")] = "1,2,4,8",
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Samples per step.")] = 32,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    seconds: Annotated[float, typer.Option(min=0.01, help="Time per round; five rounds each.")] = 0.5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure training speed here, on inputs of noise with 784 numbers.

    Foreign load: how many cores other processes kept busy meanwhile.
    """
    counts = _counts(members)
    for kind, name in (("model", model), ("method", method)):
        if name not in catalog.KINDS[kind]:
            raise UsageError("bench", f'there is no {kind} "{name}"', hint=f"there are {', '.join(catalog.KINDS[kind])}")

    from contilab.hardware.threads import thread_budget, wait_briefly

    wait_briefly()  # as in `contilab run`
    import torch

    from contilab.bench.measure import measure
    from contilab.hardware.device import choose_device
    from contilab.spec.sections import Plugin

    torch.set_num_threads(thread_budget().count)
    where = choose_device(device).value
    rows = measure(Plugin(name=model), members=counts, method=method, batch=batch, device=where, seconds=seconds)
    typer.echo(json.dumps([row._asdict() for row in rows], indent=1) if as_json else _table(rows))


def _table(rows: Sequence["Row"]) -> str:
    lines = [(*row[:7], f"{row.samples_per_second:,.0f}", f"{row.foreign_load:.2f}") for row in rows]
    return columns([HEADS, *lines], right=range(len(HEADS)))


def _counts(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and 0 < int(part) <= 1024 for part in parts):
        raise UsageError("members", f'"{text}" is no list of numbers', hint="numbers from 1 to 1024, such as 1,2,4,8")
    return [int(part) for part in parts]
