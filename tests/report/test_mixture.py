"""Which cells were trained under which circumstances: each value with its cells, and with its seeds where they differ."""

import pytest

from contilab.report.benchmark import benchmarks
from contilab.report.notices import mixtures
from contilab.report.runs import RunReport
from contilab.spec.sections import Execution
from contilab.spec.study import Cell

WITHIN, ACROSS = "Seeds of one cell", "Cells of one table"


def runs_of(method, values, preset="p", fact="precision", **sweep):
    """Return runs of one cell, one per value of *fact*; None: a run without a result."""
    keys = {f"method.{key}": value for key, value in sweep.items()}
    cell = Cell(preset=preset, benchmark="b", scenario="class", method=method, sweep=keys, execution=Execution(), runs={})
    told = [{} if value is None else {fact: value} for value in values]
    return [RunReport(cell, seed, f"{method}{seed}", "finished", circumstances=facts) for seed, facts in enumerate(told)]


def said(*groups):
    """Return what is said of the runs in *groups*, by the beginning of the notice."""
    found = mixtures(benchmarks([run for group in groups for run in group]))
    return {notice.text.split(" were ")[0]: notice.items for notice in found}


class TestCells:
    """Cells that have one value each."""

    def test_each_value_names_its_cells(self):
        """The methods of each precision stand together; one without a result is not among them."""
        found = said(runs_of("er", ["bf16"] * 2), runs_of("naive", ["fp32"] * 2), runs_of("si", ["fp32"]), runs_of("x", [None]))

        assert found == {ACROSS: ("p: precision bf16 for er; fp32 for naive, si",)}

    def test_variants_are_named_shortly(self):
        """A method all of whose variants have one value is named once, another one by the variants that have it."""
        whole = [runs_of("ewc", ["bf16"], strength=strength) for strength in (1, 2, 3)]
        parted = [runs_of("si", [value], strength=strength) for strength, value in ((1, "bf16"), (2, "fp32"))]

        assert said(*whole, *parted) == {
            ACROSS: ("p: precision bf16 for ewc (all 3 variants), si strength=1; fp32 for si strength=2",)
        }

    def test_tables_of_which_the_same_is_said_stand_together(self):
        """Several benchmarks that were trained alike make one line."""
        groups = [runs_of(name, [value], preset) for preset in "pq" for name, value in (("a", "bf16"), ("b", "fp32"))]

        assert said(*groups) == {ACROSS: ("p, q: precision bf16 for a; fp32 for b",)}

    @pytest.mark.parametrize(("fact", "values"), [("device", ["cuda:0", "cuda:1"]), ("precision", ["bf16", "bf16"])])
    def test_what_is_alike_is_not_told(self, fact, values):
        """Which of several devices trained a run is no difference."""
        assert said(*(runs_of(name, [value], fact=fact) for name, value in zip("ab", values, strict=True))) == {}


class TestSeeds:
    """Cells whose seeds differ."""

    def test_each_value_names_its_seeds(self):
        """Precision is measured for each group, so seeds of one cell can differ; cells that do so alike stand together."""
        mixed = ["fp32"] * 3 + ["bf16", "fp32"]
        found = said(runs_of("er", mixed), runs_of("naive", ["fp32"] * 5), runs_of("si", mixed))

        assert found == {WITHIN: ("p: precision bf16 (seed 3) and fp32 (seeds 0-2, 4) for er, si; fp32 for naive",)}

    def test_cells_and_seeds_are_told_apart(self):
        """What differs within a cell and what differs between cells only are two things to know."""
        within = runs_of("er", ["fp32", "bf16"])
        across = [run._replace(circumstances=run.circumstances | {"versions": {"torch": "2.6"}}) for run in within]
        other = [
            run._replace(circumstances=run.circumstances | {"versions": {"torch": "2.7"}}) for run in runs_of("si", ["fp32"])
        ]

        assert said(across, other) == {
            WITHIN: ("p: precision bf16 (seed 1) and fp32 (seed 0) for er; fp32 for si",),
            ACROSS: ("p: torch 2.6 for er; 2.7 for si",),
        }
