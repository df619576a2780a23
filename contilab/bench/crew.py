"""Several processes that train side by side, as the workers of `contilab run` do."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from contilab.engine.choice.form import Form
from contilab.errors import ContilabError

END_SECONDS = 10.0
_PROGRAM = "import sys; sys.path[:] = {path!r}; from contilab.bench.seat import main; main()"


class Crew:
    """Processes that were started; each call is done by all of them at once."""

    def __init__(self, processes: list["subprocess.Popen[str]"]) -> None:
        self._processes = processes

    def __len__(self) -> int:
        return len(self._processes)

    def sit(self, **group: Any) -> None:
        """Let each build the group that the words describe, see `seat`."""
        self._all({"do": "sit", **group})

    def speed(self, form: Form, seconds: float) -> float:
        """Return the samples per second that all train together by *form*, each for about *seconds*."""
        return sum(float(answer["speed"]) for answer in self._all({"do": "lap", "form": list(form), "seconds": seconds}))

    def _all(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        for process in self._processes:
            assert process.stdin is not None  # noqa: S101 - it was started with a pipe
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
        answers = [self._heard(process) for process in self._processes]
        for answer in answers:
            if "reason" in answer:
                raise ContilabError("bench", answer["reason"])
        return answers

    def _heard(self, process: "subprocess.Popen[str]") -> dict[str, Any]:
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        line = process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"reason": "a process that trained beside others has died"}
        return answer


@contextmanager
def crew(count: int) -> Iterator[Crew]:
    """Start *count* processes, and see that nothing is left of them."""
    command = [sys.executable, "-P", "-c", _PROGRAM.format(path=sys.path)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own words
        for _ in range(count)
    ]
    try:
        yield Crew(started)
    finally:
        for process in started:
            _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    try:
        process.communicate(timeout=END_SECONDS)  # closes its input, which ends it
    except (subprocess.TimeoutExpired, OSError):
        process.kill()
        process.wait()
