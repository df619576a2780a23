"""Data of one's own, imported from arrays or pictures, as a stream of tasks by class.

8-bit inputs are normalised per channel by the training part of the first task; floats are taken as they are. Bytes of three
axes [N, H, W] are gray pictures, of one channel.
"""

from contilab.data.contract import Source
from contilab.data.source import raw_source
from contilab.spec.entry import Entry
from contilab.spec.sections import Benchmark, Data


def npz(spec: Benchmark, data: Data | None = None) -> Source:
    """Return the source of the imported data that *spec* names; *data*: those of a run that was planned."""
    return raw_source(spec, data)


ENTRY = Entry(
    make=npz,
    numerics="npz/2",
    summary=(
        "Data of your own, split into tasks by class. "
        "contilab data import NAME PATH takes an .npz or .safetensors file of arrays, or folders of pictures; "
        'benchmark.data = "NAME" uses it.'
    ),
)
