"""A form of the step: an execution, its arithmetic, and whether it is compiled. All give the same numbers but for rounding."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import NamedTuple

import torch

from contilab.engine.executions.contract import Execution, MakeExecution
from contilab.engine.pools import carrying
from contilab.engine.step import Learner
from contilab.hardware.profile import Rate
from contilab.models.contract import Forward, Model, Params


class Form(NamedTuple):
    """One way to train: name of the execution, `fp32` or `bf16`, `off` or `on`."""

    execution: str
    precision: str = "fp32"
    compile: str = "off"

    def __str__(self) -> str:
        return " ".join([self.execution, self.precision, *(["compiled"] if self.compile == "on" else [])])


class Table(NamedTuple):
    """What there is to choose from: executions by name, and of some of them compiled forms.

    *graphed*: those that make CUDA graphs, and so need a GPU, and some training before they are as fast as they get.
    """

    eager: Mapping[str, MakeExecution]
    compiled: Mapping[str, MakeExecution]
    graphed: frozenset[str] = frozenset()

    def offered_on(self, device: str) -> tuple[str, ...]:
        """Return the executions that there are on *device*."""
        return tuple(name for name in self.eager if name not in self.graphed or device.startswith("cuda"))

    def forms(self, executions: Iterable[str], precisions: Iterable[str], compiles: Iterable[str]) -> list[Form]:
        """Return the forms that exist of every combination."""
        wanted = [Form(*one) for one in product(executions, precisions, compiles)]
        return [form for form in wanted if form.execution in (self.compiled if form.compile == "on" else self.eager)]

    def maker(self, form: Form) -> MakeExecution:
        """Return what builds *form*; KeyError if it does not exist."""
        make = (self.compiled if form.compile == "on" else self.eager)[form.execution]

        def made(learner: Learner) -> Execution:
            return carrying(make)(learner if form.precision == "fp32" else in_bf16(learner))

        return made

    def refusal(self, form: Form, learner: Learner, device: str) -> str:
        """Return why *form* cannot train *learner* on *device*, in one line; nothing if it can."""
        if form.execution not in self.offered_on(device):
            return "it needs a GPU"
        try:
            self.maker(form)(learner)
        except Exception as error:  # noqa: BLE001  an execution may refuse by any error; another one trains then
            return reason_of(error)
        return ""


def form_of(rate: Rate) -> Form:
    """Return the form that *rate* was measured of."""
    return Form(rate.execution, rate.precision, rate.compile)


def reason_of(error: BaseException) -> str:
    """Return *error* in one short line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"[:200] if lines else type(error).__name__


def in_bf16(learner: Learner) -> Learner:
    """Return *learner* with the products of its model in bf16, forward and so backward; parameters and loss stay fp32."""
    return learner._replace(model=_model_in_bf16(learner.model))


def _model_in_bf16(model: Model) -> Model:
    def forward(params: Params, buffers: Params, x: torch.Tensor) -> Forward:
        # Without the cache of casted weights: it would outlive the gradient transform that it belongs to.
        with torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False):
            out = model.forward(params, buffers, x)
        dtype = next(iter(params.values())).dtype  # that of the parameters: inputs may be 8-bit, as they are stored
        return Forward(out.features.to(dtype), out.logits.to(dtype), out.moments)

    return model._replace(forward=forward, rounds=True)
