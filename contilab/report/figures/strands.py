"""Many thin lines as one artist: an artist for each of hundreds of seeds is slow to lay out and to draw."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def strands(axes: "Axes", lines: Iterable[tuple[Any, Any]], **look: Any) -> None:
    """Draw *lines*, each as its places and heights (nan leaves a gap), in one *look* below all other lines."""
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection([np.column_stack(line) for line in lines], **look))
    axes.autoscale_view()
