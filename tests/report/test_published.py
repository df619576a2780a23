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
    return Ours("split, er", {**SETTINGS, **settings}, tuple(values), len(values))


def a_band(low=0.0, high=1.0, *, own=(), free=(), **settings) -> Band:
    """Return a band of er."""
    return Band("er", "class", low, high, "", {**SETTINGS, **settings}, frozenset(own), frozenset(free))


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
        known = {"method.name", "data.digest", *named_keys(menu), *shared_keys()}
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

    @pytest.mark.parametrize("scenario", ["task", "class"])
    def test_bands_of_a_method_with_two_cells_are_for_each(self, scenario) -> None:
        """Separate and online EWC have a band each, with their own strength: none is for any strength."""
        table = read_table("hsu2018")
        keys = ("method.variant", "method.strength")

        def settings(items):
            return {tuple(map(one.settings.get, keys)) for one in items if (one.method, one.scenario) == ("ewc", scenario)}

        assert len(settings(table.bands)) == 2
        assert settings(table.bands) == settings(table.cells)

    def test_settings_of_a_band_choose_its_cell(self) -> None:
        """The band of derpp is for M 500 alone, and names the strengths with which its lower edge was measured."""
        (band,) = (band for band in read_table("smnist_1epoch").bands if band.method == "derpp")

        assert band.settings["memory.total"] == 500
        assert {"method.alpha", "method.beta", "optim.lr"} < band.own

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
        (verdict,) = verdicts(a_table(bands=[a_band(low, high)]), [ours()])

        assert verdict.passed is passed

    @pytest.mark.parametrize(
        ("table", "study", "reason"),
        [
            (a_table(cells=[a_cell(**{"optim.lr": 0.2})]), ours(), "one setting differs"),
            (a_table(cells=[a_cell(**{"method.alpha": 1})]), ours(), "one setting differs"),
            (
                a_table(cells=[a_cell(**{"optim.lr": 1})], status="recalled"),
                ours(),
                "the number is recalled, not read in its source",
            ),
            (a_table(cells=[a_cell(sem=None)]), ours(), "published without a spread"),
            (a_table(cells=[a_cell()], not_stated=["scale of pixels"]), ours(), "the source does not state every setting"),
            (a_table(cells=[a_cell()]), ours([90.0]), "a verdict needs 5 seeds, here: 1"),
            (a_table(cells=[a_cell()]), ours([90.0] * 4), "a verdict needs 5 seeds, here: 4"),
            (a_table(cells=[a_cell()]), ours([]), "no seed has an accuracy"),
            (a_table(bands=[a_band()]), ours([90.0] * 4), "a verdict needs 5 seeds, here: 4"),
            (a_table(bands=[a_band(**{"optim.lr": 1})]), ours(), "one setting differs"),
            (a_table(bands=[a_band(**{"optim.lr": 1, "train.batch": 1}, free=["optim.lr"])]), ours(), "one setting differs"),
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

    @pytest.mark.parametrize(("seeds", "passed"), [(2, None), (3, True)])
    def test_our_own_numbers_need_as_many_seeds_as_they_have(self, seeds, passed) -> None:
        """A number recorded with three seeds gives a verdict on three seeds."""
        table = a_table(status="recorded", cells=[a_cell()])._replace(seeds=3)
        (verdict,) = verdicts(table, [ours([90.0, 89.0, 91.0][:seeds])])

        assert verdict.passed is passed

    def test_what_does_not_matter_to_a_band_is_told(self) -> None:
        """With another value of a setting that is free the band gives its verdict, and the difference is told all the same."""
        band = a_band(89, 91, **{"engine.precision": "fp32"}, free=["engine.precision"])
        (verdict,) = verdicts(a_table(bands=[band]), [ours(**{"engine.precision": "bf16"})])

        assert verdict.passed
        assert verdict.differences == ("engine.precision = bf16, published with fp32",)

    def test_settings_of_the_band_itself_are_not_called_published(self) -> None:
        """What only we ask for is told as such."""
        (verdict,) = verdicts(a_table(bands=[a_band(own=["optim.lr"], **{"optim.lr": 1})]), [ours()])

        assert verdict.differences == ("optim.lr = 0.1, the band is for 1",)

    def test_a_band_of_several_settings_is_judged_once(self) -> None:
        """Under settings that the study has, and if it has none of them, beside the nearest."""
        bands = [a_band(89, 91, **{"method.a": a, "method.b": a}) for a in (1, 2)]
        equal = verdicts(a_table(bands=bands), [ours(**{"method.a": 2, "method.b": 2})])
        other = verdicts(a_table(bands=bands), [ours(**{"method.a": 3, "method.b": 2})])

        assert [verdict.passed for verdict in equal] == [True]
        assert [(verdict.passed, verdict.differences) for verdict in other] == [(None, ("method.a = 3, published with 2",))]

    def test_settings_of_another_optimiser_say_no_more_than_its_name(self) -> None:
        """Beside a number of Adam, SGD has no beta; its rate is compared."""
        adam = a_cell(**{"optim.name": "adam", "optim.beta1": 0.9, "optim.lr": 0.001})
        (verdict,) = verdicts(a_table(cells=[adam]), [ours(**{"optim.name": "sgd"})])

        assert verdict.differences == ("optim.lr = 0.1, published with 0.001", "optim.name = sgd, published with adam")

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
