"""An outcome: one finished run as the engine hands it over, and as it lies in its result directory.

record.jsonl          the record, one JSON object per line
tensors.safetensors   predictions and confidences (see `TENSORS`)
parameters.safetensors  final parameters, unless eval.keep_parameters is false
kept.safetensors      features and trajectory, with eval.keep_features and eval.keep_trajectory (see `KEPT`)
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save

from contilab.records.record import Record, lines_of, record_from

RECORD = "record.jsonl"
TENSORS = "tensors.safetensors"
PARAMETERS = "parameters.safetensors"
KEPT = "kept.safetensors"
COMPARED = (TENSORS, PARAMETERS, KEPT)  # bitwise equal between two attempts of the same versions, machine and execution

Arrays = dict[str, np.ndarray]


class Outcome(NamedTuple):
    """What one run leaves.

    tensors: `prediction` int16 [S + 1, N] head row predicted for each test sample (tasks concatenated; row 0 is the
    untrained model, row i + 1 after stage i; -1 where not measured), `confidence` float32 [S + 1, N], its probability (nan
    for heads that give none), `prediction_all_rows` int16 [S + 1, N], and `target` int16 [N]; with eval.tier extended also
    those of `contilab.metrics.stream`, `contilab.metrics.learning_curve` and `contilab.metrics.representation`, and with full
    of `contilab.metrics.landscape`. parameters: final parameters by name. kept: what `contilab.metrics.kept` describes.
    """

    rid: str
    record: Record
    tensors: Arrays
    parameters: Arrays
    kept: Arrays = {}  # noqa: RUF012  nobody changes an outcome


class Kept(Mapping[str, np.ndarray]):
    """The tensors of a file by name, each read when it is asked for: a study of runs that keep features has gigabytes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getitem__(self, name: str) -> np.ndarray:
        with safe_open(self._path, framework="numpy") as file:
            if name not in file.keys():  # noqa: SIM118  the file is no mapping
                raise KeyError(name)
            found: np.ndarray = file.get_tensor(name)
            return found

    def __iter__(self) -> Iterator[str]:
        with safe_open(self._path, framework="numpy") as file:
            return iter(list(file.keys()))

    def __len__(self) -> int:
        return len(list(iter(self)))


def files_of(outcome: Outcome) -> dict[str, bytes]:
    """Return the files of *outcome* by name."""
    lines = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines_of(outcome.record))
    files = {RECORD: lines.encode(), TENSORS: save(outcome.tensors)}
    if outcome.parameters:
        files[PARAMETERS] = save(outcome.parameters)
    if outcome.kept:
        files[KEPT] = save(outcome.kept)
    return files


def read_record(directory: Path) -> Record:
    """Read the record of a result *directory*; OSError or ValueError if it is not there or not readable."""
    text = (directory / RECORD).read_text(encoding="utf-8")
    return record_from([json.loads(line) for line in text.splitlines()])


def read_tensors(directory: Path) -> Arrays:
    """Read predictions and confidences of a result *directory*."""
    return load_file(directory / TENSORS)


def read_kept(directory: Path) -> Kept | None:
    """Return the features and the trajectory of the parameters of a result *directory*; None where a run kept none."""
    path = directory / KEPT
    return Kept(path) if path.exists() else None
