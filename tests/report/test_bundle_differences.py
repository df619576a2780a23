"""In what a table of a bundle differs from the one that is computed again, whatever somebody made of it."""

import pytest

from contilab.report.bundle_differences import differences
from contilab.report.bundle_versions import Versions

NONE = Versions({}, {})
RESULTS = "run,state,acc\n1,finished,0.5\n2,diverged,\n3,damaged,\n"
AGAIN = "run,state,acc,later\n1,finished,0.5000000000001,1\n2,diverged,,\n3,waiting,,\n"
ABSENT = "run,metric,reason\n2,acc,the run diverged\n3,acc,the run has no result: damaged\n"
STEPS = "1,steps,no earlier task recovered from a switch\n"
STEPS = {  # as two versions of contilab have them
    "results.csv": ("run,acc,steps\n1,0.5,\n2,0.5,7\n", "run,acc,steps\n1,0.5,3\n2,0.5,\n"),
    "absent.csv": ("run,metric,reason\n1,steps,none\n", "run,metric,reason\n2,steps,none\n3,steps,none\n"),
    "comparisons.csv": ("metric,p\nsteps,0.5\nacc,0.5\n", "metric,p\nacc,0.5\n"),
}
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
        assert list(differences(name, kept.encode(), again.encode(), NONE)) == []

    @pytest.mark.parametrize(("then", "now"), [(1, 2), (2, 1), (None, 1), (1, None)])
    @pytest.mark.parametrize("name", STEPS)
    def test_metrics_of_another_version(self, name, then, now):
        """A metric that an earlier or a later version has otherwise, or lacks, is not compared; of one version it is."""
        kept, again = (table.encode() for table in STEPS[name])
        other = Versions(*({"acc": 1, **({"steps": version} if version else {})} for version in (then, now)))
        same = Versions({"acc": 1, "steps": 1}, {"acc": 1, "steps": 1})

        assert list(differences(name, kept, again, other)) == []
        assert list(differences(name, kept, again, same)) != []


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
        assert next(differences("results.csv", RESULTS.replace(old, new, 1).encode(), AGAIN.encode(), NONE)) == fault

    def test_a_column_that_is_known_then_and_now(self):
        """It cannot be left out, unlike one that a later version adds."""
        found = differences("results.csv", b"run\n1\n", b"run,acc,later\n1,0.5,1\n", Versions({"acc": 1}, {"acc": 1}))

        assert list(found) == ["it lacks the column acc"]

    def test_an_absence(self):
        """One that is added or left out is named, by the line of the file wherever reasons are long or others stand before."""
        reasons = 'run,metric,reason\n1,acc,no result\n2,acc,"two\nlines"\n3,acc,none\n'

        assert list(differences("absent.csv", reasons.encode(), b"run,metric,reason\n2,acc,one\n4,aia,none\n", NONE)) == [
            "line 5: it says that acc of run 3 has no value, computed again it is otherwise",
            "it does not say that aia of run 4 has no value",
        ]

    @pytest.mark.parametrize("text", ["[", "[" * 100_000])
    def test_what_is_no_json(self, text):
        """A table that cannot be read says so."""
        assert next(differences("selection.json", text.encode(), GRID.encode(), NONE)).startswith("it cannot be read: ")

    def test_another_choice(self):
        """So does one with another number."""
        assert list(differences("selection.json", b'{"score": 0.9}', GRID.encode(), NONE)) == [
            "computed again it is another one"
        ]
