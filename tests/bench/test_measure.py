"""Measurements of training speed."""

import json
import math

import pytest

from contilab.bench.measure import Row, measure
from contilab.hardware.neighbours import Neighbours
from contilab.spec.sections import Plugin

SMALL = Plugin(name="mlp", settings={"hidden": [8]})


class TestMeasure:
    """Rows of figures."""

    @pytest.mark.parametrize("method", ["naive", "er"])
    def test_has_a_row_per_execution_and_number_of_members(self, method):
        """Two numbers of members by two executions are four rows, each with a speed above zero; they go into JSON."""
        rows = measure(SMALL, members=(1, 2), method=method, batch=4, input_shape=(6,), rounds=1, seconds=0.01)

        assert [(row.members, row.execution) for row in rows] == [(1, "loop"), (1, "vmap"), (2, "loop"), (2, "vmap")]
        assert all(
            row.samples_per_second > 0 for row in json.loads(json.dumps([row._asdict() for row in rows]), object_hook=as_row)
        )


class TestNeighbours:
    """The load of others."""

    def test_own_work_is_not_counted(self):
        """Busy work of this process alone leaves a load of less than the machine has cores, and never a negative one."""
        with Neighbours() as load:
            sum(math.sqrt(number) for number in range(1_000_000))

        assert load.cores >= 0


def as_row(values):
    """Return the row that a JSON object holds."""
    return Row(**values)
