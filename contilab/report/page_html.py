"""report.html: one self-contained file, without network; its one script sorts tables and shows the values behind a mean."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from contilab.report.figures.svg import Drawing
from contilab.report.page import Page, shown
from contilab.report.wording import against_text, standing_table, standing_text

HERE = Path(__file__).parent


def page_html(page: Page, drawings: Mapping[str, Sequence[Drawing]]) -> str:
    """Return *page* as HTML; every text of a study is escaped, only our own drawings, style and script go in as they are."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("style.css", "report.js"))
    # the page names the digest of its script, so a browser runs no other one, whatever a study smuggles in
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    words = {"against_text": against_text, "standing_table": standing_table, "standing_text": standing_text, "shown": shown}
    template = environment.get_template("report.html.j2")
    return template.render(page=page, drawings=drawings, style=style, script=script, digest=digest, **words)
