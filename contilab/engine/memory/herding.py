"""Herding: the samples of a class whose mean of features follows the mean of the class. Sources: Rebuffi 2017; Welling 2009.

p_k = argmin_x norm(mu - (1/k) (h(x) + sum_{l<k} h(p_l))), without repetition, so a shorter list is the beginning of a longer
one. As in iCaRL features have norm 1 and mu is their mean.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize


def herd(features: Tensor, count: int) -> list[int]:
    """Return the places of the *count* samples of one class that are chosen, the first choice first; all, if it has fewer.

    features: [N, F], of the samples of the class. Of equally good ones the first is taken.

    >>> herd(torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), 2)
    [1, 0]
    """
    unit = normalize(features.double(), dim=1)
    mean, total = unit.mean(0), torch.zeros_like(unit[0])
    size = unit.square().sum(1)
    chosen: list[int] = []
    is_free = torch.ones(len(unit), dtype=torch.bool, device=unit.device)
    for number in range(1, min(count, len(unit)) + 1):
        # k^2 norm(mu - (total + h) / k)^2 but for what is the same for all: one product, where distances take N x F numbers.
        distance = size - 2 * (unit @ (number * mean - total))
        best = int(torch.where(is_free, distance, torch.inf).argmin())
        is_free[best] = False
        total = total + unit[best]
        chosen.append(best)
    return chosen
