"""The door for notebooks: what it takes, refuses and never does."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contilab.errors import InputError
from contilab.metrics import Absent, from_matrix

FRACTIONS = st.floats(0, 1)
LOWER = [[0.9, None, None], [0.5, 0.8, None], [0.2, 0.4, 0.7]]


@st.composite
def matrices(draw, least=2):
    """Draw a square matrix of accuracies."""
    tasks = draw(st.integers(least, 6))
    return [[draw(FRACTIONS) for _ in range(tasks)] for _ in range(tasks)]


class TestProperties:
    """What holds for every matrix."""

    @given(matrices())
    def test_first_last_is_minus_bwt(self, rows):
        """One reading of forgetting is backward transfer with the other sign."""
        values = from_matrix(rows, scenario="task")

        assert values["forgetting_first_last"] == pytest.approx(-values["bwt"], abs=1e-12)

    @given(matrices())
    def test_readings_are_ordered(self, rows):
        """The more rows count as known before, the larger is forgetting; with the last row it is never negative."""
        values = from_matrix(rows, scenario="domain")

        assert values["forgetting_first_last"] <= values["forgetting"] + 1e-12
        assert values["forgetting"] <= min(values["forgetting_all_rows"], values["forgetting_max_incl_final"]) + 1e-12
        assert values["forgetting_max_incl_final"] >= 0

    @given(matrices(), st.integers(1, 1000))
    def test_equal_sizes_make_micro_and_macro_equal(self, rows, size):
        """With as many test samples in every task, both means are the same."""
        values = from_matrix(rows, scenario="task", sizes=[size] * len(rows))

        assert values["acc_seen_micro"] == pytest.approx(values["acc_seen_macro"], abs=1e-12)

    @given(matrices(least=1))
    def test_values_stay_in_range(self, rows):
        """Every value that is a fraction or a difference of fractions stays within -1 and 1 and is a plain float."""
        values = from_matrix(rows, baseline=rows[0], scenario="task", sizes=[5] * len(rows))
        bounded = [v for n, v in values.items() if n != "relative_forgetting" and not isinstance(v, Absent)]

        assert all(type(value) is float and -1 <= value <= 1 for value in bounded)


class TestInputs:
    """What may be given."""

    def test_inputs_are_left_as_they_are(self):
        """Nested lists and arrays are the same before and after, and the same call gives the same values."""
        rows, array = copy.deepcopy(LOWER), np.array([[0.9, 0.1], [0.5, 0.8]])
        before = array.copy()

        assert from_matrix(rows, scenario="class") == from_matrix(rows, scenario="class")
        assert from_matrix(array, scenario="task") == from_matrix(array, scenario="task")
        assert rows == LOWER
        assert np.array_equal(before, array)

    def test_arrays_and_lists_agree(self):
        """An array with nan says what nested lists with None say."""
        array = np.array(LOWER, dtype=float)

        assert from_matrix(array, scenario="class", sizes=np.array([1, 2, 3])) == from_matrix(
            LOWER, scenario="class", sizes=[1, 2, 3]
        )

    def test_lists_of_numpy_numbers(self):
        """Rows of single-precision scalars are read as numbers."""
        rows = [[np.float32(0.5), np.float32(0.25)], [np.float32(0.5), np.float32(1)]]

        assert from_matrix(rows, scenario="task")["acc"] == 0.75

    def test_zeros_above_the_diagonal_mean_not_measured(self):
        """Class-incremental matrices of other tools hold 0 where classes were not yet seen."""
        zeros = [[0.9, 0, 0], [0.5, 0.8, 0], [0.2, 0.4, 0.7]]

        assert from_matrix(zeros, scenario="class") == from_matrix(LOWER, scenario="class")

    def test_class_incremental_accuracies_differ_by_name(self):
        """Macro, micro and all-rows accuracy of one case are three values under three names."""
        all_rows = [[0.9, 0.0], [0.4, 0.6]]
        values = from_matrix([[0.9, None], [0.5, 0.8]], scenario="class", sizes=[100, 300], all_rows=all_rows)

        assert [values[n] for n in ("acc_seen_macro", "acc_seen_micro", "acc_all")] == pytest.approx([0.65, 0.725, 0.55])


class TestRefusals:
    """What is refused, in one sentence with place, value and way out."""

    @pytest.mark.parametrize(
        ("rows", "place", "problem"),
        [
            ([], "R", "the matrix is empty"),
            ([[]], "R", "the matrix has 1 rows and 0 columns"),
            ([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]], "R", "the matrix has 3 rows and 2 columns"),
            ([[0.1, 0.2], [0.3]], "R[1]", "it has 1 values, not 2"),
            ([[0.1, 0.2], [0.3, 81.5]], "R[1][1]", "81.5 is outside 0 to 1"),
            ([[0.1, 0.2], [0.3, -0.1]], "R[1][1]", "-0.1 is outside 0 to 1"),
            ([[0.1, 0.2], [0.3, "0.4"]], "R[1][1]", "'0.4' is not a number"),
            ([[0.1, 0.2], [0.3, True]], "R[1][1]", "True is not a number"),
            ([[0.1, 0.2], [0.3, float("inf")]], "R[1][1]", "inf is outside 0 to 1"),
            ([0.1, 0.2], "R[0]", "0.1 is not a list of values"),
            ("ab", "R", "'ab' is not a list of values"),
            (None, "R", "None is not a list of values"),
        ],
    )
    def test_matrices(self, rows, place, problem):
        """A matrix of another shape or with other values is refused where it is wrong."""
        with pytest.raises(InputError) as caught:
            from_matrix(rows, scenario="task")

        assert (caught.value.faults[0].place, caught.value.faults[0].problem) == (place, problem)

    def test_a_transposed_class_incremental_matrix(self):
        """Its absent cells lie on the wrong side."""
        with pytest.raises(InputError, match=r"the matrix is transposed: R\[0\]\[1\] is measured"):
            from_matrix([list(column) for column in zip(*LOWER, strict=True)], scenario="class")

    def test_a_full_class_incremental_matrix(self):
        """Cells of classes not yet seen cannot have been measured."""
        with pytest.raises(InputError, match=r"R\[0\]\[1\] is measured, but task 1 is not yet seen"):
            from_matrix([[0.9, 0.3], [0.5, 0.8]], scenario="class")

    @pytest.mark.parametrize(
        ("argument", "place"),
        [
            ({"scenario": "til"}, "scenario"),
            ({"baseline": [0.1]}, "baseline"),
            ({"baseline": [0.1, 2]}, "baseline[1]"),
            ({"sizes": [10]}, "sizes"),
            ({"sizes": [10, 0]}, "sizes[1]"),
            ({"sizes": [10, 1.5]}, "sizes[1]"),
            ({"all_rows": [[0.1]]}, "all_rows"),
            ({"cumulative": [0.1, 0.2, 0.3]}, "cumulative"),
        ],
    )
    def test_companions(self, argument, place):
        """A companion of the matrix is refused under its own name."""
        with pytest.raises(InputError) as caught:
            from_matrix([[0.9, 0.1], [0.5, 0.8]], **{"scenario": "task", **argument})

        assert caught.value.faults[0].place == place
