"""Pauses between two walks of a runner that found nothing to claim: short after anything changed, then twice as long each time.

A short study is then not longer for the last poll of an idle runner, and a long one is not read all the time: a runner that
waited for w seconds comes at most about w, and never more than *longest_seconds*, too late.
"""

import random

SHORTEST_SECONDS = 0.25  # chosen: a walk over 2,000 groups takes a tenth of it
JITTER = 0.25  # share; spreads runners that found the same change


class Pauses:
    """The pauses of one runner, between *longest_seconds* and a quarter of a second, or the former if it is shorter."""

    def __init__(self, longest_seconds: float) -> None:
        self._longest_seconds = longest_seconds
        self._next_seconds = 0.0
        self._seen: object = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """Let the next pause be a short one."""
        self._next_seconds = min(SHORTEST_SECONDS, self._longest_seconds)

    def note(self, seen: object) -> None:
        """Begin anew if *seen*, the state of all that is waited for, is not what was seen before."""
        if seen != self._seen:
            self._seen = seen
            self.begin_anew()

    def seconds(self) -> float:
        """Return how long to wait now, with jitter; the next answer is about twice as long."""
        pause = self._next_seconds
        self._next_seconds = min(2 * pause, self._longest_seconds)
        return pause * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  spreads runners, no secret
