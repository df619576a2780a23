"""Several tests of one question: Holm's correction over a stated family."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the adjusted p values, in the order of *p_values*: adj_(k) = max_{l<=k} min(1, (m-l+1) p_(l)) (Holm 1979).

    >>> [round(p, 12) for p in holm([0.004, 0.03, 0.02, 0.2])]
    [0.016, 0.06, 0.06, 0.2]
    """
    size = len(p_values)
    adjusted = [0.0] * size
    largest = 0.0
    for place, index in enumerate(sorted(range(size), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (size - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted
