"""`contilab run`: claim and train until nothing is left."""

from typing import Annotated

import typer

from contilab.cli.main import say, tell
from contilab.cli.options import DEFAULT_STORE, StoreOption


def run(
    *,
    store: StoreOption = DEFAULT_STORE,
    study: Annotated[str | None, typer.Option(help="Only this study.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N; before what manifests say.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this time, with work left.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for plans and work until told to stop.")] = False,
    share: Annotated[int, typer.Option(min=1, envvar="CONTILAB_SHARE", help="Runners that share these processors.")] = 1,
) -> None:
    """Train what is planned; running it again is resuming.

    Any number of these may run at once on one store, on any number of machines.
    """
    from contilab.runner.signals import stop_on_signals

    with stop_on_signals() as stop:  # before torch is imported: a signal during start-up would be lost
        say(f"store: {store.absolute()}")
        from contilab.hardware.threads import wait_briefly

        wait_briefly()  # before torch is imported too: OpenMP reads it once
        from contilab.runner.logging import configure
        from contilab.runner.progress import display
        from contilab.runner.run import Order
        from contilab.runner.run import run as drain

        configure()
        with display() as shown:
            verdict = drain(Order(store, study, device, max_seconds, wait, share), stop, shown)
    say(f"{verdict.done} of {verdict.wanted} runs have a result")
    tell(*verdict.faults)
    raise typer.Exit(verdict.code)
