"""`contilab list`: every name of a manifest, every metric and reference table, one line each; `list NAME`: one in full."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from contilab import catalog
from contilab.cli.columns import columns
from contilab.cli.width import folded, line_width
from contilab.errors import UsageError
from contilab.metrics.table import METRICS, metric

if TYPE_CHECKING:
    from contilab.cli.settings import Setting

TITLES = {"benchmark": "benchmarks", "model": "models", "optim": "optimisers", "method": "methods"}
END = "contilab list NAME explains one of them, also a setting: contilab list optim.lr"

Explanations = Sequence[tuple[str, Callable[[], str]]]  # names, and what explains each; a name may occur twice


def list_(name: Annotated[str | None, typer.Argument(help="Explain this name.", show_default=False)] = None) -> None:
    """Show every name a manifest may use, or explain one: a method, a setting, a metric, a reference table."""
    typer.echo(folded(_everything() if name is None else _explained(name)))


def _everything() -> str:
    from contilab.manifest.keys import PLUGINS, SHARED  # what reads manifests loads pydantic; other commands do without
    from contilab.manifest.profile import preset_names, profile_names, profile_summary
    from contilab.report.published.table import names as tables
    from contilab.report.published.table import read_table

    blocks = {
        "profiles": [(name, profile_summary(name)) for name in profile_names()],
        "presets": [(name, _preset(name)) for name in preset_names()],
        **{TITLES.get(kind, kind): _menu(kind) for kind in catalog.KINDS},
        "tables of settings": [(table, _shorts(table)) for table in (*SHARED, *PLUGINS)],
        "metrics": [(name, metric(name).summary) for name in METRICS],
        "reference tables": [(name, read_table(name).title) for name in tables()],
    }
    texts = [f"{title}\n{columns([('', *row) for row in rows], width=line_width())}" for title, rows in blocks.items()]
    return "\n\n".join([*texts, END])


def _menu(kind: str) -> list[tuple[str, str]]:
    return [(name, _first_sentence(catalog.entry(kind, name).summary)) for name in catalog.KINDS[kind]]


def _preset(name: str) -> str:
    from contilab.manifest.profile import profile_names, read_profile

    settings = next(presets[name] for presets in (read_profile(one).presets for one in profile_names()) if name in presets)
    return f"{settings['benchmark.name']}, {settings['benchmark.scenario']}-incremental, {settings['benchmark.tasks']} tasks"


def _shorts(table: str) -> str:
    from contilab.cli.settings import every_setting

    return ", ".join(dict.fromkeys(one.short for one in every_setting() if one.table == table))


def _explained(name: str) -> str:
    if ":" in name:  # a model of one's own, from the current folder or PYTHONPATH
        return _entry("model", name)
    found = _named(name, _explanations()) or _named(name, _settings())
    if not found and (found := _named(name.rpartition(".")[2], _settings())):
        typer.echo(f'there is no setting "{name}"; shown is what ends alike', err=True)
    if not found:
        raise UsageError("list", f'nothing is called "{name}"', hint=_near(name))
    return "\n\n".join(found)


def _named(name: str, explanations: Explanations) -> list[str]:
    """Return what explains *name*; one that is written otherwise, as ER or er-ace, where none is written so."""
    exact = [words() for known, words in explanations if known == name]
    return exact or [words() for known, words in explanations if _plain(known) == _plain(name)]


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")


def _near(name: str) -> str:
    from contilab.manifest.wording import nearest

    known = dict.fromkeys(known for known, _ in (*_explanations(), *_settings()))
    return nearest(name, known).strip() or "contilab list shows every name"


def _explanations() -> Explanations:
    """Return what is quickly found: everything but settings, for which every plugin is loaded."""
    from contilab.cli import explain
    from contilab.cli.reference import explain_reference
    from contilab.manifest.keys import SHARED
    from contilab.manifest.profile import preset_names, profile_names
    from contilab.report.published.table import names as tables

    return [
        *((name, partial(_entry, kind, name)) for kind, names in catalog.KINDS.items() for name in names),
        *((name, partial(explain.explain_table, name)) for name in SHARED),
        *((name, partial(explain.explain_preset, name)) for name in preset_names()),
        *((name, partial(explain.explain_profile, name)) for name in profile_names()),
        *((name, partial(_metric, name)) for name in METRICS),
        *((name, partial(explain_reference, name)) for name in tables()),
    ]


def _settings() -> Explanations:
    """Return every setting by its dotted name and by its name within its table, and the tables of plugins."""
    from contilab.cli.explain import explain_settings
    from contilab.cli.settings import every_setting
    from contilab.manifest.keys import PLUGINS

    by_name: dict[str, list[Setting]] = {}
    by_table: dict[str, list[Setting]] = {table: [] for table in PLUGINS}
    for setting in every_setting():
        by_name.setdefault(setting.name, []).append(setting)
        if setting.table in by_table:
            by_table[setting.table].append(setting)
    explained = [(found[0], partial(explain_settings, f"{name} (setting)", found)) for name, found in by_name.items()]
    return [
        *((setting.name, words) for setting, words in explained),
        *((setting.short, words) for setting, words in explained),
        *((table, partial(explain_settings, f"{table} (table of settings)", found)) for table, found in by_table.items()),
    ]


def _entry(kind: str, name: str) -> str:
    from contilab.cli.explain import explain

    return explain(kind, name, catalog.entry(kind, name))


def _metric(name: str) -> str:
    from contilab.cli.explain import explain_metric

    return explain_metric(metric(name))


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".")
