"""`contilab plan`: expand a manifest, check all of it, and write what is new into the store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.columns import columns
from contilab.cli.options import DEFAULT_STORE, StoreOption

if TYPE_CHECKING:
    from contilab.plan.estimate import Estimate

Manifest = Annotated[Path, typer.Argument(metavar="M.toml", help="The manifest of the study.")]
Values = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings that win over the manifest's.")]


def plan(
    manifest: Manifest,
    values: Values = None,
    *,
    store: StoreOption = DEFAULT_STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; show what would be new.")] = False,
    ttl: Annotated[
        float | None, typer.Option(min=1, help="Of a new store: seconds without a beat until a runner is given up.")
    ] = None,
) -> None:
    """Check a manifest and write what is new into the store."""
    from contilab.manifest.read import read_text
    from contilab.plan.enqueue import enqueue

    text = read_text(manifest)
    planned = enqueue(store, text, values or [], place=str(manifest), ttl_s=ttl, is_dry_run=dry_run)
    would = "would be " if dry_run else ""
    rows = [
        ("store", f"{store.absolute()}"),
        ("study", planned.name),
        ("data", ", ".join(planned.data)),
        ("cells", planned.cells),
        ("runs", f"{planned.runs}, of them {planned.done} done, {planned.new_runs} {would}new"),
        ("groups", f"{planned.new_groups} {would}new"),
        *(_estimates(planned.estimate) if dry_run else ()),
    ]
    typer.echo(columns(rows))
    for cell in planned.left_out:
        typer.echo(f"left out: {cell}", err=True)
    if not dry_run:
        typer.echo("contilab run trains it" if planned.done < planned.runs else f"contilab report {planned.name} shows it")


def _estimates(estimate: "Estimate") -> list[tuple[str, object]]:
    seconds = estimate.seconds_basis if estimate.seconds is None else f"{estimate.seconds:,.0f} s ({estimate.seconds_basis})"
    return [
        ("samples", f"{estimate.train_samples:,} to train on, new and replayed"),
        ("operations", f"{estimate.flops / 1e9:,.1f} GFLOP"),
        ("memory", f"{estimate.memory_bytes / 2**20:,.0f} MiB per runner ({estimate.memory_basis})"),
        ("disk", f"{estimate.disk_bytes / 2**20:,.1f} MiB"),
        ("time", seconds),
    ]
