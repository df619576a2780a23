"""`contilab demo`: plan, run and report a small real study from data inside the package."""

import tempfile
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.columns import columns
from contilab.cli.main import tell
from contilab.cli.options import store_folder
from contilab.cli.run import drained

if TYPE_CHECKING:
    from contilab.report.benchmark import Variant
    from contilab.report.summary import Summary
    from contilab.runner.signals import StopFlag
    from contilab.runner.tally import Verdict

NAME = "demo"
MANIFEST = files("contilab.cli").joinpath("demo.toml")
SHOWN = {"acc": "accuracy after the last task, %", "forgetting": "forgetting, points"}


def demo(
    store: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to; default: a new temporary folder.", callback=store_folder)
    ] = None,
) -> None:
    """Run a small real study in under a minute: start here."""
    from contilab.hardware.process import prepare
    from contilab.runner.signals import stop_on_signals

    prepare()
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
    (section,) = written.page.sections
    typer.echo(_table(section.benchmark.variants))
    typer.echo(_reasons(section.benchmark.variants))
    typer.echo(f"{len(written.runs)} runs in {time.monotonic() - began:.0f} s")
    typer.echo(f"report: {written.path.absolute()}")
    if written.left_out:
        typer.echo(written.left_out, err=True)


def _trained(root: Path, stop: "StopFlag") -> "Verdict":
    from contilab.plan.enqueue import enqueue
    from contilab.runner.logging import configure
    from contilab.runner.order import Order
    from contilab.runner.progress import display

    enqueue(root, MANIFEST.read_text(encoding="utf-8"), place=MANIFEST.name)
    typer.echo(f"store: {root.absolute()}")
    configure()
    with display() as shown:
        return drained(Order(root, study=NAME), None, stop, shown)


def _table(variants: Sequence["Variant"]) -> str:
    rows = [[one.label, *(_percent(one.summary(name)) for name in SHOWN), one.summary("acc").n] for one in variants]
    return columns([["method", *SHOWN.values(), "seeds"], *rows], right=range(1, len(SHOWN) + 2))


def _percent(found: "Summary") -> str:
    if found.mean is None:
        return "n/a"
    return f"{100 * found.mean:.1f}" + ("" if found.sd is None else f" ± {100 * found.sd:.1f}")


def _reasons(variants: Sequence["Variant"]) -> str:
    absent = [(name, one.label, reason) for one in variants for name in SHOWN for reason in one.summary(name).reasons]
    return "".join(f"n/a: {name} of {label}: {reason}\n" for name, label, reason in absent)
