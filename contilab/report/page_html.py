"""report.html: one self-contained file, without network; its one script sorts tables and shows the values behind a mean."""

import base64
import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from contilab.report.characters import printable
from contilab.report.figures.svg import Drawing
from contilab.report.page import Page
from contilab.report.section import shown
from contilab.report.wording import against_text, standing_table, standing_text

HERE = Path(__file__).parent
BESIDE = {
    "results.csv": "every metric of every run",
    "results.parquet": "the same with types",
    "absent.csv": "why a value is missing",
    "comparisons.csv": "every test",
    "selection.json": "grids, scores and choices",
    "report.md": "",
    "tables.tex": "for papers",
    "figures/": "",
}  # what may lie beside the page, and what it is


def page_html(page: Page, drawings: Mapping[str, Sequence[Drawing]], files: Collection[str]) -> str:
    """Return *page* as HTML, which names the *files* that are written beside it.

    Every text of a study is escaped; only our own drawings, style and script go in as they are.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("style.css", "report.js"))
    # the page names the digest of its script, so a browser runs no other one, whatever a study smuggles in
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    words: dict[str, Any] = {"against_text": against_text, "shown": shown}
    words |= {"standing_table": standing_table, "standing_text": standing_text}
    template = environment.get_template("report.html.j2")
    beside = [f"{name} ({what})" if what else name for name, what in BESIDE.items() if _is_there(name, files)]
    ours = {"style": style, "script": script, "digest": digest}
    return printable(template.render(page=page, drawings=drawings, beside=beside, **ours, **words))


def _is_there(name: str, files: Collection[str]) -> bool:
    return any(file == name or (name.endswith("/") and file.startswith(name)) for file in files)
