"""A form in motion that is what it is called: a compiled one that went on eagerly is told as such, not measured as compiled."""

from contilab.engine.choice.form import Form
from contilab.engine.choice.pace import Pace
from contilab.engine.environment import TABLE
from contilab.engine.setup import Setup
from contilab.errors import ContilabError


class Motion:
    """*form* of the step of *setup*, from its first step on."""

    def __init__(self, setup: Setup, form: Form) -> None:
        self._pace = Pace(setup, TABLE.maker(form))

    def speed(self, seconds: float) -> float:
        """Train for about *seconds* and return the samples per second; ContilabError where it is not what it is called."""
        found = self._pace.during(seconds).speed
        if reason := self._pace.report().fallback:
            raise ContilabError("bench", f"went on eagerly: {reason}")
        return found
