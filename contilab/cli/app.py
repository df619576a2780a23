"""The commands, one file each; this page only puts them together."""

import os
from typing import Annotated

import typer

from contilab.cli.bench import bench
from contilab.cli.bundle import bundle, verify_bundle
from contilab.cli.cancel import cancel
from contilab.cli.data import data
from contilab.cli.demo import demo
from contilab.cli.doctor import doctor
from contilab.cli.list import list_
from contilab.cli.metrics import metrics
from contilab.cli.plan import plan
from contilab.cli.profile import profile
from contilab.cli.prune import prune
from contilab.cli.report import report
from contilab.cli.retry import retry
from contilab.cli.run import run
from contilab.cli.schema import schema
from contilab.cli.status import status
from contilab.cli.verify import verify

app = typer.Typer(
    name="contilab",
    no_args_is_help=True,
    rich_markup_mode=None,  # the plain form needs no rich: `contilab status` stays fast, and help reads the same in a log
    pretty_exceptions_enable=False,  # tracebacks are kept in files
    add_completion=True,
)


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="CONTILAB_DEBUG", help="Print tracebacks of errors, and details of training.")
    ] = False,
) -> None:
    """Continual-learning studies: many methods, benchmarks and seeds, as fast as the machine allows."""
    if debug:
        os.environ["CONTILAB_DEBUG"] = "1"
    if version:
        from contilab.hardware.versions import versions

        typer.echo(f"contilab {versions()['contilab']}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("demo")(demo)
app.command("plan")(plan)
app.command("run")(run)
app.command("status")(status)
app.command("retry")(retry)
app.command("cancel")(cancel)
app.command("prune")(prune)
app.command("report")(report)
app.command("metrics")(metrics)
app.command("bundle")(bundle)
app.command("verify-bundle")(verify_bundle)
app.command("verify")(verify)
app.command("list")(list_)
app.command("schema")(schema)
app.command("doctor")(doctor)
app.command("bench")(bench)
app.command("profile")(profile)
app.add_typer(data, name="data")
