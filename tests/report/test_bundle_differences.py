"""In what a table of a bundle differs from the one that is computed again, whatever somebody made of it."""

import pytest

from contilab.report.bundle_differences import differences

RESULTS = "run,state,acc\n1,finished,0.5\n2,diverged,\n3,damaged,\n"
AGAIN = "run,state,acc,later\n1,finished,0.5000000000001,1\n2,diverged,,\n3,waiting,,\n"
ABSENT = "run,metric,reason\n2,acc,the run diverged\n3,acc,the run has no result: damaged\n"
GRID = '{"score": 0.5}'


class TestSame:
    """What is no difference."""

    @pytest.mark.parametrize(
        ("name", "kept", "again"),
        [
            ("results.csv", RESULTS, AGAIN),
            ("absent.csv", ABSENT, ABSENT.replace("damaged", "waiting")),
            ("absent.csv", ABSENT.replace("diverged", "x" * 200_000), ABSENT),
            ("selection.json", GRID, '{"score":0.5000000000001}'),
            ("comparisons.csv", 'differences\n"{""0"": 0.5}"\n', 'differences\n"{""0"": 0.5000000000001}"\n'),
        ],
    )
    def test_rounding_later_columns_and_what_has_no_result(self, name, kept, again):
        """Rounding, columns of a later version, words of a reason, and how far a run without a result was."""
        assert list(differences(name, kept.encode(), again.encode())) == []


class TestForged:
    """What is one."""

    @pytest.mark.parametrize(
        ("old", "new", "fault"),
        [
            ("0.5", "0.9", "line 2, acc: it says 0.9, computed again 0.5000000000001"),
            (",acc", ",acd", "nothing is computed for its column acd"),
            ("1,finished,0.5", "1,waiting,0.9", "line 2, state: it says waiting, computed again finished"),
            ("3,damaged,", "3,finished,0.9", "line 4, state: it says finished, computed again waiting"),
            ("3,damaged,", "3,damaged,0.9", "line 4, acc: it says 0.9, computed again "),
            (",acc", ",run", "it has two columns of one name"),
            ("1,finished", "1,,finished", "line 2 has not one cell per column"),
            ("3,damaged,\n", "", "it has 2 rows, computed again 3"),
        ],
    )
    def test_a_table(self, old, new, fault):
        """Cells that are changed, renamed, hidden behind a state, added or left out are each told in a sentence."""
        assert next(differences("results.csv", RESULTS.replace(old, new, 1).encode(), AGAIN.encode())) == fault

    @pytest.mark.parametrize("text", ["[", "[" * 100_000])
    def test_what_is_no_json(self, text):
        """A table that cannot be read says so."""
        assert next(differences("selection.json", text.encode(), GRID.encode())).startswith("it cannot be read: ")

    def test_another_choice(self):
        """So does one with another number."""
        assert list(differences("selection.json", b'{"score": 0.9}', GRID.encode())) == ["computed again it is another one"]
