"""What is fastest on this machine, as it was measured, and kept so that all runners of a machine decide alike.

An answer is one file `<sha256>.json`, named for all that it depends on: machine, version of torch, model with its settings,
batch and members. So the answer of another machine is never found, and nobody has to compare. Where so many members were
not measured, a number near to theirs may stand in: groups are cut evenly, to 3 or 5 members as well, and `bench` measures a few
numbers. In a store the first answer stays; in a user's cache, which only `bench` writes, the latest does. A file that is
damaged is no answer.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from contilab.disk.cache import cache_folder
from contilab.disk.put_new import put_new
from contilab.disk.read import names, read_table
from contilab.disk.replace import replace
from contilab.hardware.fingerprint import Machine
from contilab.spec.canonical import canonical, digest

SCHEME = "contilab.hardware/1"
NEAR = 1.5  # that numbers of members may differ by; chosen: 1, 2, 4 and 8 then stand for all up to 12, and 1 for itself alone


class Shape(NamedTuple):
    """What a speed depends on, and so what an answer is named for.

    *settings*: of the model, defaults written out. *features*: numbers per input. *detail*: what else the answer rests on;
    empty for those of `bench`, which are measured with the plainest method.
    """

    machine: Machine
    device: str  # cpu or cuda; which GPU, the machine tells
    model: str
    settings: dict[str, Any]
    features: int
    batch: int
    members: int
    detail: dict[str, Any] = {}  # noqa: RUF012  nobody changes it

    @property
    def table(self) -> dict[str, Any]:
        """The shape as a plain table."""
        machine = {"fingerprint": self.machine.fingerprint, "torch": self.machine.torch}
        return {"v": SCHEME, **self._asdict(), "machine": machine}

    @property
    def address(self) -> str:
        """SHA-256 in hex: the name of the answer."""
        return digest(self.table)


class Rate(NamedTuple):
    """How fast one form trained: samples per second summed over members and processes, replayed ones left out.

    *spread*: of the repetitions, (largest - smallest) / median. *member_bytes*: memory that a member took, 0 if unknown.
    """

    execution: str
    precision: str
    compile: str
    threads: int
    processes: int
    samples_per_s: float
    spread: float
    member_bytes: int = 0


class Answer(NamedTuple):
    """What was measured of one shape, by bench or auto. *measured*: date and time in UTC. *foreign_cores*: see neighbours.

    *flops_per_sample*: of a forward and a backward pass, 0 if unknown.
    """

    rates: tuple[Rate, ...]
    by: str
    measured: str
    foreign_cores: float
    flops_per_sample: float = 0.0

    def at(self, threads: int | None) -> list[Rate]:
        """Return the rates of processes with *threads* threads, fastest first; beside others like them, if so measured.

        None: of any number, as on a GPU, where they do not count.
        """
        found = [rate for rate in self.rates if threads is None or rate.threads == threads]
        crowd = max((rate.processes for rate in found), default=1)
        return sorted((rate for rate in found if rate.processes == crowd), key=lambda rate: -rate.samples_per_s)


class Profiles:
    """The answers that count here.

    *kept*: the folder of the store that all runners share. *cache*: the folder of a user, where `bench` writes without a store.
    What is learned is remembered besides, so that without any folder nothing is measured twice; also that there was no
    answer, so that who asks once more after training hears what decided before it.
    """

    def __init__(self, kept: Path | None = None, cache: Path | None = None) -> None:
        self.kept = kept
        self.cache = cache
        self._known: dict[str, Answer | None] = {}

    def find(self, shape: Shape) -> Answer | None:
        """Return the answer for *shape*, or None. One of the cache is kept in the store from then on."""
        address = shape.address
        if address not in self._known:
            answer = read(self.kept, shape)
            if answer is None and (cached := read(self.cache, shape)):
                answer = self.keep(shape, cached)
            self._known[address] = answer
        return self._known[address]

    def nearest(self, shape: Shape) -> Iterator[tuple[int, Answer]]:
        """Yield the answers for the numbers of members that are near to that of *shape*, and these; the nearest first."""
        for members in near(shape.members):
            answer = self.find(shape._replace(members=members))
            if answer:
                yield members, answer

    def keep(self, shape: Shape, answer: Answer) -> Answer:
        """Keep *answer* and return the one that counts: another runner may be first. A full disk is no reason to stop."""
        if self.kept is not None:
            with suppress(OSError):
                put_new(_file(self.kept, shape), _bytes(shape, answer))
            answer = read(self.kept, shape) or answer
        return self.remember(shape, answer)

    def remember(self, shape: Shape, answer: Answer) -> Answer:
        """Return *answer*, and find it from now on, here and by nobody else."""
        self._known[shape.address] = answer
        return answer

    def all(self, machine: Machine) -> list[tuple[dict[str, Any], Answer]]:
        """Return every answer of `bench` for *machine*, with the table of its shape; those of the store first."""
        found: dict[str, tuple[dict[str, Any], Answer]] = {}
        for folder in filter(None, (self.kept, self.cache)):
            with suppress(OSError):  # a folder of another user
                for name in names(folder):
                    table = read_table(folder / name)
                    answer = _answer(table)
                    if answer and answer.by == "bench" and _is_of(table["shape"], machine):
                        found.setdefault(name, (table["shape"], answer))
        return list(found.values())


def near(members: int) -> list[int]:
    """Return the numbers of members whose speed may stand for that of *members*: itself, then others, the nearest first.

    Of two equally near the smaller one, whose speed promises less.

    >>> near(6)
    [6, 7, 5, 8, 4, 9]
    """
    counts = range(math.ceil(members / NEAR), math.floor(members * NEAR) + 1)
    return sorted(counts, key=lambda count: max(count / members, members / count))


def read(folder: Path | None, shape: Shape) -> Answer | None:
    """Return the answer for *shape* in *folder*; None if there is none that can be read."""
    if folder is None:
        return None
    try:
        table = read_table(_file(folder, shape))
    except OSError:
        return None
    return _answer(table) if table.get("shape") == json.loads(canonical(shape.table)) else None


def put(folder: Path, shape: Shape, answer: Answer, *, replaces: bool) -> bool:
    """Write *answer* into *folder*; False if another one is there, which stays unless the new one *replaces* it."""
    path, data = _file(folder, shape), _bytes(shape, answer)
    if put_new(path, data):
        return True
    if not replaces:
        return False
    replace(path, data)
    return True


def written_out(settings: object) -> dict[str, Any]:
    """Return *settings*, an instance of a settings dataclass, as a plain table with every default."""
    table: dict[str, Any] = json.loads(canonical(asdict(settings)))  # type: ignore[call-overload]  # an entry's settings
    return table


def user_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of a user's cache for what is measured without a store."""
    return cache_folder(environ) / "hardware"


def _file(folder: Path, shape: Shape) -> Path:
    return folder / f"{shape.address}.json"


def _bytes(shape: Shape, answer: Answer) -> bytes:
    rates = [rate._asdict() for rate in answer.rates]
    table = {"shape": shape.table, "machine": shape.machine.facts, **answer._asdict(), "rates": rates}
    return (json.dumps(json.loads(canonical(table)), indent=1) + "\n").encode()


def _answer(table: dict[str, Any]) -> Answer | None:
    try:
        rates = tuple(Rate(**rate) for rate in table["rates"])
        facts = float(table["foreign_cores"]), float(table.get("flops_per_sample", 0.0))
        answer = Answer(rates, table["by"], table["measured"], *facts)
        is_sound = bool(rates) and all(rate.samples_per_s > 0 for rate in rates)
    except (KeyError, TypeError, ValueError):
        return None
    return answer if is_sound else None


def _is_of(shape: Any, machine: Machine) -> bool:
    return isinstance(shape, dict) and shape.get("machine") == {"fingerprint": machine.fingerprint, "torch": machine.torch}
