"""Writing the report of a study: tables for programs, a page for people."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from contilab.report.markdown import markdown
from contilab.report.page import Page, figures, page
from contilab.report.page_html import page_html
from contilab.report.replace import replace
from contilab.report.rows import absent_csv, results_csv
from contilab.report.runs import RunReport, read_runs
from contilab.store.store import open_store

NEEDED = ("jinja2", "matplotlib")  # the extra [report]


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


def write_report(store_root: Path, study: str, out: Path | None = None) -> Written:
    """Write the report of *study* into *out* (default: reports/<study> of the store), each file replaced in one step.

    UsageError if there is no such study. Without the extra [report] the tables and report.md are still written.
    """
    store = open_store(store_root)
    plan = store.study(study)
    runs = read_runs(store, plan)
    made = page(store, plan, runs)
    lacking = [name for name in NEEDED if find_spec(name) is None]
    drawings = {} if lacking else {section.anchor: figures(section) for section in made.sections}
    files = {
        "results.csv": results_csv(study, runs),
        "absent.csv": absent_csv(runs),
        **{f"figures/{item.key}.svg": item.svg.encode() for found in drawings.values() for item in found},
        "report.md": markdown(made, drawings).encode(),
    }
    if not lacking:
        files["report.html"] = page_html(made, drawings).encode()
    directory = out or store.reports_dir(study)
    for name, data in files.items():
        replace(directory / name, data)
    left_out = f"report.html and figures need {' and '.join(lacking)}: pip install 'contilab[report]'" if lacking else ""
    missing = tuple(run.name for run in runs if run.record is None)
    written = tuple(directory / name for name in files)
    return Written(written[-1], directory, written, tuple(runs), made, missing, left_out)
