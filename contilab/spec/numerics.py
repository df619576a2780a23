"""The numerics tags of a run: which version of whose numbers it was planned for.

`plan` writes the tags into every run, so they are part of its address; a runner compares them with those of its own code.
"""

from collections.abc import Callable, Mapping

from contilab.spec.entry import Entry

# Raised, from the first release on, when the training step, the random streams or the evaluation change their numbers
ENGINE = "engine/1"


def numerics_tags(entry: Callable[[str, str], Entry], names: Mapping[str, str]) -> dict[str, str]:
    """Return the tag of the engine and of each plugin of *names* (kind to name).

    Raises KeyError if *entry* has no such name.
    """
    return {"engine": ENGINE, **{kind: entry(kind, name).numerics for kind, name in names.items()}}
