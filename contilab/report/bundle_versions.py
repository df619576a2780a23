"""Which metrics of a bundle are those of today: each has a version, and numbers of two versions are no two of one thing."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from contilab.report.runs import RunReport, metrics_of


class Versions(NamedTuple):
    """The version of each metric by name: *then*, when the bundle was made, and *now*.

    >>> versions = Versions({"acc": 1, "wf_10": 1, "gone": 1}, {"acc": 1, "wf_10": 2, "new": 1})
    >>> sorted(versions.shared), sorted(versions.apart)
    (['acc'], ['gone', 'new', 'wf_10'])
    """

    then: Mapping[str, Any]
    now: Mapping[str, int]

    @property
    def shared(self) -> set[str]:
        """The metrics whose numbers have to be the same then and now."""
        return {name for name, version in self.now.items() if self.then.get(name) == version}

    @property
    def apart(self) -> set[str]:
        """The metrics that are known on one side only, or in two versions."""
        return {*self.then, *self.now} - self.shared


def versions_of(runs: Iterable[RunReport]) -> dict[str, int]:
    """Return the version of each metric that *runs* may have, as a bundle keeps it."""
    return {name: item.version for name, item in metrics_of(runs).items()}


def versions(kept: Mapping[str, Any] | None, columns: Iterable[str], runs: Iterable[RunReport]) -> Versions:
    """Return the versions that a bundle *kept*, with those of now; None if it is from before bundles kept them.

    columns: of its results.csv. In those days each metric was of version 1.
    """
    now = versions_of(runs)
    return Versions(dict.fromkeys(now.keys() & {*columns}, 1) if kept is None else kept, now)
