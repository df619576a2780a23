"""`contilab bench`: how many samples per second this machine trains, by every form of the step; `auto` chooses by it."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from contilab import catalog
from contilab.cli.columns import columns
from contilab.cli.main import say
from contilab.cli.options import check_folder, store_folder
from contilab.errors import UsageError

if TYPE_CHECKING:
    from contilab.bench.measure import Measured, Row, Wanted

HEADS = ("members", "batch", "execution", "precision", "compile", "processes", "threads", "samples/s", "spread", "of bound")
STDOUT = Path("-")
CREW_BYTES = 2**30  # of memory that each process which trains beside others must find; chosen: three times that of a perceptron


def bench(
    *,
    model: Annotated[str, typer.Option(help="Models of the catalog, separated by commas.")] = "mlp,resnet18r",
    members: Annotated[str, typer.Option(help="Numbers of members, separated by commas.")] = "1,2,4,8",
    precision: Annotated[str, typer.Option(help="fp32, bf16, or auto: all that the device offers.")] = "fp32,auto",
    compiled: Annotated[str, typer.Option("--compile", help="off, on or both.")] = "off,on",
    batch: Annotated[str, typer.Option(help="Samples per step, separated by commas.")] = "32",
    method: Annotated[str, typer.Option(help="Method of the catalog.")] = "naive",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    repetitions: Annotated[int, typer.Option(min=1, max=1000, help="Turns of each form.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.001, help="Time of each turn.")] = 0.3,
    store: Annotated[
        Path | None,
        typer.Option(
            envvar="CONTILAB_STORE",
            metavar="DIR",
            help="Keep what is fastest there, for all its runners.",
            callback=store_folder,
        ),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write JSON; - prints it.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it (svg, png, pdf); needs the report extra.")] = None,
) -> None:
    """Measure training speed here and keep what is fastest, on inputs of noise.

    Forms take turns; a round beside busy neighbours is measured again. Of bound: percent of what the fastest square product of
    matrices would allow. Without --store it is kept in the user's cache.
    """
    names = _among("--model", model, sorted(catalog.KINDS["model"]))
    _among("--method", method, sorted(catalog.KINDS["method"]))
    precisions, compiles = (
        _among("--precision", precision, ["fp32", "bf16", "auto"]),
        _among("--compile", compiled, ["off", "on"]),
    )
    shapes = [
        (name, count, size) for name in names for size in _counts("--batch", batch) for count in _counts("--members", members)
    ]
    check_folder("--json", json_file)
    check_folder("--plot", plot)
    folder = _folder(store)

    from contilab.hardware.process import prepare
    from contilab.hardware.threads import thread_budget, use_threads

    prepare()  # as in `contilab run`
    from contilab.bench.measure import Wanted
    from contilab.hardware.device import choose_device
    from contilab.spec.sections import Plugin

    budget = thread_budget()
    use_threads(budget.count)
    where = choose_device(device).value
    tell_people = (lambda _text: None) if json_file == STDOUT else say  # what a program reads holds nothing else
    tell_people(f"threads: {budget.count} ({budget.reason}), device: {where}")
    wanted = [
        Wanted(Plugin(name=name), count, size, method, where, precisions, compiles, repetitions, seconds)
        for name, count, size in shapes
    ]
    kept = _Kept(folder if method == "naive" else None, replaces=store is None)  # auto asks for speeds of the plainest method
    measured = list(_measured(wanted, budget.count, kept, tell_people))
    _write(measured, json_file, plot)


class _Kept(NamedTuple):
    """Where measurements are kept, if anywhere, and whether a new one replaces an old one there."""

    folder: Path | None
    replaces: bool


def _measured(
    wanted: Sequence["Wanted"], threads: int, kept: _Kept, tell_people: Callable[[str], None]
) -> Iterator["Measured"]:
    from contilab.bench.bounds import Bounds
    from contilab.bench.crew import crew
    from contilab.bench.measure import measure
    from contilab.bench.table import keep
    from contilab.hardware.limits import memory_bytes

    with ExitStack() as stack:
        is_crowd = wanted[0].device == "cpu" and threads > 1 and memory_bytes() >= threads * CREW_BYTES
        workers = stack.enter_context(crew(threads)) if is_crowd else None
        most = Bounds(0.0, 0.0)
        for one in wanted:
            found = measure(one, workers)
            most = most.best_of(found.bounds)
            found = found.against(most)
            tell_people("\n" + _table(found))
            if kept.folder and found.rates and not keep(found, kept.folder, replaces=kept.replaces):
                tell_people(f"an earlier measurement of this stays: {kept.folder / (found.shape.address + '.json')}")
            yield found
    if kept.folder:
        tell_people(f"\nkept for auto in {kept.folder}")


def _write(measured: Sequence["Measured"], json_file: Path | None, plot: Path | None) -> None:
    from contilab.bench.table import as_table

    text = json.dumps(as_table(measured), indent=1)
    if json_file == STDOUT:
        typer.echo(text)
    elif json_file:
        json_file.write_text(text + "\n", encoding="utf-8")
    if plot:
        from contilab.bench.plot import draw

        draw(measured, plot)


def _table(measured: "Measured") -> str:
    most, shape = measured.bounds, measured.shape
    again = f", {measured.again} rounds measured again" if measured.again else ""
    limits = f"bounds {most.gemm_gflops:,.0f} GFLOP/s, {most.copy_gb_per_s:.1f} GB/s"
    others = f"others used {measured.foreign_cores:.2f} cores{again}"
    lines = [f"{shape.model}: one at a time {measured.one_at_a_time:,.0f} samples/s; {limits}; {others}"]
    done = sorted((row for row in measured.rows if row.samples_per_s), key=lambda row: -(row.samples_per_s or 0))
    lines.append(columns([HEADS, *map(_cells, done)], right=(0, 1, 5, 6, 7, 8, 9)))
    lines += [f"{row.execution} {row.precision}, compile {row.compile}: {row.reason}" for row in measured.rows if row.reason]
    return "\n".join(lines)


def _cells(row: "Row") -> tuple[object, ...]:
    form = (row.members, row.batch, row.execution, row.precision, row.compile, row.processes, row.threads)
    return (*form, f"{row.samples_per_s:,.0f}", f"{100 * (row.spread or 0):.0f} %", f"{row.percent_of_gemm_bound:.0f} %")


def _folder(store: Path | None) -> Path:
    if store is None:
        from contilab.hardware.profile import user_folder

        return user_folder(os.environ)
    from contilab.store.store import open_store

    return open_store(store).layout.hardware


def _among(place: str, text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the words of *text*; UsageError if one is not *known*."""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if strange := [word for word in words if word not in known]:
        raise UsageError(place, f'"{strange[0]}" means nothing here', hint=f"there are {', '.join(known)}")
    return words


def _counts(place: str, text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.strip().isdecimal() and 0 < int(part) <= 1024 for part in parts):
        raise UsageError(place, f'"{text}" is no list of numbers', hint="numbers from 1 to 1024, such as 1,2,4,8")
    return [int(part) for part in parts]
