"""The manifests of published protocols: how the full ones differ from them, and that the short ones give what they gave."""

import os
import tomllib
from functools import cache
from pathlib import Path

import pytest
import structlog
import tomli_w

from contilab.cli.app import app
from contilab.cli.main import guarded
from contilab.cli.verify import RECORDED
from contilab.engine import setup as engine_setup
from contilab.manifest.resolve import resolve
from contilab.plan.expand import expand
from contilab.plan.menu import catalog_menu
from contilab.report.published.cells import settings_of
from contilab.report.published.table import Band, read_table
from contilab.report.published.verdict import Ours, verdicts

MANIFESTS = Path(__file__).parents[2] / "manifests"
TEST_DATA = os.environ.get("CONTILAB_TEST_DATA")
LENGTH = {  # what makes a manifest short; memories of hsu2018 are shorter with the data
    "benchmark.train_per_task",
    "benchmark.test_per_task",
    "train.steps",
    "method.fisher_samples",
    "memory.total",
}
MACHINE = {"engine.precision"}  # a full one leaves it to the machine; our numbers were recorded in fp32

PRECISION = {"engine.precision": "left to the machine, which may round products to bf16 where that is faster"}
ORDER = {"benchmark.class_order_seed": "one order for all seeds, so that studies are paired; theirs is another for each"}
MASK = {"benchmark.class_mask": "our default: rows of later tasks stay out of training; in Mammoth they are in it"}
EXPLAINED = {  # in what a full manifest differs from the published table, and why
    ("vandeven", "vandeven2022"): PRECISION | ORDER,
    ("vandeven", "vandeven2018"): PRECISION | ORDER,
    ("hsu2018", "hsu2018"): PRECISION,
    ("smnist_1epoch", "smnist_1epoch"): PRECISION | MASK,
}

every_table = pytest.mark.parametrize("name", RECORDED)
on_mnist = [
    pytest.mark.slow,
    pytest.mark.timeout(600),  # a minute of training at most, beside other work
    pytest.mark.skipif(not TEST_DATA, reason="CONTILAB_TEST_DATA is not set"),
]


@cache
def cells(name):
    """Return the cells of the manifest *name* as `verify` reads them, without values."""
    text = (MANIFESTS / f"{name}.toml").read_text(encoding="utf-8")
    study = expand(resolve(text, place=name, values=(), menu=catalog_menu()), catalog_menu())
    found = ((cell, settings_of(study.runs[cell.runs[min(cell.runs)]].config)) for cell in study.cells)
    return [(cell, Ours("", settings, (), len(cell.runs))) for cell, settings in found]


def of_one(name, method):
    """Return the manifest *name* with one method only, without the settings of others."""
    found = tomllib.loads((MANIFESTS / f"{name}.toml").read_text(encoding="utf-8"))
    found["matrix"]["method"] = [method]
    for table in ("method_overrides", "method_sweep"):
        found[table] = {one: own for one, own in found[table].items() if one == method} if table in found else {}
    return found


@pytest.fixture
def verified(monkeypatch, capsys, tmp_path):
    """Plan, run and verify a short manifest, or one method of it; return exit code and output of `verify`."""
    monkeypatch.setenv("CONTILAB_DATA", str(TEST_DATA))
    monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # commands set it, for the rest of this process too
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def command(*words):
        code = guarded(lambda: app([*map(str, words), "--store", str(tmp_path / "store")]))
        structlog.reset_defaults()
        out, err = capsys.readouterr()
        return code, out, err[-2000:]

    def run(name, method=None):
        path = MANIFESTS / f"{name}.toml" if method is None else tmp_path / "m.toml"
        if method is not None:
            path.write_text(tomli_w.dumps(of_one(name, method)), encoding="utf-8")
        for words in (("plan", path), ("run", "--workers", "1")):
            code, _, err = command(*words)
            assert code == 0, err
        return command("verify", name, "--against", name)[:2]

    return run


