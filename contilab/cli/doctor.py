"""`contilab doctor`: what machine this is, what it allows, and what a run would choose here, with reasons."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from contilab.cli.columns import columns
from contilab.cli.options import DEFAULT_STORE, StoreOption
from contilab.errors import StoreError

if TYPE_CHECKING:
    from contilab.hardware.profile import Profiles

Row = tuple[str, str]
LOOK_SECONDS = 0.3  # at what other processes do; chosen: clocks of processor time tick every 0.01 s

EXAMPLE = """
name = "doctor"
profile = "cpu"
[matrix]
preset = ["split_mnist_class"]
method = ["naive"]
seed = [0, 1, 2, 3, 4, 5, 6, 7]
[overrides]
"train.batch" = 32
"""


def doctor(store: StoreOption = DEFAULT_STORE) -> None:
    """Show what this machine is, allows and would choose."""
    probed = _store(store)
    typer.echo(columns([*_machine(), *_limits(), *_choices(store), *_measured(store), *_folders(), probed]))
    if probed[1].startswith("unusable"):
        raise typer.Exit(StoreError.exit_code)


def _machine() -> Iterable[Row]:
    from contilab.hardware.capabilities import capabilities
    from contilab.hardware.versions import versions

    found, facts = versions(), capabilities()
    cpu = facts["cpu"]
    yield "versions", ", ".join(f"{name} {version}" for name, version in found.items())
    yield "processor", f"{cpu['model']} ({cpu['architecture']}), {cpu['cores_physical']} cores, {cpu['cores_logical']} threads"
    yield "torch kernels", str(cpu["torch_kernels"])
    yield "instruction sets", " ".join(cpu["instruction_sets"]) or "this version of torch does not tell"
    yield "CUDA devices", "; ".join(_cuda(device) for device in facts["cuda"]) or "none"


def _cuda(device: dict[str, object]) -> str:
    gigabytes = int(str(device["memory_bytes"])) / 2**30
    return f"cuda:{device['index']} {device['name']}, compute capability {device['compute_capability']}, {gigabytes:.0f} GiB"


def _limits() -> Iterable[Row]:
    import psutil  # type: ignore[import-untyped]  # it ships no types

    from contilab.hardware.limits import limits
    from contilab.hardware.memory import MIB, free_memory
    from contilab.hardware.threads import thread_budget

    found = limits()
    yield "processor quota", "none" if found.cpus is None else f"{found.cpus:g} processors (cgroup)"
    total = psutil.virtual_memory().total / 2**30
    own = "no cgroup limit" if found.memory_bytes is None else f"cgroup limit {found.memory_bytes / 2**30:.1f} GiB"
    yield "memory", f"{total:.1f} GiB, {own}"
    workers = thread_budget().count
    alone, beside = free_memory(), free_memory(workers, os.getpid())
    shared = f"; one of {workers} workers {beside.bytes // MIB:,} MiB" if workers > 1 else ""
    yield "memory left", f"a worker may take {alone.bytes // MIB:,} MiB ({alone.reason}){shared}; larger groups train in parts"


def _choices(store: Path) -> Iterable[Row]:
    from contilab.hardware.device import choose_device
    from contilab.hardware.neighbours import Neighbours
    from contilab.hardware.threads import thread_budget, use_threads

    with Neighbours() as others:
        time.sleep(LOOK_SECONDS)
    yield "others use", f"{others.cores:.1f} cores" + ("; speeds measured now would be too low" if others.are_busy else "")
    threads = thread_budget()
    use_threads(threads.count)
    yield "threads", f"{threads.count} ({threads.reason})"
    device = choose_device("auto")
    yield "device", f"{device.value} ({device.reason})"
    for name, choice in _engine_choices(store).items():
        yield name, f"{choice['value']} for 8 members of an MLP 784-400-400-10, batch 32 ({choice['reason']})"


def _engine_choices(store: Path) -> dict[str, dict[str, str]]:
    """Return what the engine would choose for eight members of a perceptron, without measuring anything."""
    from contilab.engine.environment import environment
    from contilab.plan.study import study
    from contilab.spec.sections import Execution

    found = environment(list(study(EXAMPLE, place="doctor")[0].runs.values()), Execution(), _profiles(store))
    return {name: found[name] for name in ("execution", "precision", "compile")}


def _measured(store: Path) -> Iterable[Row]:
    """Tell the fastest of all that bench measured on this machine, for each shape."""
    from contilab.hardware.fingerprint import this_machine

    here = this_machine()
    yield "machine", f"{here.fingerprint[:12]}, as profiles name it, with torch {here.torch}"
    answers = _profiles(store).all(here)
    if not answers:
        yield "measured", "nothing on this machine yet: contilab bench measures what is fastest; auto does so for a moment"
    for shape, answer in answers:
        best = max(answer.rates, key=lambda rate: rate.samples_per_s)
        way = f"{best.execution} {best.precision}" + (" compiled" if best.compile == "on" else "")
        where = f"{best.processes} x {best.threads} threads" if shape["device"] == "cpu" else str(shape["device"])
        what = f"{shape['model']}, batch {shape['batch']}, {shape['members']} members"
        yield "measured", f"{what}: {way}, {where}, {best.samples_per_s:,.0f} samples/s ({answer.by} on {answer.measured[:10]})"


def _profiles(store: Path) -> "Profiles":
    from contilab.hardware.profile import Profiles, user_folder
    from contilab.store.layout import Layout

    return Profiles(cache=user_folder(os.environ), kept=_readable(Layout(store).hardware))


def _readable(folder: Path) -> Path | None:
    """Return *folder* if it is there: nothing shall be made in a place that may be no store."""
    try:
        return folder if folder.is_dir() else None
    except OSError:
        return None


def _folders() -> Iterable[Row]:
    from contilab.disk.cache import cache_folder

    yield "CONTILAB_DATA", os.environ.get("CONTILAB_DATA") or "not set"
    yield "CONTILAB_CACHE", os.environ.get("CONTILAB_CACHE") or f"not set: {cache_folder(os.environ)}"


def _store(root: Path) -> Row:
    from contilab.store.probe import probe
    from contilab.store.store import open_store

    place = root.absolute()
    existed = root.exists()
    try:
        probe(root)
        if existed and any(root.iterdir()):
            open_store(root)
    except StoreError as error:
        fault = error.faults[0]
        return "store", f"unusable: {fault.place}: {fault.problem} (hint: {fault.hint})"
    finally:
        if not existed and root.is_dir() and not any(root.iterdir()):
            root.rmdir()
    return "store", f"{place} can hold a store" + ("" if existed else " (there is none yet)")
