"""Which form trains a group: what was asked for, what bench measured, what a short measurement tells, or a rule of thumb.

In that order. Compiled forms come from a profile of `bench` only: compiling one takes longer than the short measurement may. So
a profile of nearly as many members goes before that measurement too.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from contilab.engine.choice.form import Form, form_of
from contilab.hardware.neighbours import Neighbours
from contilab.hardware.profile import Answer, Profiles, Rate, Shape

# A form that computes otherwise than plain fp32 must win by this much: near a tie the plainer one is chosen everywhere.
# Chosen: repetitions on a quiet machine differ by 1 to 3 %, and no choice may cost a tenth of the speed.
MARGINS = {"compile": 1.05, "precision": 1.1}


class Found(NamedTuple):
    """What a trial found; no *rates* where it is not worth its time.

    *is_final*: a longer study of such a group would not measure more forms.
    """

    rates: tuple[Rate, ...]
    is_final: bool = True


Trial = Callable[[Sequence[Form]], Found]  # of eager forms


class Verdict(NamedTuple):
    """A form and why it is this one."""

    form: Form
    reason: str


class Question(NamedTuple):
    """What is to be decided.

    *forms*: that can train the group, never empty. *rule*: what a rule of thumb says, with its reason. *shape*: of the group,
    as bench names it. *own*: as the short measurement names it, by its method and threads too. *threads*: of this
    process; None on a GPU, where they do not count.
    """

    forms: Sequence[Form]
    rule: Verdict
    shape: Shape
    own: Shape
    threads: int | None


def decide(question: Question, profiles: Profiles, trial: Trial | None = None) -> Verdict:
    """Return the form for *question*; what a *trial* finds is kept in *profiles*, for others too if it is final."""
    if len(question.forms) == 1:
        return Verdict(question.forms[0], question.rule.reason)
    for members, answer in profiles.nearest(question.shape):
        if verdict := _best(answer, question, members):
            return verdict
    own = profiles.find(question.own)
    if own is None and trial is not None:
        own = _measured(question, profiles, trial)
    return (own and _best(own, question, question.own.members)) or question.rule


def _measured(question: Question, profiles: Profiles, trial: Trial) -> Answer | None:
    eager = [form for form in question.forms if form.compile == "off"]
    if len(eager) < 2:
        return None
    with Neighbours() as others:
        found = trial(eager)
    if not found.rates:
        return None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    answer = Answer(found.rates, "auto", now, round(others.cores, 2))
    return (profiles.keep if found.is_final else profiles.remember)(question.own, answer)


def _best(answer: Answer, question: Question, members: int) -> Verdict | None:
    """Return the fastest form of *answer*, measured with so many *members*, that can train the group.

    None if it holds none for this number of threads.
    """
    fits = [rate for rate in answer.at(question.threads) if form_of(rate) in question.forms]
    if not fits:
        return None
    ranked = sorted(fits, key=_standing, reverse=True)
    best = ranked[0]
    others = ", ".join(f"{form_of(rate)} {rate.samples_per_s:,.0f}" for rate in ranked[1:3])
    told = f"{best.samples_per_s:,.0f} samples/s" + (f"; {others}" if others else "")
    beside = f", {answer.foreign_cores:g} cores busy with other things" if answer.foreign_cores else ""
    crowd = "" if members == question.shape.members else f" with {members} members"
    return Verdict(form_of(best), f"measured by {answer.by}{crowd} on {answer.measured[:10]}: {told}{beside}")


def _standing(rate: Rate) -> float:
    precision = 1.0 if rate.precision == "fp32" else MARGINS["precision"]
    return rate.samples_per_s / (precision if rate.compile == "off" else max(precision, MARGINS["compile"]))
