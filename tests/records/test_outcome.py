"""Claims about what a run leaves on disk."""

import json

import numpy as np
import pytest

from contilab.records.outcome import (
    COMPARED,
    KEPT,
    PARAMETERS,
    RECORD,
    TENSORS,
    Outcome,
    files_of,
    read_kept,
    read_record,
    read_tensors,
)
from contilab.records.record import Cost, Record, lines_of, record_from


@pytest.fixture
def record():
    """A class-incremental record of two tasks with everything in it."""
    return Record(
        scenario="class",
        tasks=2,
        head_rows=4,
        task_rows=[[0, 1], [2, 3]],
        test_samples=[3, 2],
        stages=2,
        accuracy=[[1.0, None], [2 / 3, 0.5]],
        baseline=[0.5, 0.0],
        accuracy_all_rows=[[1.0, 0.0], [1 / 3, 0.5]],
        accuracy_task_aware=[[1.0, None], [1.0, 0.5]],
        validation=[[0.9, None], [0.8, 0.7]],
        train_loss=[[0.7, 0.1], [0.6]],
        notes={"fisher": "true", "ewc_capped_share": 0.25},
        cost=Cost(train_steps=7, seconds_group=1.25, steps_per_second=[3.0, 4.0], members=2),
    )


@pytest.fixture
def outcome(record):
    """An outcome with that record."""
    tensors = {
        "prediction": np.arange(15, dtype=np.int16).reshape(3, 5),
        "confidence": np.linspace(0, 1, 15, dtype=np.float32).reshape(3, 5),
        "target": np.array([0, 1, 1, 2, 3], dtype=np.int16),
    }
    parameters = {"0.weight": np.ones((2, 2), dtype=np.float32)}
    return Outcome("r" * 64, record, tensors, parameters, {"path.0.weight": np.ones((2, 2, 2)), "activity": np.zeros((2, 0))})


@pytest.fixture
def write(tmp_path):
    """Write the files of an outcome into a directory and return it."""

    def put(outcome):
        for name, data in files_of(outcome).items():
            (tmp_path / name).write_bytes(data)
        return tmp_path

    return put


class TestRecord:
    """A record is JSON lines."""

    def test_round_trip_on_disk(self, outcome, write):
        """A record read back equals the one written, to the last bit of each number."""
        assert read_record(write(outcome)) == outcome.record

    def test_optional_parts(self):
        """What a run does not have stays absent."""
        plain = Record(
            scenario="task",
            tasks=1,
            head_rows=2,
            task_rows=[[0, 1]],
            test_samples=[3],
            stages=1,
            accuracy=[[1.0]],
            baseline=[None],
            accuracy_all_rows=[[1.0]],
        )

        assert record_from(lines_of(plain)) == plain

    def test_state(self, record):
        """A record with a non-finite loss is diverged, else finished; the head line says so."""
        broken = Record(**{**vars(record), "diverged": {"task": 1, "step": 4}})

        assert (record.state, broken.state) == ("finished", "diverged")
        assert lines_of(broken)[0]["state"] == "diverged"
        assert record_from(lines_of(broken)) == broken

    def test_matrices_name_their_axes(self, record):
        """Whoever reads the lines without this code sees which index is which."""
        axes = {line["name"]: line.get("axes") for line in lines_of(record)[1:]}

        assert axes["accuracy"] == axes["accuracy_all_rows"] == axes["validation"] == ["after_task", "test_task"]
        assert axes["baseline"] is None

    def test_another_scheme(self, record):
        """A record of another scheme is refused with both names."""
        head, *rest = lines_of(record)

        with pytest.raises(ValueError, match=r"'contilab.record/9', this version reads 'contilab.record/1'"):
            record_from([{**head, "record": "contilab.record/9"}, *rest])

    def test_lines_are_json(self, outcome, write):
        """Every line stands alone as JSON, without nan."""
        lines = (write(outcome) / RECORD).read_text(encoding="utf-8").splitlines()

        assert [type(json.loads(line)) for line in lines] == [dict] * len(lines)

    def test_no_nan(self, outcome):
        """A nan in a record is refused: an absent value is None."""
        broken = outcome._replace(record=Record(**{**vars(outcome.record), "baseline": [float("nan"), 0.0]}))

        with pytest.raises(ValueError, match="JSON compliant"):
            files_of(broken)


class TestOutcome:
    """An outcome is a few files."""

    def test_tensors_round_trip(self, outcome, write):
        """Tensors come back with the same names, types, shapes and bits."""
        back = read_tensors(write(outcome))

        assert {name: (value.dtype, value.tobytes()) for name, value in back.items()} == {
            name: (value.dtype, value.tobytes()) for name, value in outcome.tensors.items()
        }
        assert back["prediction"].shape == (3, 5)

    def test_names(self, outcome):
        """Record, tensors, parameters and what else is kept; without the last two there are no such files."""
        assert set(files_of(outcome)) == {RECORD, TENSORS, PARAMETERS, KEPT}
        assert set(files_of(outcome._replace(parameters={}, kept={}))) == {RECORD, TENSORS}

    def test_what_is_kept_is_read_when_asked_for(self, outcome, write):
        """Its names and tensors come back, one by one; a run that kept nothing has none."""
        directory = write(outcome)
        found = read_kept(directory)
        (directory / KEPT).rename(directory / "elsewhere")

        assert read_kept(directory) is None
        (directory / "elsewhere").rename(directory / KEPT)
        assert {name: value.tobytes() for name, value in found.items()} == {
            name: value.tobytes() for name, value in outcome.kept.items()
        }
        assert (len(found), found.get("no such")) == (2, None)

    def test_compared_files_are_deterministic(self, outcome):
        """What attempts are compared on is equal for equal tensors, whatever the order they were collected in."""
        again = outcome._replace(tensors=dict(reversed(outcome.tensors.items())))

        assert {name: files_of(again)[name] for name in COMPARED} == {name: files_of(outcome)[name] for name in COMPARED}
