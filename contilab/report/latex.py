r"""tables.tex: the tables of a report for papers, with booktabs; each is a table of its own that \input takes.

Every text of a study is escaped; numbers are in text mode, with a real minus sign.
"""

import re
from collections.abc import Iterable

from contilab.report.characters import printable
from contilab.report.page import Page
from contilab.report.section import Section
from contilab.report.table import Column, Entry, Line, Table

SPECIAL = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "−": r"$-$",
    "`": r"\textasciigrave{}",
}
LETTERS = re.compile("|".join([*map(re.escape, SPECIAL), r"([-,'])(?=\1)"]))  # two hyphens would be set as a dash
TESTS = ("difference", "p", "p, Holm", "at .05", "95 % interval", "won / tied / lost")  # what fits the width of a page

SIGNATURE = ": made by contilab report; needs "  # in the first line


def latex(page: Page) -> str:
    """Return the headline and the comparison tables of *page*; `booktabs` is the only package that they need."""
    needs = r"\usepackage{booktabs} and \usepackage[T1]{fontenc}"
    head = f"% {page.study.name}{SIGNATURE}{needs}\n"
    return printable(head + "\n".join(block for section in page.sections for block in _section(section)))


def is_ours(text: bytes) -> bool:
    r"""Return whether *text* begins as `latex` has it.

    >>> is_ours(b"% tiny: made by contilab report; needs ..."), is_ours(b"\\documentclass{article}")
    (True, False)
    """
    first = text.partition(b"\n")[0]
    return first.startswith(b"% ") and SIGNATURE.encode() in first


def escaped(text: str) -> str:
    r"""Return *text* as LaTeX that shows it literally, in one line.

    >>> print(escaped("50 % of $x_1$ & \\input{y}"))
    50 \% of \$x\_1\$ \& \textbackslash{}input\{y\}
    >>> print(escaped("a--b – `c`"))
    a-{}-b -- \textasciigrave{}c\textasciigrave{}
    """
    return LETTERS.sub(lambda found: SPECIAL.get(found[0], f"{found[0]}{{}}"), " ".join(text.split()))


def _section(section: Section) -> Iterable[str]:
    about = f"{section.benchmark.preset}: {section.about}. {section.in_full} Mean over seeds, sd with"
    yield _table(section.headline, f"{escaped(about)} $n - 1$.", f"{section.anchor}-results")
    for one in section.comparisons:
        places = [place for place, column in enumerate(one.table.columns) if column.name in TESTS]
        columns = tuple(one.table.columns[place] for place in places)
        lines = tuple(line._replace(entries=tuple(line.entries[place] for place in places)) for line in one.table.lines)
        narrow = one.table._replace(columns=columns, lines=lines)
        yield _table(narrow, escaped(one.text), f"{section.anchor}-{one.name.replace('_', '-')}")


def _table(table: Table, caption: str, label: str) -> str:
    head = " & ".join([escaped(table.corner), *map(_head, table.columns)])
    body = "\n".join(f"{_row(line)} \\\\" for line in table.lines)
    said = [("", f"{line.head}: {line.detail}") for line in table.lines if line.detail]  # below the heads of other forms
    marks = ". ".join(escaped(f"({mark}) {text}" if mark else text) for mark, text in (*table.notes, *said))
    notes = f"\n\\par\\footnotesize {marks}." if marks else ""
    return (
        f"\\begin{{table}}\n\\centering\n\\caption{{{caption}}}\n\\label{{tab:{label}}}\n"
        f"\\begin{{tabular}}{{l{'r' * len(table.columns)}}}\n\\toprule\n{head} \\\\\n\\midrule\n{body}\n"
        f"\\bottomrule\n\\end{{tabular}}{notes}\n\\end{{table}}\n"
    )


def _head(column: Column) -> str:
    return escaped(column.name + {"higher": " ↑", "lower": " ↓"}.get(column.better, ""))


def _row(line: Line) -> str:
    return " & ".join([escaped(line.head), *map(_entry, line.entries)])


def _entry(entry: Entry) -> str:
    marks = "".join(f"\\textsuperscript{{{escaped(mark)}}}" for mark in entry.marks)
    detail = f" \\footnotesize({escaped(entry.detail)})" if entry.detail else ""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "$-$", escaped(entry.text)) + detail + marks
