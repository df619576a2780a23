"""Writing the report of a study: tables for programs, a page for people."""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from contilab.disk.read import read_file
from contilab.disk.replace import replace
from contilab.errors import EnvironmentFault, UsageError
from contilab.report.comparison_table import comparisons_csv
from contilab.report.drawings import drawings
from contilab.report.figures.svg import Drawing
from contilab.report.latex import is_ours, latex
from contilab.report.markdown import markdown
from contilab.report.page import Page, page
from contilab.report.page_html import page_html
from contilab.report.parquet import results_parquet
from contilab.report.rows import absent_csv, results_csv, rows
from contilab.report.runs import RunReport, read_runs
from contilab.report.selection import selected, selection_json
from contilab.store.store import Store, open_store

NEEDED = ("jinja2", "matplotlib", "scipy")  # the extra [report]

FOR_PAPERS = "tables.tex"
FIRST_LINE = 1024  # bytes, more than it has: the name of a study has at most 40 letters


class Written(NamedTuple):
    """What was written.

    *path*: the page to open. *missing*: names of runs without a result. *left_out*: what could not be made, in a sentence
    with the way out, or "".
    """

    path: Path
    directory: Path
    files: tuple[Path, ...]
    runs: tuple[RunReport, ...]
    page: Page
    missing: tuple[str, ...]
    left_out: str


class Rendered(NamedTuple):
    """A report in memory: its *files* by name, and what they were made of."""

    files: dict[str, bytes]
    runs: tuple[RunReport, ...]
    page: Page
    left_out: str


def write_report(
    store_root: Path,
    study: str,
    out: Path | None = None,
    *,
    baseline: str = "",
    has_all_pairs: bool = False,
    compare: str = "",
    is_latex: bool = False,
) -> Written:
    """Write the report of *study* into *out* (default: reports/<study> of the store), each file replaced in one step.

    baseline: method or cell that the others are compared with (naive, else the first). has_all_pairs: each method is compared
    with each other one instead, all in one Holm family. compare: another study of the store, to set each cell beside the same
    cell there. is_latex: tables.tex besides; one that an earlier report left there is written again in any case, one of anybody
    else is not. UsageError if there is no such study or baseline. Without the extra [report] the tables and report.md are still
    written.
    """
    store = open_store(store_root)
    directory = out or store.reports_dir(study)
    has_latex = is_latex or _is_left(directory / FOR_PAPERS)
    rendered = render(store, study, baseline=baseline, has_all_pairs=has_all_pairs, compare=compare, is_latex=has_latex)
    for name, data in rendered.files.items():
        _put(directory / name, data)
    missing = tuple(run.name for run in rendered.runs if run.record is None)
    written = tuple(directory / name for name in rendered.files)
    opened = next(path for path in reversed(written) if is_latex or path.name != FOR_PAPERS)
    return Written(opened, directory, written, rendered.runs, rendered.page, missing, rendered.left_out)


def render(
    store: Store, study: str, *, baseline: str = "", has_all_pairs: bool = False, compare: str = "", is_latex: bool = False
) -> Rendered:
    """Return the report of *study* as `write_report` writes it, the file to open last."""
    runs, made = report_of(store, study, baseline=baseline, has_all_pairs=has_all_pairs, compare=compare)
    lacking = [name for name in NEEDED if find_spec(name) is None]
    drawn: dict[str, list[Drawing]] = {} if lacking else drawings(made)
    found = rows_of(made, runs)
    files = {
        **_tables(made, runs, found),
        **({"results.parquet": typed} if (typed := results_parquet(found)) else {}),
        **{f"figures/{item.key}.svg": item.svg.encode() for group in drawn.values() for item in group},
        "report.md": markdown(made, drawn).encode(),
    }
    for_papers = {FOR_PAPERS: latex(made).encode()} if is_latex else {}
    if not lacking:
        files["report.html"] = page_html(made, drawn, [*files, *for_papers]).encode()
    files |= for_papers
    left_out = f"report.html and figures need {' and '.join(lacking)}: pip install 'contilab[report]'" if lacking else ""
    return Rendered(files, tuple(runs), made, left_out)


def report_of(
    store: Store, study: str, *, baseline: str = "", has_all_pairs: bool = False, compare: str = ""
) -> tuple[list[RunReport], Page]:
    """Return the runs of *study* and its report as a value."""
    plan = store.study(study)
    other = (compare, read_runs(store, store.study(compare))) if compare else None
    runs = read_runs(store, plan)
    made = page(store, plan, runs, baseline=baseline, has_all_pairs=has_all_pairs, other=other)
    if baseline and made.sections and not any(section.families for section in made.sections):
        found = ", ".join(sorted({run.cell.method for run in runs}))
        raise UsageError("--baseline", f'nothing can be compared with "{baseline}"', hint=f"the methods are {found}")
    return runs, made


def tables(made: Page, runs: Sequence[RunReport]) -> dict[str, bytes]:
    """Return the tables for programs: what was measured, why a value is absent, comparisons, and choices of variants."""
    return _tables(made, runs, rows_of(made, runs))


def _tables(made: Page, runs: Sequence[RunReport], found: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    return {
        "results.csv": results_csv(found),
        "absent.csv": absent_csv(runs),
        "comparisons.csv": comparisons_csv([(section.benchmark, section.families) for section in made.sections]),
        "selection.json": selection_json((section.benchmark, section.choices) for section in made.sections),
    }


def rows_of(made: Page, runs: Sequence[RunReport]) -> list[dict[str, Any]]:
    """Return one row per run, with the choice of variants."""
    return rows(made.study.name, runs, selected(choice for section in made.sections for choice in section.choices))


def _is_left(path: Path) -> bool:
    """Return whether an earlier report left *path*, which would go on telling of the results of then."""
    try:
        return is_ours(read_file(path, FIRST_LINE) or b"")
    except OSError:  # nothing of ours is kept from its reader
        return False


def _put(path: Path, data: bytes) -> None:
    try:
        replace(path, data)
    except OSError as error:
        problem = f"it cannot be written: {os.strerror(error.errno or 0)}"
        raise EnvironmentFault(str(path), problem, hint="name another folder with --out DIR") from error
