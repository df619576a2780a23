"""A user's own model: a function in a Python file of theirs, which a manifest names as `module:function`.

    def small(input_shape: tuple[int, ...], rows: int, *, width: int = 32) -> Model: ...

It gets the shape of one input and the rows of the head; its further arguments are keys of the manifest (`model.width = 64`).
It may return a torch.nn.Module as well, see `module`.
The hash of the file is the tag of the model's numbers, so an edit is another run. Files that it imports are not in the hash.
"""

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, field, fields, make_dataclass
from importlib import invalidate_caches
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from inspect import Parameter, getdoc, isfunction, signature
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from torch import nn

from contilab.errors import InputError
from contilab.models.contract import Model
from contilab.models.module import from_module
from contilab.spec.entry import Entry

PLACE = "model.name"
TAKEN = sys.stdlib_module_names | {"contilab", "numpy", "torch"}  # a file of such a name would take the place of theirs
DIGITS = 16  # of the hash in a tag; chosen: two edits of one file never share them, and messages stay readable

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_own(name: str) -> bool:
    """Tell whether *name* has the form of a user's own model.

    >>> is_own("nets.small:cnn"), is_own("mlp")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def own_model(name: str, folders: Sequence[Path]) -> Entry:
    """Return the entry of the model *name*, looked for in *folders* and then on PYTHONPATH; runs its file.

    Raises InputError if the file or function is not there, does not load, or takes what no manifest can say.
    """
    module_name, _, function_name = name.partition(":")
    spec = _found(module_name, folders)
    content = Path(spec.origin or "").read_bytes()  # read once: what is hashed is what is run
    function = getattr(_executed(spec, content), function_name, None)
    if not isfunction(function):
        what = "has no" if function is None else f"has a {type(function).__name__} and not a"
        raise InputError(PLACE, f'{spec.origin} {what} function "{function_name}"', hint="name one as module:function")
    return Entry(
        make=_make(name, function),
        settings=_settings(name, function),
        numerics=f"{name}/{hashlib.sha256(content).hexdigest()[:DIGITS]}",
        summary=getdoc(function) or f"A model of one's own, {function_name} in {module_name}.",
    )


def _found(module: str, folders: Sequence[Path]) -> ModuleSpec:
    """Return where *module* is: the first of *folders* that has it, else as Python itself finds it."""
    invalidate_caches()  # Python keeps what it saw in a folder for as long as its clock does not move
    for path in ([str(folder.absolute()) for folder in folders], None):  # absolute: it also keeps what "." was
        spec: ModuleSpec | None = None
        search = path
        parts = module.split(".")
        for depth in range(len(parts)):
            spec = PathFinder.find_spec(".".join(parts[: depth + 1]), search)
            search = list((spec and spec.submodule_search_locations) or [])
        if spec and spec.origin and spec.origin.endswith(".py"):
            if parts[0] in TAKEN:
                problem = f'{spec.origin} has the name of the module "{parts[0]}", which others import'
                raise InputError(PLACE, problem, hint="rename it")
            return spec
    looked = " or ".join(str(folder.absolute()) for folder in dict.fromkeys(folders))
    problem = f'there is no module "{module}" in {looked} or on PYTHONPATH'
    raise InputError(PLACE, problem, hint="put it beside the manifest, or its folder into PYTHONPATH")


def _executed(spec: ModuleSpec, content: bytes) -> ModuleType:
    """Return the module made of *content*, not of a compiled file that may be older."""
    folder = str(Path(spec.origin or "").parents[spec.name.count(".")])
    if folder not in sys.path:
        sys.path.append(folder)  # for what it imports; at the end, so that it hides nothing
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    try:
        exec(compile(content, spec.origin or "", "exec"), module.__dict__)  # noqa: S102 - the user asks for it by name
    except (Exception, SystemExit) as error:  # a script that ends itself must not end contilab without a word
        del sys.modules[spec.name]
        problem = f"{spec.origin} does not load: {type(error).__name__}: {error}"
        raise InputError(PLACE, problem, hint=f'try it alone: python -c "import {spec.name}"') from error
    return module


def _make(name: str, function: Callable[..., Any]) -> Callable[..., Model]:
    def make(settings: Any, input_shape: tuple[int, ...], rows: int) -> Model:
        values = {item.name: getattr(settings, item.name) for item in fields(settings)}
        own = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        try:
            model = function(input_shape, rows, **own)
            model = from_module(model, input_shape, rows) if isinstance(model, nn.Module) else model
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            problem = f"{name} cannot be built for inputs of shape {list(input_shape)}: {type(error).__name__}: {error}"
            raise InputError(PLACE, problem, hint="choose another benchmark or model, or change the function") from error
        if not isinstance(model, Model):
            problem = f"{name} returns {type(model).__name__}, not a contilab.models.contract.Model or torch.nn.Module"
            raise InputError(PLACE, problem, hint="return a table of parameters, a function forward and its operations")
        if type(model.flops) is not int or model.flops < 0:
            problem = f"{name} returns a model whose flops are {model.flops!r}, not a whole number"
            raise InputError(PLACE, problem, hint="count the operations of one sample, 2 per multiply-add, or give 0")
        return model

    return make


def _settings(name: str, function: Callable[..., Any]) -> type:
    """Return a dataclass of the arguments of *function* after the first two."""
    parameters = list(signature(function).parameters.values())
    hints = _hints(name, function)
    if len(parameters) < 2 or any(one.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for one in parameters):
        problem = f"{name} must take input_shape, rows, and then settings by name"
        raise InputError(PLACE, problem, hint="as def net(input_shape, rows, *, width: int = 32)")
    for one in parameters[2:]:
        if not _is_plain(hints.get(one.name)):
            problem = f'the type of the setting "{one.name}" of {name} is none that a manifest can hold'
            raise InputError(PLACE, problem, hint="annotate it as int, float, bool, str, Literal[...] or tuple[int, ...]")
    items = [(one.name, hints[one.name], field(default=_default(one))) for one in parameters[2:]]
    return make_dataclass("Settings", items, frozen=True, kw_only=True)


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as error:  # annotations may be text, which is read only here
        problem = f"the annotations of {name} cannot be read: {type(error).__name__}: {error}"
        raise InputError(PLACE, problem, hint="import what they name") from error


def _default(parameter: Parameter) -> Any:
    value = parameter.default
    return MISSING if value is Parameter.empty else tuple(value) if isinstance(value, list) else value


def _is_plain(hint: Any) -> bool:
    """Tell whether values of the type *hint* can be written in TOML and JSON."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return all(isinstance(value, str | int | bool) for value in inner)
    if origin is Annotated:
        return _is_plain(inner[0])
    if origin in (Union, UnionType):
        return all(_is_plain(item) for item in inner)
    if origin in (tuple, list):
        return all(item is Ellipsis or _is_plain(item) for item in inner)
    return hint in (int, float, bool, str, NoneType)
