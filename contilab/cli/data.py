"""`contilab data`: the data sets that benchmarks are made of: which are there, getting more, checking what is kept."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contilab.cli.columns import columns

if TYPE_CHECKING:
    from contilab.data.cache import Cache, Named
    from contilab.data.download import Progress
    from contilab.data.importing import Taken

data = typer.Typer(
    name="data",
    help="Data sets: what is there, getting and importing them, checking the cache.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A published set, or a name for data of your own.", show_default=False)
]


@data.command("list")
def list_() -> None:
    """Show published sets and what was imported, and whether it is in the cache."""
    from contilab.data.cache import open_cache
    from contilab.data.published import KNOWN

    cache = open_cache(os.environ)
    names = [*KNOWN, *(name for name in cache.names() if name not in KNOWN)]
    rows = [("name", "train", "test", "inputs", "classes", "digest", "state"), *(_row(cache, name) for name in names)]
    typer.echo(columns(rows))
    typer.echo(f"\ndigits and synthetic come with the package; the cache is {cache.folder}")


@data.command()
def prepare(name: Name) -> None:
    """Get a published set into the cache: from a folder of CONTILAB_DATA, or by download."""
    from contilab.data import importing

    with _bar() as progress:
        taken = importing.prepare(name, os.environ, progress, _memory_left)
    _tell(taken)


@data.command("import")
def import_(
    name: Name,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder, an archive, an .npz or .safetensors file.")],
    *,
    own_name: Annotated[
        str, typer.Option("--as", metavar="NAME", help="What to call files that are not the published ones.")
    ] = "",
    size: Annotated[int | None, typer.Option(min=1, max=1024, help="Make pictures this many pixels wide and high.")] = None,
) -> None:
    """Take files that you have into the cache; the way of using them is printed."""
    from contilab.data.importing import import_data

    _tell(import_data(name, path, os.environ, own_name=own_name, size=size, left=_memory_left))


@data.command()
def verify() -> None:
    """Compute the digests of all cached data again; exit code 4 if one differs."""
    from contilab.cli.main import tell
    from contilab.data.cache import open_cache
    from contilab.data.published import IMAGE_SETS
    from contilab.errors import DataError, Fault

    cache = open_cache(os.environ)
    kept = [(named.shown, named.digest) for name in cache.names() if (named := cache.named(name))]
    known = {images.digest: images.name for images in IMAGE_SETS}  # which runners keep by their digest alone
    unnamed = sorted(set(cache.digests()) - {digest for _, digest in kept})
    faults: list[Fault] = []
    for shown, digest in (*kept, *((known.get(digest, "no name"), digest) for digest in unnamed)):
        try:
            cache.load(digest, shown)
            typer.echo(f"{shown}: {digest} is what is kept")
        except DataError as error:
            faults += error.faults
    tell(*faults)
    if faults:
        raise typer.Exit(DataError.exit_code)


def _memory_left() -> int:
    from contilab.hardware.memory import free_memory

    return free_memory().bytes


def _row(cache: "Cache", name: str) -> tuple[object, ...]:
    from contilab.data.image_set import ImageSet
    from contilab.data.published import KNOWN
    from contilab.errors import DataError

    named, known = cache.named(name), KNOWN.get(name)
    if named is None and known is None:
        return (name, "", "", "", "", "", "damaged name; import it again")
    # a runner keeps MNIST and Fashion-MNIST by their digests, which are known beforehand
    shown, digest = (named.shown, named.digest) if named else (name, known.digest if isinstance(known, ImageSet) else "")
    if known and named is None and not (digest and cache.has(digest)):
        state = f"not there: contilab data prepare {name}"
        return (name, known.train_samples, known.test_samples, _by(known.image_shape), known.classes, "", state)
    try:
        shape = cache.shape(digest)
    except DataError:
        return (shown, "", "", "", "", digest[:12], "missing or damaged: import it again")
    return (shown, shape.train_samples, shape.test_samples, _by(shape.input_shape), shape.classes, digest[:12], "ready")


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)


def _tell(taken: "Taken") -> None:
    named = taken.named
    if named.of and not named.is_published:
        typer.echo(
            f"warning: {taken.place}: the content is not the published one of {named.of}; "
            f"it is shown as {named.shown} and is another benchmark",
            err=True,
        )
    if taken.replaced:
        typer.echo(f"{taken.name} stood for {taken.replaced[:12]} before; runs that were planned with that keep it", err=True)
    typer.echo(f"{named.shown}: {'from ' + taken.place if taken.place else 'is there already'}, digest {named.digest}")
    if named.class_names and not named.of:
        typer.echo(f"classes: {', '.join(f'{label} {name}' for label, name in enumerate(named.class_names))}")
    typer.echo(_use(taken.name, named))


def _use(name: str, named: "Named") -> str:
    if not named.of:
        return f'use it by benchmark.name = "npz" and benchmark.data = "{name}"'
    return f"{named.of} benchmarks use it" if name == named.of else f'{named.of} benchmarks use it by benchmark.data = "{name}"'


@contextmanager
def _bar() -> "Iterator[Progress]":
    """Yield what shows a download: a bar on a terminal, nothing elsewhere."""
    from contilab.data.download import silent

    if not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    parts = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bar(*parts, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name)
            bar.update(tasks[name], completed=done, total=total)

        yield show
