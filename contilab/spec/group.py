"""A group: the runs that one attempt trains together. Only batching: no number depends on it."""

from collections.abc import Iterable

from contilab.spec.canonical import digest

SCHEME = "contilab.group/1"


def group_address(rids: Iterable[str]) -> str:
    """Return the address of the group of *rids*: SHA-256 in hex of its scheme and sorted rids."""
    return digest({"v": SCHEME, "rids": sorted(rids)})
