"""`contilab schema`: the JSON schema of manifests, for the completion of editors."""

import json

import typer


def schema() -> None:
    """Print the JSON schema of manifests."""
    from contilab.manifest.schema import schema as manifest_schema
    from contilab.plan.menu import catalog_menu

    typer.echo(json.dumps(manifest_schema(catalog_menu()), indent=2, ensure_ascii=False))
