"""What there is to choose from for one group: what was asked for, as far as it can be had, and what a rule of thumb says."""

from collections.abc import Sequence
from typing import NamedTuple

from contilab.engine.choice.decide import Verdict
from contilab.engine.choice.form import Form, Table
from contilab.engine.step import Learner
from contilab.errors import UsageError
from contilab.hardware.precision import Precision, candidates, lacking

AUTO = "auto"

# Where nothing is measured: what was fastest on 2 cores of Xeons, see architecture and engine/README.md.
FOR_ONE = ("loop",)
FOR_SEVERAL = ("vmap",)  # nothing for one member to gain from, and it loads libraries for 2 s
FOR_CONVOLUTIONS = ("loop", "batched", "vmap")
FOR_LINEAR = ("batched", "vmap", "loop")


class Asked(NamedTuple):
    """What a user asked for, `auto` where nothing."""

    execution: str
    precision: str
    compile: str


class Offer(NamedTuple):
    """The *forms* that can train a group, never empty, and what a *rule* of thumb says of them.

    *reasons*: of what is settled without measuring, by name of the choice. *vmap_fallback*: the strategy cannot be vmapped.
    *warnings*: what the user asked for and cannot have, or not as he may think.
    """

    forms: tuple[Form, ...]
    rule: Verdict
    reasons: dict[str, str]
    vmap_fallback: bool
    warnings: tuple[str, ...]

    def reason(self, name: str, verdict: Verdict) -> str:
        """Return why the choice *name* is what *verdict* says."""
        return self.reasons.get(name, verdict.reason)


def offered(asked: Asked, learner: Learner, device: str, table: Table, *, method: str, members: int) -> Offer:
    """Return what can train *members* of *learner*, whose strategy is *method*, on *device*.

    What was asked for and cannot be had is given up with a warning: first compiling, then the execution. Raises UsageError for
    an execution that does not exist.
    """
    if asked.execution not in (AUTO, *table.eager):
        hint = f"there are {', '.join(sorted(table.eager))} and auto"
        raise UsageError("engine.execution", f'there is no execution "{asked.execution}"', hint=hint)
    preferred = _preferred(learner, members)
    names = (asked.execution,) if asked.execution != AUTO else _worth_trying(preferred, table.offered_on(device), members)
    falls_back = not learner.strategy.is_vmappable and names[0] != "loop"
    warnings: list[str] = []
    reasons: dict[str, str] = {}
    if not learner.strategy.is_vmappable:
        names = ("loop",)
        reasons["execution"] = f'the strategy "{method}" cannot be vmapped'
    precisions = _precisions(asked.precision, device, reasons, warnings)
    compiles = _compiles(asked.compile, table, reasons)
    known = len(warnings)  # those that follow say what is wrong with forms
    forms = _able(table, table.forms(names, precisions, compiles), learner, device, warnings)
    if not forms and asked.compile == "on":
        reasons["compile"] = "on was asked for, but cannot be had: " + next(iter(warnings[known:]), "there is no such form")
        warnings.append("compile is on, but there is no compiled form that could train this")
        forms = _able(table, table.forms(names, precisions, ("off",)), learner, device, warnings)
    if not forms:
        forms = _able(table, table.forms(tuple(table.eager), precisions, ("off",)), learner, device, warnings)
        reasons["execution"] = f"{asked.execution} cannot train this: " + next(iter(warnings[known:]), "it does not exist")
    elif asked.execution != AUTO:
        reasons.setdefault("execution", "asked for")
    return Offer(tuple(forms), _rule(forms, preferred, learner, members), reasons, falls_back, tuple(warnings))


def _worth_trying(preferred: Sequence[str], offered: Sequence[str], members: int) -> tuple[str, ...]:
    """Return the executions of those *offered* that `auto` may choose, preferred ones first."""
    names = tuple(name for name in offered if members > 1 or name not in FOR_SEVERAL)
    return tuple(dict.fromkeys((*preferred, *(names or offered))))


def _preferred(learner: Learner, members: int) -> tuple[str, ...]:
    if members == 1:
        return FOR_ONE
    return FOR_CONVOLUTIONS if learner.model.is_convolutional else FOR_LINEAR


def _precisions(asked: str, device: str, reasons: dict[str, str], warnings: list[str]) -> Sequence[Precision]:
    missing = lacking(device) if asked != "fp32" else ()
    if asked == "bf16":
        reasons["precision"] = "asked for"
        if missing:
            warnings.append(f"precision is bf16, but {device} lacks {' and '.join(missing)}: expect less speed than with fp32")
        return ("bf16",)
    if asked == "fp32":
        reasons["precision"] = "asked for"
        return ("fp32",)
    if missing:
        reasons["precision"] = f"bf16 would need {' or '.join(missing)}, which {device} lacks"
    return candidates(device)


def _compiles(asked: str, table: Table, reasons: dict[str, str]) -> Sequence[str]:
    if asked != AUTO:
        reasons["compile"] = "asked for"
        return (asked,)
    if not table.compiled:
        reasons["compile"] = "compilation is not offered"
    return ("off", "on")


def _able(table: Table, forms: Sequence[Form], learner: Learner, device: str, warnings: list[str]) -> list[Form]:
    """Return those of *forms* that take *learner*; why others refuse is a warning where nothing else was asked for."""
    refusals = {form: table.refusal(form, learner, device) for form in forms}
    able = [form for form, refusal in refusals.items() if not refusal]
    if not able:
        warnings += dict.fromkeys(f"{form.execution}: {refusal}" for form, refusal in refusals.items())
    return able


def _rule(forms: Sequence[Form], preferred: Sequence[str], learner: Learner, members: int) -> Verdict:
    """Return what is chosen where nothing was measured: plain arithmetic, and the execution that was fastest elsewhere."""
    rank = {name: place for place, name in enumerate(preferred)}

    def standing(form: Form) -> tuple[bool, bool, int]:
        return form.precision != "fp32", form.compile != "off", rank.get(form.execution, len(rank))

    best = min(forms, key=standing)
    if members == 1:
        return Verdict(best, "not measured; one member has nothing to share")
    kind = "small convolutional nets" if learner.model.is_convolutional else "models of linear layers"
    return Verdict(best, f"not measured; a rule of thumb for {members} members of {kind}")
