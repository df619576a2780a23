"""The contract of an optimiser: pure functions for ONE member; rates live in the state, so members may differ in them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

Params = dict[str, Tensor]
State = Any  # a NamedTuple of tensors


class Fold(NamedTuple):
    """An update that is linear in the gradient g, so that the product that makes g can add it where it belongs.

    With a the tensor of *into* that goes with the parameter theta, in this order:

    theta <- theta + ahead a;  a <- keep a + pull theta + rate g;  theta <- theta + behind a

    *into* may be the parameters themselves; then there is no *ahead*, *pull* and *behind*. The factors are one number per
    member, [] or stacked [E], or one for all that settings fix; None: there is no such term, and all of a is kept.
    """

    into: Params
    keep: Tensor | float | None
    rate: Tensor | float
    ahead: Tensor | None = None
    pull: Tensor | None = None
    behind: Tensor | None = None


class Optimiser(NamedTuple):
    """Built by `ENTRY.make(settings)`; *settings* hold what is fixed, *init* receives what is per member.

    init(params, values) -> state, values: the per-member settings by name.
    update(params, grads, state) -> (params, state). It owns its arguments, of which no two share memory: it may write into
    their tensors, gradients included, and return those of params and state; the engine never uses the old ones again. The
    arithmetic is elementwise, without fused multiply-add, so one member's bits do not depend on the others. clip_norm: the
    engine scales each member's whole gradient to at most this norm before *update*; None leaves it as it is.
    alone(params, grads, state) -> what *update* returns, for one member whose tensors are under no transform: a form that may
    call what cannot be vmapped or compiled. *update* may round otherwise.
    stacked(params, grads, state) -> the same for stacked members [E, ...] under no transform, in as few calls as their rates
    and steps allow. It may round otherwise too, and where a member lies among the others may change its last bits.
    fold(params, state) -> how the same update folds into products; also of stacked members. *update* may round otherwise.
    """

    init: Callable[[Params, Mapping[str, float]], State]
    update: Callable[[Params, Params, State], tuple[Params, State]]
    clip_norm: float | None = None
    fold: Callable[[Params, State], Fold] | None = None
    alone: Callable[[Params, Params, State], tuple[Params, State]] | None = None
    stacked: Callable[[Params, Params, State], tuple[Params, State]] | None = None
