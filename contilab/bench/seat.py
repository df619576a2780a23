"""One of several processes that train side by side, each its own group, while bench measures what they do together.

It is told what to do by lines of JSON on its standard input and answers each with one on what was its standard output.
"""

import json
import os
import sys
from typing import Any, TextIO

from contilab.engine.choice.form import Form, reason_of
from contilab.hardware.process import prepare


def main() -> None:
    """Answer until the input ends."""
    prepare()  # before torch is imported
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a compiler prints is no answer
    seat = Seat()
    for line in sys.stdin:
        _answer(seat, json.loads(line), answers)


class Seat:
    """The group that this process trains, and its forms in motion."""

    def sit(self, *, model: str, settings: dict[str, Any], threads: int, **rest: Any) -> dict[str, Any]:
        """Take a new group, which is described as in `noise.group`."""
        from contilab.bench.motion import Motion
        from contilab.bench.noise import group
        from contilab.hardware.threads import use_threads
        from contilab.spec.sections import Plugin

        use_threads(threads)
        self._setup = group(Plugin(name=model, settings=settings), **rest)
        self._motions: dict[Form, Motion] = {}
        return {}

    def lap(self, *, form: list[str], seconds: float) -> dict[str, Any]:
        """Train by *form* for about *seconds*; its first call builds it."""
        from contilab.bench.motion import Motion

        way = Form(*form)
        if way not in self._motions:
            self._motions[way] = Motion(self._setup, way)
        return {"speed": self._motions[way].speed(seconds)}


def _answer(seat: Seat, order: dict[str, Any], answers: TextIO) -> None:
    try:
        found = getattr(seat, order.pop("do"))(**order)
    except Exception as error:  # noqa: BLE001  a form that fails is a row with a reason, and the others go on
        found = {"reason": reason_of(error)}
    answers.write(json.dumps(found) + "\n")
    answers.flush()
