"""What a method accepts of the policies of memory and of its times of insertion, and which of these go together."""

from collections.abc import Mapping
from typing import get_args

from contilab.manifest.keys import shared_keys
from contilab.spec.sections import Contradiction, Memory


def accepted(memory: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return what a method accepts, by key, of which its entry says *memory*: also no policy that none of its times suits.

    >>> accepted({"insert": ("every_epoch", "first_epoch")})["policy"]
    ('reservoir', 'class_balanced', 'ring', 'ring_class')
    """
    policies = memory.get("policy", _choices("policy"))
    fitting = tuple(policy for policy in policies if inserts(policy, memory))
    others = {key: values for key, values in memory.items() if key != "policy"}
    return dict(memory) if fitting == _choices("policy") else {"policy": fitting, **others}


def inserts(policy: str, memory: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the times of insertion that go with *policy*, of those that a method accepts whose entry says *memory*.

    >>> inserts("herding", {})
    ('task_end',)
    """
    return tuple(insert for insert in memory.get("insert", _choices("insert")) if _goes(policy, insert))


def _goes(policy: str, insert: str) -> bool:
    try:
        Memory(policy=policy, insert=insert)  # type: ignore[arg-type]
    except Contradiction:
        return False
    return True


def _choices(key: str) -> tuple[str, ...]:
    literal = get_args(shared_keys()[f"memory.{key}"].hint)[0]
    return get_args(literal)
