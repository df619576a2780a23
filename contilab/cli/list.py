"""`contilab list`: every name of a manifest and every metric, one line each; `contilab list NAME`: one of them in full."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

import typer

from contilab import catalog
from contilab.cli.columns import columns
from contilab.errors import UsageError
from contilab.metrics.table import METRICS, metric

TITLES = {"benchmark": "benchmarks", "model": "models", "optim": "optimisers", "method": "methods"}
END = "contilab list NAME explains one of them"


def list_(name: Annotated[str | None, typer.Argument(help="Explain this name.", show_default=False)] = None) -> None:
    """Show every name a manifest may use and every metric, or explain one."""
    typer.echo(_everything() if name is None else _explained(name))


def _everything() -> str:
    from contilab.manifest.keys import SHARED, shared_keys  # what reads manifests loads pydantic; other commands do without
    from contilab.manifest.profile import preset_names, profile_names, profile_summary

    blocks = {
        "profiles": [(name, profile_summary(name)) for name in profile_names()],
        "presets": [(name, _preset(name)) for name in preset_names()],
        **{TITLES.get(kind, kind): _menu(kind) for kind in catalog.KINDS},
        "tables of settings": [(table, _keys(table, shared_keys())) for table in SHARED],
        "metrics": [(name, metric(name).summary) for name in METRICS],
    }
    texts = [f"{title}\n{columns([('', *row) for row in rows])}" for title, rows in blocks.items()]
    return "\n\n".join([*texts, END])


def _menu(kind: str) -> list[tuple[str, str]]:
    return [(name, _first_sentence(catalog.entry(kind, name).summary)) for name in catalog.KINDS[kind]]


def _preset(name: str) -> str:
    from contilab.manifest.profile import profile_names, read_profile

    settings = next(presets[name] for presets in (read_profile(one).presets for one in profile_names()) if name in presets)
    return f"{settings['benchmark.name']}, {settings['benchmark.scenario']}-incremental, {settings['benchmark.tasks']} tasks"


def _keys(table: str, keys: Iterable[str]) -> str:
    return ", ".join(key.removeprefix(f"{table}.") for key in keys if key.startswith(f"{table}."))


def _explained(name: str) -> str:
    from contilab.manifest.wording import nearest

    if ":" in name:  # a model of one's own, from the current folder or PYTHONPATH
        return _entry("model", name)
    explanations = _explanations()
    found = [words() for known, words in explanations if known == name]
    if not found:
        known = dict.fromkeys(known for known, _ in explanations)
        hint = nearest(name, known).strip() or "contilab list shows every name"
        raise UsageError("list", f'nothing is called "{name}"', hint=hint)
    return "\n\n".join(found)


def _explanations() -> list[tuple[str, Callable[[], str]]]:
    """Return every name that can be explained, with what explains it; a name may occur twice."""
    from contilab.cli import explain
    from contilab.manifest.keys import SHARED
    from contilab.manifest.profile import preset_names, profile_names

    return [
        *((name, partial(_entry, kind, name)) for kind, names in catalog.KINDS.items() for name in names),
        *((name, partial(explain.explain_table, name)) for name in SHARED),
        *((name, partial(explain.explain_preset, name)) for name in preset_names()),
        *((name, partial(explain.explain_profile, name)) for name in profile_names()),
        *((name, partial(_metric, name)) for name in METRICS),
    ]


def _entry(kind: str, name: str) -> str:
    from contilab.cli.explain import explain

    return explain(kind, name, catalog.entry(kind, name))


def _metric(name: str) -> str:
    from contilab.cli.explain import explain_metric

    return explain_metric(metric(name))


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".")
