"""`contilab schema`: the JSON schema of manifests, for the completion of editors."""

import json

import typer


def schema() -> None:
    """Print the JSON schema of manifests."""
    from contilab import catalog
    from contilab.manifest.menu import Menu
    from contilab.manifest.schema import schema as manifest_schema

    menu = Menu({kind: tuple(sorted(names)) for kind, names in catalog.KINDS.items()}, catalog.entry)
    typer.echo(json.dumps(manifest_schema(menu), indent=2, ensure_ascii=False))
