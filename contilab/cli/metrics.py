"""`contilab metrics`: compute metrics of a study later, from its records."""

from enum import StrEnum
from typing import Annotated

import typer

from contilab.cli.columns import columns
from contilab.cli.options import DEFAULT_STORE, StoreOption


class Tier(StrEnum):
    """How much must be recorded for a metric."""

    CORE = "core"
    EXTENDED = "extended"
    FULL = "full"


def metrics(
    study: Annotated[str, typer.Argument(help="The study whose runs are measured.")],
    *,
    add: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A metric, or MODULE:NAME for one of your own; may be repeated.")
    ] = None,
    tier: Annotated[Tier | None, typer.Option(help="All metrics of this tier.")] = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Compute metrics from the records of finished runs, without training."""
    from contilab.report.derive import Derived, chosen_metrics, derive
    from contilab.store.probe import check_writable
    from contilab.store.store import open_store

    def line(found: Derived) -> tuple[str, str, str]:
        reasons = "; ".join(f"{count} absent: {reason}" for reason, count in found.absent.items())
        return found.name, f"{found.values} value{'s' if found.values != 1 else ''}", reasons

    opened = open_store(store)
    check_writable(store)
    found = derive(opened, study, chosen_metrics(add or (), tier.value if tier else ""))
    typer.echo(columns([line(one) for one in found]))
    typer.echo(f"contilab report {study} shows them", err=True)
