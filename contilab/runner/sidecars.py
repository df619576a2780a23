"""What stands next to every result besides the record: the resolved run and the machine that trained it."""

import json
import platform
import socket
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]  # it ships no types
import tomli_w

from contilab.hardware.capabilities import capabilities
from contilab.hardware.limits import limits
from contilab.hardware.versions import versions
from contilab.spec.canonical import digest
from contilab.spec.run import Run

CONFIG = "config.toml"
ENVIRONMENT = "env.json"
LOG = "log.jsonl"


def config_toml(run: Run) -> bytes:
    """Return the resolved run as TOML: its address, its seed and every setting with defaults written out."""
    head = {"rid": run.rid, "seed": run.seed}
    return tomli_w.dumps({**head, **run.config}).encode()


def env_json(choices: Mapping[str, Any]) -> bytes:
    """Return what trained the run as JSON: *choices* with their reasons, versions, machine and limits."""
    return (json.dumps({**choices, **machine()}, indent=1, default=str) + "\n").encode()


@cache
def machine() -> dict[str, Any]:
    """Return what does not change while the process lives: versions, capabilities, limits and the host."""
    return {
        "versions": versions(),
        "capabilities": capabilities(),
        "cgroup": limits()._asdict(),
        "host": {
            "name": socket.gethostname(),
            "system": platform.platform(),
            "memory_bytes": int(psutil.virtual_memory().total),
            "is_container": Path("/.dockerenv").exists() or Path("/run/.containerenv").exists(),
        },
    }


def processor(device: str) -> str:
    """Return the model of the processor, and of the GPU if *device* (cpu or cuda:N) is one: bits of a run depend on both."""
    found, index = machine()["capabilities"], device.partition(":")[2]
    return " with ".join([found["cpu"]["model"], *([found["cuda"][int(index)]["name"]] if index else [])])


def fingerprint() -> str:
    """Return a digest of all that may change the last bits of a result: versions, processor and its kernels, devices."""
    known = machine()["capabilities"]
    facts = {"versions": machine()["versions"], "cpu": known["cpu"], "cuda": known["cuda"]}
    return digest(json.dumps(facts, sort_keys=True, default=str))
