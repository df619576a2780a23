"""Expand a resolved manifest: its cells, and the run of each cell and seed with its address."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from contilab.data.contract import Source
from contilab.engine.augmentation import augmentation
from contilab.errors import Fault, InputError, ManifestError, UsageError
from contilab.hardware.device import check_device
from contilab.manifest.menu import Menu
from contilab.manifest.resolve import Resolved, ResolvedCell
from contilab.plan.memory import memory_faults
from contilab.plan.plugins import built
from contilab.plan.streams import stream_faults
from contilab.spec.numerics import numerics_tags
from contilab.spec.run import Run
from contilab.spec.sections import Benchmark, Data, Eval, Execution, Memory, Numerics, Plugin, Train, plugin_from
from contilab.spec.study import Cell


class Expanded(NamedTuple):
    """A study's name, its cells in the order of the manifest, each run once by address, and the source of each benchmark.

    *left_out*: methods that the scenario of a preset does not know, and settings of memory that fit other methods only.
    """

    name: str
    cells: tuple[Cell, ...]
    runs: dict[str, Run]
    sources: dict[Benchmark, Source]
    left_out: tuple[str, ...] = ()


def expand(resolved: Resolved, menu: Menu, place: str = "manifest") -> Expanded:
    """Return the cells and runs of *resolved*; *place* is the manifest's name in messages.

    Raises ManifestError with every benchmark that its data do not allow, every word that names no device, every model that
    cannot be built for its benchmark, every augmentation of inputs that are no pictures, and every memory that keeps too little
    for its method or could never be filled.
    """
    sources, faults = _sources(resolved, menu, place)
    faults += [*_devices(resolved, place), *_models(resolved, menu, sources, place), *_augmentations(resolved, sources, place)]
    faults += [*memory_faults(resolved.cells, sources, menu, place), *stream_faults(resolved.cells, menu, place)]
    if faults:
        raise ManifestError(faults)
    cells: list[Cell] = []
    runs: dict[str, Run] = {}
    for resolved_cell in resolved.cells:
        source = sources[_benchmark(resolved_cell)]
        own = {seed: _run(resolved_cell, menu, source.data, seed) for seed in resolved_cell.seeds}
        cells.append(_cell(resolved_cell, {seed: run.rid for seed, run in own.items()}))
        for run in own.values():
            runs.setdefault(run.rid, run)
    return Expanded(resolved.name, tuple(cells), runs, sources, resolved.left_out)


def _sources(resolved: Resolved, menu: Menu, place: str) -> tuple[dict[Benchmark, Source], list[Fault]]:
    sources: dict[Benchmark, Source] = {}
    faults: dict[Fault, None] = {}
    for cell in resolved.cells:
        benchmark = _benchmark(cell)
        if benchmark in sources:
            continue
        try:
            sources[benchmark] = menu.entry("benchmark", benchmark.name).make(benchmark)
        except InputError as error:
            told = [
                Fault(f"{place}: {fault.place} of preset {cell.preset}", fault.problem, fault.hint) for fault in error.faults
            ]
            faults |= dict.fromkeys(told)
    return sources, list(faults)


def _devices(resolved: Resolved, place: str) -> list[Fault]:
    """Return the faults of words that name no device; whether a device is there, only the machine that trains can tell."""
    faults: dict[Fault, None] = {}
    for cell in resolved.cells:
        try:
            check_device(cell.settings["engine"]["device"])
        except UsageError as error:
            (fault,) = error.faults
            faults[Fault(f"{place}: engine.device of preset {cell.preset}", fault.problem, fault.hint)] = None
    return list(faults)


def _models(resolved: Resolved, menu: Menu, sources: Mapping[Benchmark, Source], place: str) -> list[Fault]:
    """Return the faults of models that cannot take the inputs of their benchmark; only shapes are looked at."""
    faults: dict[Fault, None] = {}
    pairs: dict[str, tuple[Plugin, Source, str]] = {}
    for cell in resolved.cells:
        model, source = plugin_from(cell.settings["model"]), sources.get(_benchmark(cell))
        if source:
            pairs.setdefault(f"{model} {source.input_shape} {source.head_rows}", (model, source, cell.preset))
    for model, source, preset in pairs.values():
        try:
            built(menu, "model", model, source.input_shape, source.head_rows)
        except InputError as error:
            told = [Fault(f"{place}: {fault.place} of preset {preset}", fault.problem, fault.hint) for fault in error.faults]
            faults |= dict.fromkeys(told)
    return list(faults)


def _augmentations(resolved: Resolved, sources: Mapping[Benchmark, Source], place: str) -> list[Fault]:
    """Return the faults of augmentations that cannot be done with the inputs of their benchmark."""
    faults: dict[Fault, None] = {}
    for cell in resolved.cells:
        source = sources.get(_benchmark(cell))
        if source is None:
            continue
        try:
            augmentation(cell.settings["train"]["augment"], source.input_shape)
        except InputError as error:
            (fault,) = error.faults
            faults[Fault(f"{place}: {fault.place} of preset {cell.preset}", fault.problem, fault.hint)] = None
    return list(faults)


def _benchmark(cell: ResolvedCell) -> Benchmark:
    return Benchmark(**cell.settings["benchmark"])


def _run(cell: ResolvedCell, menu: Menu, data: Data, seed: int) -> Run:
    tables = cell.settings
    names = {kind: tables[kind]["name"] for kind in ("benchmark", "model", "optim", "method")}
    return Run(
        benchmark=_benchmark(cell),
        data=data,
        model=plugin_from(tables["model"]),
        optim=plugin_from(tables["optim"]),
        train=Train(**tables["train"]),
        method=plugin_from(tables["method"]),
        memory=Memory(**tables["memory"]) if "memory" in tables else None,
        eval=Eval(**tables["eval"]),
        engine=Numerics(**_part(tables["engine"], Numerics)),
        numerics=numerics_tags(menu.entry, names),
        seed=seed,
    )


def _cell(cell: ResolvedCell, runs: dict[int, str]) -> Cell:
    return Cell(
        preset=cell.preset,
        benchmark=cell.settings["benchmark"]["name"],
        scenario=cell.settings["benchmark"]["scenario"],
        method=cell.method,
        sweep=cell.sweep,
        execution=Execution(**_part(cell.settings["engine"], Execution)),
        runs=runs,
    )


def _part(table: Mapping[str, Any], section: type) -> dict[str, Any]:
    return {field.name: table[field.name] for field in fields(section)}
