"""Published numbers, and the verdict on a study beside them."""

import pytest

from contilab import catalog
from contilab.cli.verify import RECORDED, TABLES
from contilab.errors import UsageError
from contilab.manifest.keys import named_keys, plugin_keys, shared_keys
from contilab.plan.menu import catalog_menu
from contilab.report.published.table import SCENARIOS, Band, Cell, Table, names, read_table
from contilab.report.published.verdict import Ours, verdicts

SETTINGS = {"benchmark.scenario": "class", "method.name": "er", "optim.lr": 0.1, "memory.total": 500}


def a_table(*, status="verified", not_stated=(), cells=(), bands=()) -> Table:
    """Return a table of ten seeds."""
    return Table("t", "Somebody 2020", status, 10, "sd", tuple(not_stated), tuple(cells), tuple(bands))


def a_cell(mean=90.0, sem=0.5, **settings) -> Cell:
    """Return a published cell of er."""
    return Cell("er", "class", mean, sem, {**SETTINGS, **settings})


def ours(values=(89.0, 90.0, 91.0, 90.0, 90.0), **settings) -> Ours:
    """Return a cell of a study: mean 90, standard error 0.316."""
    return Ours("split, er", {**SETTINGS, **settings}, tuple(values))


def plugins(menu) -> set[str]:
    """Return the keys of every model and optimiser."""
    found = [plugin_keys(menu, kind, name) for kind in ("model", "optim") for name in menu.names[kind]]
    return {key for keys in found for key in keys}


@pytest.mark.parametrize("name", names())
class TestTables:
    """The tables of the package."""

    def test_name_methods_of_the_catalog_and_percents(self, name) -> None:
        """Every cell is of a method that there is, in a scenario that there is, between 0 and 100 percent."""
        table = read_table(name)

        assert {cell.method for cell in (*table.cells, *table.bands)} <= set(catalog.STRATEGIES)
        assert {cell.scenario for cell in (*table.cells, *table.bands)} <= set(SCENARIOS)
        assert all(0 < cell.mean <= 100 for cell in table.cells)
        assert all(0 < band.low < band.high <= 100 for band in table.bands)

    def test_settings_are_keys_of_a_run(self, name) -> None:
        """Every setting that is matched is one that a manifest can set, so that none differs for ever."""
        menu = catalog_menu()
        known = {"method.name", *named_keys(menu), *shared_keys()}
        wrong = {
            key
            for cell in (*read_table(name).cells, *read_table(name).bands)
            for key in cell.settings
            if key not in known | set(plugin_keys(menu, "method", cell.method)) | plugins(menu)
        }

        assert wrong == set()


class TestTable:
    """Reading one table."""

    def test_spreads_become_standard_errors(self) -> None:
        """A standard deviation of 10 seeds is divided by the root of 10: Hsu's naive T, 2.01, is 0.636."""
        cell = next(cell for cell in read_table("hsu2018").cells if (cell.method, cell.scenario) == ("naive", "task"))

        assert cell.sem == pytest.approx(2.01 / 10**0.5)

    def test_settings_of_scenario_and_method_are_merged(self) -> None:
        """The cell of ewc in the domain scenario has the protocol, its method's variant and its scenario's strength."""
        cell = next(cell for cell in read_table("vandeven2022").cells if (cell.method, cell.scenario) == ("ewc", "domain"))

        assert (cell.settings["train.steps"], cell.settings["method.variant"]) == (2000, "separate")
        assert cell.settings["method.strength"] == 1e10

    def test_bands_have_the_strength_of_their_cell(self) -> None:
        """A band holds under the settings of the published cell of its method and scenario."""
        band = next(band for band in read_table("vandeven2022").bands if (band.method, band.scenario) == ("si", "task"))

        assert (band.low, band.settings["method.strength"]) == (97.5, 10.0)

    def test_help_names_all_of_them(self) -> None:
        """`contilab verify --help` names every table, without reading them."""
        assert names() == tuple(sorted((*TABLES, *RECORDED)))

    def test_unknown_name(self) -> None:
        """A name that there is not is refused with those that there are."""
        with pytest.raises(UsageError, match="vandeven2022"):
            read_table("vandeven")


