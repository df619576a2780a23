"""report.html: one self-contained file, without network or script."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from contilab.report.figures.svg import Drawing
from contilab.report.page import Page

HERE = Path(__file__).parent


def page_html(page: Page, drawings: Mapping[str, Sequence[Drawing]]) -> str:
    """Return *page* as HTML; every text of a study is escaped, only our own drawings go in as they are."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = (HERE / "style.css").read_text(encoding="utf-8")
    return environment.get_template("report.html.j2").render(page=page, drawings=drawings, style=style)
