"""What online, fuzzy and blurry streams cannot be joined with; found when a study is planned."""

from collections.abc import Iterable, Iterator

from contilab.errors import Fault
from contilab.manifest.menu import Menu
from contilab.manifest.resolve import ResolvedCell
from contilab.plan.plugins import built
from contilab.spec.sections import plugin_from
from contilab.strategies.contract import Strategy

MIXED = {"fuzzy_steps": "fuzzy boundaries", "blurry_share": "blurry tasks"}


def stream_faults(cells: Iterable[ResolvedCell], menu: Menu, place: str) -> list[Fault]:
    """Return the faults of the streams of *cells*, each once; *place*: the name of the manifest."""
    faults: dict[Fault, None] = {}
    for cell in cells:
        benchmark = cell.settings["benchmark"]
        if benchmark["online"] or any(benchmark[key] for key in MIXED):
            strategy: Strategy = built(menu, "method", plugin_from(cell.settings["method"]))
            faults |= dict.fromkeys(_one_pass(cell, strategy, place))
            faults |= dict.fromkeys(_mixed(cell, strategy, place))
    return list(faults)


def _one_pass(cell: ResolvedCell, strategy: Strategy, place: str) -> Iterator[Fault]:
    benchmark, train = cell.settings["benchmark"], cell.settings["train"]
    key = next((key for key in ("online", "fuzzy_steps") if benchmark[key]), None)
    if key is None:
        return
    where = f"{place}: benchmark.{key} of preset {cell.preset}"
    if strategy.training is None and train.get("epochs") != 1:
        found = f"train.epochs = {train['epochs']}" if "epochs" in train else f"train.steps = {train['steps']}"
        yield Fault(where, f"the stream shows each sample once, and {found}", "set train.epochs = 1")
    if strategy.stages == "cumulative":
        yield Fault(where, f"{cell.method} learns earlier tasks again in each stage", f"leave {cell.method} out")


def _mixed(cell: ResolvedCell, strategy: Strategy, place: str) -> Iterator[Fault]:
    benchmark = cell.settings["benchmark"]
    for key, what in MIXED.items():
        if not benchmark[key]:
            continue
        where = f"{place}: benchmark.{key} of preset {cell.preset}"
        if benchmark["scenario"] == "task":
            hint = "choose the class or the domain form of the preset"
            yield Fault(where, f"{what} are not defined in the task-incremental scenario, where the task is known", hint)
        if strategy.stages == "exemplars" or cell.settings.get("memory", {}).get("policy") == "herding":
            problem = f"{cell.method} chooses the exemplars of a class once, and with {what} its samples come in several tasks"
            yield Fault(where, problem, f"leave {cell.method} out, or choose another memory.policy")
