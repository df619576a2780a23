"""`contilab demo`: plan, run and report a small real study from data inside the package."""

import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.columns import columns
from contilab.cli.main import tell

if TYPE_CHECKING:
    from contilab.report.runs import RunReport
    from contilab.runner.signals import StopFlag
    from contilab.runner.tally import Verdict

NAME = "demo"
MANIFEST = files("contilab.cli").joinpath("demo.toml")
SHOWN = {"acc": "accuracy after the last task, %", "forgetting": "forgetting, points"}


def demo(
    store: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to; default: a new temporary folder.")] = None,
) -> None:
    """Run a small real study in about a minute: start here."""
    from contilab.hardware.threads import wait_passively
    from contilab.runner.signals import stop_on_signals

    wait_passively()
    root = store or Path(tempfile.mkdtemp(prefix="contilab-demo-"))
    began = time.monotonic()
    with stop_on_signals() as stop:
        verdict = _trained(root, stop)
    if verdict.code:
        tell(*verdict.faults)
        raise typer.Exit(verdict.code)

    from contilab.report.write import write_report

    written = write_report(root, NAME)
    typer.echo("Split Digits, class-incremental: five tasks of two digits, all ten to be told apart at the end\n")
    typer.echo(_table(written.runs))
    typer.echo(_reasons(written.runs))
    typer.echo(f"{len(written.runs)} runs in {time.monotonic() - began:.0f} s")
    typer.echo(f"report: {written.path.absolute()}")
    if written.left_out:
        typer.echo(written.left_out, err=True)


def _trained(root: Path, stop: "StopFlag") -> "Verdict":
    from contilab.plan.enqueue import enqueue
    from contilab.runner.logging import configure
    from contilab.runner.progress import display
    from contilab.runner.run import Order, run

    enqueue(root, MANIFEST.read_text(encoding="utf-8"), place=MANIFEST.name)
    typer.echo(f"store: {root.absolute()}")
    configure()
    with display() as shown:
        return run(Order(root, study=NAME), stop, shown)


def _table(runs: Sequence["RunReport"]) -> str:
    methods = list(dict.fromkeys(run.cell.method for run in runs))
    rows = [
        [method, *(_mean_sd(_values(runs, method, metric)) for metric in SHOWN), _count(runs, method)] for method in methods
    ]
    return columns([["method", *SHOWN.values(), "seeds"], *rows], right=range(1, len(SHOWN) + 2))


def _values(runs: Iterable["RunReport"], method: str, metric: str) -> list[float]:
    found = (run.values[metric] for run in runs if run.cell.method == method)
    return [100 * value for value in found if isinstance(value, float)]


def _mean_sd(values: Sequence[float]) -> str:
    if not values:
        return "n/a"
    return f"{fmean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def _reasons(runs: Iterable["RunReport"]) -> str:
    from contilab.metrics.contract import Absent

    absent = {
        (run.cell.method, metric): value.reason
        for run in runs
        for metric in SHOWN
        if isinstance(value := run.values[metric], Absent)
    }
    return "".join(f"n/a: {metric} of {method}: {reason}\n" for (method, metric), reason in absent.items())


def _count(runs: Iterable["RunReport"], method: str) -> int:
    return sum(1 for run in runs if run.cell.method == method and run.record is not None)
