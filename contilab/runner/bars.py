"""Progress bars on a terminal: one for all runs, one for the group in work."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from contilab.engine.watch import Progress

WIDE = 100  # characters from which bars are drawn; the longest line without one takes 85


class Facts(ProgressColumn):
    """Task, loss and speed of a group: what is cut first where the line is too long."""

    def render(self, task: Task) -> Text:
        """Return the facts of *task* as one line."""
        return Text(task.fields["facts"], no_wrap=True, overflow="ellipsis")


class Bars:
    """Two bars; the second one is there while a group is in work."""

    def __init__(self, rich: RichProgress, runs: TaskID | None = None) -> None:
        self._rich = rich
        self._runs = rich.add_task("runs", total=None, facts="") if runs is None else runs
        self._group = rich.add_task("", total=None, visible=False, facts="")

    def beside(self, worker: int) -> "Bars":  # noqa: ARG002  the order of the bars tells workers apart
        """Return bars with the same first one and another second one."""
        return Bars(self._rich, self._runs)

    def runs(self, done: int, wanted: int) -> None:
        """Set the first bar."""
        self._rich.update(self._runs, completed=done, total=wanted)

    def begin(self, label: str, members: int) -> None:
        """Show the second bar, empty."""
        self._rich.reset(self._group, description=f"{label} x{members}", total=None, visible=True, facts="starting")

    def step(self, progress: Progress) -> None:
        """Set the second bar."""
        loss = "diverged" if progress.loss is None else f"loss {progress.loss:.2f}"
        speed = f"{progress.samples_per_second / 1000:,.1f}k samples/s"
        facts = f"task {progress.task + 1}/{progress.tasks}  {loss}  {speed}"
        self._rich.update(self._group, completed=progress.step, total=progress.steps, facts=facts)

    def end(self) -> None:
        """Hide the second bar."""
        self._rich.update(self._group, visible=False)


@contextmanager
def bars(*, color: bool, file: TextIO) -> Iterator[Bars]:
    """Yield bars on *file*. Logs printed to standard error meanwhile appear above them; standard output stays untouched."""
    console = Console(file=file, no_color=not color, force_terminal=True)
    columns = (
        TextColumn("{task.description}"),
        *([BarColumn(bar_width=12)] if console.width >= WIDE else []),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),  # not to be squeezed: a cut number is a wrong one
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        Facts(),
    )
    with RichProgress(*columns, console=console, transient=True, redirect_stdout=False) as rich:
        yield Bars(rich)
