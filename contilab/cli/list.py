"""`contilab list`: the menu, one line each; `contilab list NAME`: one entry with its settings and its paper."""

from typing import Annotated

import typer

from contilab import catalog
from contilab.cli.columns import columns
from contilab.errors import UsageError

TITLES = {"benchmark": "benchmarks", "model": "models", "optim": "optimisers", "method": "methods"}


def list_(name: Annotated[str | None, typer.Argument(help="Explain this name.", show_default=False)] = None) -> None:
    """Show every name a manifest may use, or explain one."""
    typer.echo(_everything() if name is None else _explained(name))


def _everything() -> str:
    blocks = [f"{TITLES.get(kind, kind)}\n{_menu(kind)}" for kind in catalog.KINDS]
    return "\n\n".join(blocks) + "\n\ncontilab list NAME explains one of them"


def _menu(kind: str) -> str:
    rows = [("", name, _first_sentence(catalog.entry(kind, name).summary)) for name in catalog.KINDS[kind]]
    return columns(rows)


def _explained(name: str) -> str:
    from contilab.cli.explain import explain  # it loads pydantic, which the list itself does without
    from contilab.manifest.wording import nearest

    found = [(kind, catalog.entry(kind, name)) for kind, names in catalog.KINDS.items() if name in names]
    if not found:
        names = [name for names in catalog.KINDS.values() for name in names]
        hint = nearest(name, names).strip() or f"there are {', '.join(sorted(names))}"
        raise UsageError("list", f'nothing is called "{name}"', hint=hint)
    return "\n\n".join(explain(kind, name, entry) for kind, entry in found)


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).split(". ")[0].rstrip(".")
