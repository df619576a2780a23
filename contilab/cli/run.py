"""`contilab run`: claim and train until nothing is left."""

from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.main import say, tell
from contilab.cli.options import DEFAULT_STORE, StoreOption

if TYPE_CHECKING:
    from contilab.runner.order import Order
    from contilab.runner.progress import Display
    from contilab.runner.signals import StopFlag
    from contilab.runner.tally import Verdict


def run(
    *,
    store: StoreOption = DEFAULT_STORE,
    study: Annotated[str | None, typer.Option(help="Only this study.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N; before what manifests say.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this time, with work left.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for plans and work until told to stop.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=1024, help="Processes; one per core, or per group where these are fewer, or per GPU.", show_default=False
        ),
    ] = None,
    share: Annotated[int, typer.Option(min=1, envvar="CONTILAB_SHARE", help="Runners that share these processors.")] = 1,
) -> None:
    """Train what is planned; running it again is resuming.

    Any number of these may run at once on one store, on any number of machines.
    """
    from contilab.runner.signals import stop_on_signals

    with stop_on_signals() as stop:  # before torch is imported: a signal during start-up would be lost
        say(f"store: {store.absolute()}")
        from contilab.hardware.process import prepare

        prepare()  # before torch is imported too: OpenMP reads it once
        from contilab.runner.logging import configure
        from contilab.runner.order import Order
        from contilab.runner.progress import display

        configure()
        with display() as shown:
            verdict = drained(Order(store, study, device, max_seconds, wait, share), workers, stop, shown)
    say(f"{verdict.done} of {verdict.wanted} runs have a result")
    tell(*verdict.faults)
    raise typer.Exit(verdict.code)


def drained(order: "Order", workers: int | None, stop: "StopFlag", shown: "Display") -> "Verdict":
    """Do the work of *order* in this process, or in several ones under it."""
    from contilab.runner.staff import staff

    crew = staff(order, workers)
    if crew.workers > 1:
        from contilab.runner.workers import work

        return work(order, crew, stop, shown)
    from contilab.runner.run import run

    return run(order, stop, shown)
