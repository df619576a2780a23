"""`contilab list`: every name, one line each; `contilab list NAME`: one of them in full."""

from typing import Annotated

import typer

from contilab.cli.columns import columns
from contilab.errors import UsageError


def list_(name: Annotated[str | None, typer.Argument(help="Explain this name.", show_default=False)] = None) -> None:
    """Show every name a manifest may use and every metric, or explain one."""
    typer.echo(_everything() if name is None else _explained(name))


def _everything() -> str:
    from contilab.cli.names import everything  # it loads torch, by the plugins, and pydantic

    blocks = [
        f"{title}\n{columns([('', name, found.line) for name, found in names.items()])}"
        for title, names in everything().items()
    ]
    return "\n\n".join(blocks) + "\n\ncontilab list NAME explains one of them"


def _explained(name: str) -> str:
    from contilab.cli.names import everything
    from contilab.manifest.wording import nearest

    menu = everything()
    found = [names[name] for names in menu.values() if name in names]
    if not found:
        known = [known for names in menu.values() for known in names]
        hint = nearest(name, known).strip() or "contilab list shows every name"
        raise UsageError("list", f'nothing is called "{name}"', hint=hint)
    return "\n\n".join(one.explain() for one in found)
