"""`contilab profile`: where the time of a step goes, of the first group of a manifest."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.columns import columns
from contilab.cli.main import say
from contilab.cli.options import check_folder
from contilab.cli.plan import Manifest, Values

if TYPE_CHECKING:
    from contilab.engine.setup import Setup
    from contilab.spec.sections import Execution


def profile(
    manifest: Manifest,
    values: Values = None,
    *,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N; before what the manifest says.")] = None,
    trace: Annotated[Path, typer.Option(metavar="FILE", help="Where the trace goes.")] = Path("trace.json"),
) -> None:
    """Show what the steps of a manifest's first group spend their time on.

    Thirty steps under torch.profiler: its table, and a trace for chrome://tracing or ui.perfetto.dev. Then what each part of a
    step costs, by leaving it out. Nothing is written into a store.
    """
    check_folder("--trace", trace)
    from contilab.hardware.process import prepare
    from contilab.hardware.threads import thread_budget, use_threads

    prepare()  # as in `contilab run`

    from contilab.bench.anatomy import anatomy
    from contilab.bench.profiler import profiled
    from contilab.engine.choice.pace import Pace
    from contilab.engine.environment import choose
    from contilab.hardware.profile import Profiles, user_folder

    budget = thread_budget()
    use_threads(budget.count)
    setup, execution = _first_group(manifest, values or [], device)
    profiles = Profiles(cache=user_folder(os.environ))
    choices = choose(setup.runs, execution, setup.learner, profiles=profiles, setup=setup)
    say(f"{len(setup.runs)} runs of {setup.shared.method.name} on {setup.shared.benchmark.name}")
    say(f"{budget.count} threads ({budget.reason}); {choices.execution.value} ({choices.execution.reason})")
    say(profiled(Pace(setup, choices.make), trace, is_cuda=setup.device.type == "cuda"))
    say(f"trace: {trace.absolute()}")
    found = anatomy(setup, choices.make)
    rows = [(part.name, f"{part.seconds * 1e3:.3f} ms", f"{part.share:.0%}") for part in found.parts]
    say(f"\na step takes {found.step_seconds * 1e3:.3f} ms; of that, by leaving it out:")
    say(columns(rows, right=(1, 2)))


def _first_group(manifest: Path, values: list[str], device: str | None) -> tuple["Setup", "Execution"]:
    """Return the first group that planning *manifest* would make, with its data loaded, and how it is to be trained."""
    from dataclasses import replace

    import torch

    from contilab.engine.setup import learner_of, prepare
    from contilab.hardware.device import choose_device
    from contilab.manifest.read import read_text
    from contilab.plan.grouping import groups
    from contilab.plan.study import study

    found, menu = study(read_text(manifest), values, place=str(manifest))
    rids = groups(found.cells, found.runs, frozenset(), menu)[0]
    runs = [found.runs[rid] for rid in rids]
    planned = next(cell.execution for cell in found.cells if rids[0] in cell.runs.values())
    where = choose_device(device or planned.device).value
    source = found.sources[runs[0].benchmark]
    setup = prepare(runs, learner_of(runs[0], source), source.load(), device=torch.device(where))
    return setup, replace(planned, device=where)
