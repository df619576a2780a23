"""What bench measured as a figure: samples per second over members, the fastest form of each execution. Needs matplotlib."""

from collections.abc import Sequence
from pathlib import Path

from contilab.bench.measure import Measured
from contilab.errors import UsageError


def draw(measured: Sequence[Measured], path: Path) -> None:
    """Draw *measured* into the file *path*, one panel per model; UsageError without matplotlib, or for a strange ending."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("--plot", "matplotlib is not installed", hint='pip install "contilab[report]"') from error
    models = list(dict.fromkeys(one.shape.model for one in measured))
    figure = Figure(figsize=(5 * len(models), 4), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for model, panel in zip(models, panels, strict=True):
        _panel(panel, [one for one in measured if one.shape.model == model], model)
    try:
        figure.savefig(path)
    except ValueError as error:
        raise UsageError("--plot", f'"{path.suffix}" is no kind of figure', hint="use .svg, .png or .pdf") from error


def _panel(panel: object, measured: Sequence[Measured], model: str) -> None:
    lines: dict[str, dict[int, float]] = {}
    for one in measured:
        for row in one.rows:
            if row.samples_per_s:
                beside = f", {row.processes} processes" if row.processes > 1 else ""
                name = f"{row.execution} {row.precision}{' compiled' if row.compile == 'on' else ''}{beside}"
                lines.setdefault(name, {})[row.members] = row.samples_per_s
    lines["one at a time"] = {one.shape.members: one.one_at_a_time for one in measured}
    for name, points in lines.items():
        members = sorted(points)
        panel.plot(members, [points[count] for count in members], marker="o", label=name)  # type: ignore[attr-defined]
    panel.set(title=model, xlabel="members", ylabel="samples/s", ylim=(0, None))  # type: ignore[attr-defined]
    panel.legend(fontsize="small")  # type: ignore[attr-defined]
