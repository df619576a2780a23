"""The JSON schema (draft 2020-12) of manifests, for editors: the form of a manifest that may use everything on the menu."""

from typing import Any

from contilab.manifest.commandline import PLACE
from contilab.manifest.form import form
from contilab.manifest.keys import PLUGINS, SECTIONS
from contilab.manifest.menu import Menu
from contilab.manifest.profile import preset_names

OWN_MODEL = r"^[^\W\d]\w*(\.\w+)*:\w+$"  # module:function


def schema(menu: Menu) -> dict[str, Any]:
    """Return the JSON schema of manifests.

    It knows every key, name and range; what depends on a combination (a setting of one method only) `plan` checks. A model may
    be a user's own, whose settings nobody knows beforehand, so any key of `model` passes.
    """
    used = {kind: menu.names[kind] for kind in PLUGINS}
    document = form(menu, preset_names(), used, menu.names["method"]).model_json_schema(by_alias=True)
    document["properties"].pop(PLACE)
    for table in (document, *document["$defs"].values()):
        _tidy(table)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "contilab manifest"}
    return {
        **head,
        "description": "A study of contilab: what varies, and the settings of every run.",
        **_without(document, "title"),
    }


def _tidy(table: dict[str, Any]) -> None:
    """Drop what pydantic adds, and offer dotted keys as tables too: `"optim.lr" = 1` and `optim.lr = 1` mean the same."""
    properties: dict[str, Any] = {key: _plain(value) for key, value in table["properties"].items()}
    others: bool | dict[str, Any] = False
    if name := properties.get("model.name"):
        is_axis = name.get("type") == "array"
        properties["model.name"] = {**name, "items": _or_own(name["items"])} if is_axis else _or_own(name)
        others = {"description": "setting of a model of one's own", **({"type": "array"} if is_axis else {})}
        table["patternProperties"] = {r"^model\.\w+$": others}
    for section in SECTIONS:
        inner = {key.partition(".")[2]: value for key, value in properties.items() if key.startswith(f"{section}.")}
        if inner and section not in properties:  # matrix.method is the axis
            description = f"settings of {section}"
            properties[section] = {
                "type": "object",
                "description": description,
                "additionalProperties": others if section == "model" else False,
                "properties": inner,
            }
    table["properties"] = properties


def _or_own(name: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the names of models, to which any `module:function` is added."""
    known = {key: name[key] for key in ("type", "enum", "const") if key in name}
    own = {"type": "string", "pattern": OWN_MODEL, "description": "module:function, a model of one's own"}
    return {**_without(name, *known), "anyOf": [known, own]}


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    unset = value.get("default", ...) is None
    plain = _without(value, "title", *(["default"] if unset else []))
    return {**plain, "uniqueItems": True} if plain.get("type") == "array" and plain.get("minItems") else plain


def _without(value: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if key not in keys}
