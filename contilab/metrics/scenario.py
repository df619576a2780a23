"""Scenarios are never compared: a task-incremental 97 and a class-incremental 19 measure different things."""

from collections.abc import Mapping

from contilab.errors import InputError


def require_one_scenario(scenarios: Mapping[str, str]) -> None:
    """Check that *scenarios*, by what they are of, are all the same; InputError naming both otherwise.

    >>> require_one_scenario({"naive": "class", "er": "class"})
    """
    if len(set(scenarios.values())) > 1:
        found = ", ".join(f"{name} is {scenario}-incremental" for name, scenario in sorted(scenarios.items()))
        raise InputError(
            "comparison",
            f"results of different scenarios cannot be compared: {found}",
            hint="compare within one scenario, and report each under its own name",
        )
