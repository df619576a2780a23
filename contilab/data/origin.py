"""Where the data of a benchmark come from: a published set, files that were imported in its place, or data of one's own.

What is imported is known by its digest. A run names the digest it was planned with; given that, nothing else is taken.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from contilab.data.cache import Cache, Named, Shape, open_cache
from contilab.data.contract import Dataset
from contilab.data.image_set import ImageSet
from contilab.data.importing import load_published, shape_of
from contilab.data.published import KnownSet
from contilab.errors import DataError, InputError
from contilab.spec.sections import Benchmark, Data


class Origin(NamedTuple):
    """Name and digest of the data, their shape, and how to read them. *test_labels*: of imported data, read by themselves."""

    data: Data
    shape: Shape
    read: Callable[[], Dataset]
    test_labels: Callable[[], Tensor] | None = None


def origin(spec: Benchmark, data: Data | None, known: KnownSet | None) -> Origin:
    """Return where *spec* gets its data, which must have the form of *known* if that is given.

    *data*: of a run that was planned. Raises InputError if there are no data under the name that *spec* asks for or they have
    another form, DataError if those of the run are not there.
    """
    cache = open_cache(os.environ)
    if isinstance(known, ImageSet) and (published := _published(known, spec, data, cache)):
        return published
    if data is None:
        named = _named(cache, spec, known)
        data = Data(name=named.shown, digest=named.digest)
    elif not cache.has(data.digest):
        raise _absent(cache, spec, data, known)
    shape, chosen = cache.shape(data.digest), data
    if known:
        _check_form(spec, known, shape)
    return Origin(
        data, shape, lambda: cache.load(chosen.digest, chosen.name), test_labels=lambda: cache.test_labels(chosen.digest)
    )


def refuse_foreign(spec: Benchmark, *own: str) -> None:
    """Raise InputError if *spec* sets one of the settings that only some benchmarks have, and it is none of its *own*."""
    plain = Benchmark(name=spec.name, scenario=spec.scenario)
    for key in ("data", "first_task", "angles"):
        if key not in own and getattr(spec, key) != getattr(plain, key):
            raise InputError(f"benchmark.{key}", f"{spec.name} has no such setting", hint="leave it out")


def _published(known: ImageSet, spec: Benchmark, data: Data | None, cache: Cache) -> Origin | None:
    """Return the origin of a published set whose digest is known, unless other data are asked for or stand in its place."""
    if data is None and (spec.data != "default" or ((named := cache.named(known.name)) and not named.is_published)):
        return None
    if data is not None and data.digest != known.digest:
        return None
    return Origin(Data(name=known.name, digest=known.digest), shape_of(known), lambda: load_published(known, os.environ))


def _named(cache: Cache, spec: Benchmark, known: KnownSet | None) -> Named:
    name = spec.data if spec.data != "default" else known.name if known else ""
    if not name:
        hint = 'contilab data import NAME PATH takes them in; then set benchmark.data = "NAME"'
        raise InputError("benchmark.data", f"{spec.name} needs the name of imported data", hint=hint)
    named = cache.named(name)
    if named is None or not cache.has(named.digest):
        if known and name == known.name:
            hint = f"contilab data import {name} DIR takes the files you have, contilab data prepare {name} downloads them"
            raise InputError("benchmark.name", f"{name} is not in the cache {cache.folder}", hint=hint)
        there = ", ".join(cache.names())
        problem = f'no data were imported as "{name}" into the cache {cache.folder}'
        hint = f"contilab data import {known.name if known else name} PATH" + (f" --as {name}" if known else "")
        raise InputError("benchmark.data", problem, hint=hint + (f"; there are {there}" if there else ""))
    return named


def _check_form(spec: Benchmark, known: KnownSet, shape: Shape) -> None:
    expected = shape_of(known)
    if shape != expected:
        problem = f'"{spec.data}" has not the form of {known.name}: expected {expected.text}, found {shape.text}'
        raise InputError("benchmark.data", problem, hint='benchmark.name = "npz" takes data of any form')


def _absent(cache: Cache, spec: Benchmark, data: Data, known: KnownSet | None) -> DataError:
    problem = f"the data of this run, {data.name} with the digest {data.digest[:12]}, are not in the cache {cache.folder}"
    name = known.name if known else spec.data
    own = f" --as {spec.data}" if known and spec.data != "default" else ""
    return DataError(spec.name, problem, hint=f"contilab data import {name} PATH{own}, from the files it was planned with")