@every_table
class TestTables:
    """A recorded table and its manifests."""

    def test_are_called_ours(self, name):
        """Status and title say that the numbers are recorded, by which versions, and not published."""
        table = read_table(name)

        assert (table.status, table.said) == ("recorded", "recorded")
        assert "not published" in table.title
        assert table.recorded_with.startswith("contilab ")

    def test_have_each_cell_of_the_manifest(self, name):
        """Each cell of the manifest has one recorded cell whose every setting is equal, and there are no others."""
        table = read_table(name)
        found = [verdict for _, ours in cells(name) for verdict in verdicts(table, [ours]) if not verdict.differences]

        assert len(found) == len(cells(name)) == len(table.cells)
        assert all(cell.sem is not None for cell in table.cells)
        assert {verdict.reason for verdict in found} == {"no seed has an accuracy"}
        assert all(len(cell.runs) == table.seeds for cell, _ in cells(name))

    def test_protocol_is_the_published_one_but_for_its_length(self, name):
        """Cell by cell the short manifest differs from the full one in lengths only, and names its precision."""
        full = cells(name.removesuffix("_short"))
        pairs = list(zip(cells(name), full, strict=True))
        differing = {
            key
            for (_, short), (_, long) in pairs
            for key in short.settings.keys() | long.settings.keys()
            if short.settings.get(key) != long.settings.get(key)
        }

        assert [(a.preset, a.method) for (a, _), _ in pairs] == [(b.preset, b.method) for _, (b, _) in pairs]
        assert {"benchmark.train_per_task", "benchmark.test_per_task"} <= differing <= LENGTH | MACHINE
        assert {short.settings["engine.precision"] for _, short in cells(name)} == {"fp32"}


@pytest.mark.parametrize(("name", "table"), EXPLAINED)
class TestFull:
    """A full manifest beside the published table."""

    def test_differs_in_what_is_explained_only(self, name, table):
        """Each cell differs from the nearest published one in nothing that is not listed; what is listed does differ."""
        differing = set()
        for _, ours in cells(name):
            found = [{text.partition(" = ")[0] for text in one.differences} for one in verdicts(read_table(table), [ours])]
            differing |= min(found, key=len, default=set())

        assert differing == EXPLAINED[name, table].keys()

    def test_bands_are_for_its_cells(self, name, table):
        """Of each band of the table a cell of the manifest gives a verdict, once it has seeds enough."""
        study = [ours._replace(values=(50.0,) * 5, planned=5) for _, ours in cells(name)]
        judged = [verdict for verdict in verdicts(read_table(table), study) if isinstance(verdict.reference, Band)]

        assert len(judged) == len({(band.method, band.scenario) for band in read_table(table).bands})
        assert [verdict.reason for verdict in judged if verdict.reason] == []


class TestRuns:
    """Real training."""

    pytestmark = on_mnist

    @every_table
    def test_each_cell_gives_what_it_gave(self, verified, name):
        """`contilab verify` passes every cell: within three standard errors of both, and half a point."""
        code, told = verified(name)

        assert code == 0
        assert told.splitlines()[-1] == f"{len(read_table(name).cells)} pass, 0 fail, 0 give no verdict"


class TestMutants:
    """Faults that the recorded numbers find: a number of the method is not the one that the manifest says."""

    pytestmark = on_mnist

    @pytest.mark.parametrize(
        ("name", "method", "fault"),
        [
            ("vandeven_short", "ewc", {"strength": 0.0}),
            ("vandeven_short", "si", {"strength": 0.01}),
            ("hsu2018_short", "mas", {"strength": 100.0}),
            ("hsu2018_short", "si", {"strength": 0.1}),
            ("smnist_1epoch_short", "derpp", {"beta": 0.0}),
        ],
    )
    def test_a_broken_strength_fails(self, verified, monkeypatch, name, method, fault):
        """With a strength multiplied behind the manifest's back at least one cell of the method fails, with exit code 3."""
        values = engine_setup.values_per_member

        def broken(settings):
            return {key: fault[key] * value if key in fault else value for key, value in values(settings).items()}

        monkeypatch.setattr(engine_setup, "values_per_member", broken)
        code, told = verified(name, method)

        assert code == 3
        assert " 0 fail" not in told.splitlines()[-1]