class TestVerdict:
    """What gives a verdict, and which."""

    @pytest.mark.parametrize(("mean", "passed"), [(92.2, True), (92.4, False), (87.8, True), (87.6, False)])
    def test_tolerance_is_of_both_standard_errors(self, mean, passed) -> None:
        """3 sqrt(0.316^2 + 0.5^2) + 0.5 = 2.27 points: 2.2 away passes, 2.4 fails, on both sides."""
        (verdict,) = verdicts(a_table(cells=[a_cell(mean)]), [ours()])

        assert verdict.passed is passed

    @pytest.mark.parametrize(("low", "high", "passed"), [(89, 91, True), (90.9, 95, True), (91, 95, False), (80, 89, False)])
    def test_bands_are_widened_by_our_own_error(self, low, high, passed) -> None:
        """A mean of 90 with standard error 0.316 may lie 0.95 outside."""
        (verdict,) = verdicts(a_table(bands=[Band("er", "class", low, high, "", SETTINGS)]), [ours()])

        assert verdict.passed is passed

    @pytest.mark.parametrize(
        ("table", "study", "reason"),
        [
            (a_table(cells=[a_cell(**{"optim.lr": 0.2})]), ours(), "one setting differs"),
            (a_table(cells=[a_cell(**{"method.alpha": 1})]), ours(), "one setting differs"),
            (a_table(cells=[a_cell()], status="recalled"), ours(), "the number is recalled, not read in its source"),
            (a_table(cells=[a_cell(sem=None)]), ours(), "published without a spread"),
            (a_table(cells=[a_cell()], not_stated=["scale of pixels"]), ours(), "not stated in the source: scale of pixels"),
            (a_table(cells=[a_cell()]), ours([90.0]), "one seed has no spread"),
            (a_table(cells=[a_cell()]), ours([]), "no seed has finished"),
            (a_table(bands=[Band("er", "class", 0, 1, "", SETTINGS)]), ours([90.0] * 4), "a band needs 5 seeds, here are 4"),
            (a_table(bands=[Band("er", "class", 0, 1, "", {**SETTINGS, "optim.lr": 1})]), ours(), "one setting differs"),
        ],
    )
    def test_nothing_is_decided_without_ground(self, table, study, reason) -> None:
        """However far the number is off, other settings, second-hand numbers and too few seeds give no verdict but a reason."""
        (verdict,) = verdicts(table, [study])

        assert (verdict.passed, verdict.reason) == (None, reason)

    @pytest.mark.parametrize(
        ("status", "said"), [("recorded", "recorded"), ("verified", "published"), ("recalled", "published")]
    )
    def test_our_own_numbers_are_never_called_published(self, status, said) -> None:
        """A recorded table says that its numbers are recorded, and its cells give a verdict."""
        table = a_table(status=status, cells=[a_cell(), a_cell(**{"optim.lr": 0.2})])
        equal, other = verdicts(table, [ours()])

        assert equal.passed is (None if status == "recalled" else True)
        assert other.differences == (f"optim.lr = 0.1, {said} with 0.2",)

    def test_differences_name_both_values(self) -> None:
        """Each setting that is not that of the source is told with both values."""
        (verdict,) = verdicts(a_table(cells=[a_cell(**{"optim.lr": 0.2, "method.alpha": 1})]), [ours()])

        assert verdict.differences == ("optim.lr = 0.1, published with 0.2", "method.alpha = absent, published with 1")

    def test_the_nearest_protocol_is_compared(self) -> None:
        """Of two cells of a method, that of the published memory size is taken, whatever their order."""
        small, large = ours([50.0] * 5, **{"memory.total": 200}), ours()
        (verdict,) = verdicts(a_table(cells=[a_cell()]), [small, large])

        assert verdict.ours is large

    def test_other_scenarios_are_never_compared(self) -> None:
        """A task-incremental cell does not stand beside a class-incremental number."""
        assert verdicts(a_table(cells=[a_cell()]), [ours(**{"benchmark.scenario": "task"})]) == []
