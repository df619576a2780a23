"""An outcome: one finished run as the engine hands it over, and as it lies in its result directory.

record.jsonl          the record, one JSON object per line
tensors.safetensors   predictions and confidences (see `TENSORS`)
parameters.safetensors  final parameters, unless eval.keep_parameters is false
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load_file, save

from contilab.records.record import Record, lines_of, record_from

RECORD = "record.jsonl"
TENSORS = "tensors.safetensors"
PARAMETERS = "parameters.safetensors"
COMPARED = (TENSORS, PARAMETERS)  # bitwise equal between two attempts of the same versions, machine and execution

Arrays = dict[str, np.ndarray]


class Outcome(NamedTuple):
    """What one run leaves.

    tensors: `prediction` int16 [S + 1, N] head row predicted for each test sample (tasks concatenated; row 0 is the
    untrained model, row i + 1 after stage i; -1 where not measured), `confidence` float32 [S + 1, N], its probability (nan
    for heads that give none), `prediction_all_rows` int16 [S + 1, N], and `target` int16 [N]; with eval.tier extended also
    those of `contilab.metrics.stream`, `contilab.metrics.learning_curve` and `contilab.metrics.representation`, and with full
    of `contilab.metrics.landscape`. parameters: final parameters by name.
    """

    rid: str
    record: Record
    tensors: Arrays
    parameters: Arrays


def files_of(outcome: Outcome) -> dict[str, bytes]:
    """Return the files of *outcome* by name."""
    lines = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines_of(outcome.record))
    files = {RECORD: lines.encode(), TENSORS: save(outcome.tensors)}
    if outcome.parameters:
        files[PARAMETERS] = save(outcome.parameters)
    return files


def read_record(directory: Path) -> Record:
    """Read the record of a result *directory*; OSError or ValueError if it is not there or not readable."""
    text = (directory / RECORD).read_text(encoding="utf-8")
    return record_from([json.loads(line) for line in text.splitlines()])


def read_tensors(directory: Path) -> Arrays:
    """Read predictions and confidences of a result *directory*."""
    return load_file(directory / TENSORS)
