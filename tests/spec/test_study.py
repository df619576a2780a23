"""Claims about studies."""

import json
from dataclasses import replace

import pytest

from contilab.spec.canonical import canonical
from contilab.spec.sections import Execution
from contilab.spec.study import Cell, Study, study_from

A, B, C = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def study():
    """A study of two cells that share a run."""
    cell = Cell(
        preset="split_digits_class",
        benchmark="split_digits",
        scenario="class",
        method="ewc",
        sweep={"method.strength": 10.0, "model.hidden": [400, 400]},
        execution=Execution(execution="vmap", max_members=4),
        runs={1: B, 0: A},
        flops=2 * 10**12,
    )
    other = replace(cell, method="naive", sweep={}, runs={0: A, 2: C})
    return Study(name="digits", manifest='name = "digits"\n', values=("train.epochs=1",), cells=(cell, other))


class TestStudy:
    """A study is written by `plan` and read by `status` and `report`."""

    def test_round_trip(self, study):
        """Through the disk it comes back as it was, seeds as numbers and in their order."""
        back = study_from(json.loads(canonical(study.table)))

        assert back == study
        assert list(back.cells[0].runs) == [1, 0]

    def test_rids(self, study):
        """Its runs come once each, in the order of the manifest."""
        assert study.rids == (B, A, C)

    def test_without_a_checkpoint_interval(self, study):
        """A study of the first release, which knew no checkpoints, is read with one per minute."""
        table = json.loads(canonical(study.table))
        for cell in table["cells"]:
            del cell["execution"]["checkpoint_seconds"]

        assert [cell.execution.checkpoint_seconds for cell in study_from(table).cells] == [60.0, 60.0]

    def test_without_flops(self, study):
        """A study of a version that did not note them is read with none."""
        table = json.loads(canonical(study.table))
        for cell in table["cells"]:
            del cell["flops"]

        assert [cell.flops for cell in study_from(table).cells] == [0, 0]

    @pytest.mark.parametrize("value", ["1", 1.5, None, True])
    def test_flops_that_are_no_number(self, study, value):
        """They only order groups, so a study with anything else there is read as one that does not tell."""
        table = json.loads(canonical(study.table))
        table["cells"][1]["flops"] = value

        assert [cell.flops for cell in study_from(table).cells] == [study.cells[0].flops, 0]

    def test_another_scheme(self, study):
        """A study of another scheme is refused with both names."""
        with pytest.raises(ValueError, match=r"'contilab.study/9', this version reads 'contilab.study/1'"):
            study_from({**study.table, "v": "contilab.study/9"})
