"""Labels: any integer type gives the same, bad values are named."""

import numpy as np
import pytest

from contilab.data.labels import checked


class TestChecked:
    """What `checked` accepts and refuses."""

    @pytest.mark.parametrize("kind", ["int8", "uint8", "int16", ">i4", "int32", "int64", "uint64"])
    def test_types_give_equal_labels(self, kind: str) -> None:
        """Labels of every integer type become the same int64 labels."""
        labels = checked(np.array([2, 0, 1], dtype=kind), 3)

        assert labels.dtype == np.int64
        assert labels.tolist() == [2, 0, 1]

    @pytest.mark.parametrize(
        ("values", "kind", "sentence"),
        [
            ([0, 1, 3, 9], "uint8", "the label at index 2 is 3, labels are 0 to 2"),
            ([0, -1], "int8", "the label at index 1 is -1, labels are 0 to 2"),
            ([255], "uint8", "the label at index 0 is 255, labels are 0 to 2"),
            ([2**64 - 1], "uint64", "the label at index 0 is 18446744073709551615, labels are 0 to 2"),
            ([0.0], "float32", "labels are of type float32, not integers"),
            ([True], "bool", "labels are of type bool, not integers"),
            ([[0]], "uint8", "labels have 2 dimensions, not one"),
        ],
    )
    def test_refuses(self, values: list[int], kind: str, sentence: str) -> None:
        """A label out of range is refused with index and value, other types and shapes by name."""
        with pytest.raises(ValueError, match=f"^{sentence}$"):
            checked(np.array(values, dtype=kind), 3)
