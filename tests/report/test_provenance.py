"""What was run, and what its machines mean for the numbers: both pages say so."""

import html
import json
import re

import pytest

from contilab.report.write import report_of, write_report

CELLS = [("p", "naive", [0, 1], {}, "task"), ("p", "er", [0, 1], {}, "task")]
PROCESSORS = ("Xeon <A>", "EPYC B")  # of seed 0 and seed 1


def environment(run):
    """Return env.json as a runner leaves it beside *run*: the machine of its seed."""
    cpu = {"model": PROCESSORS[run.seed], "cores_physical": 8}
    cuda = [{"name": "H200"}] if run.seed else []
    host = {"name": "secret-host", "system": "Linux-6.1", "memory_bytes": 64 * 2**30}
    facts = {"threads": {"value": 4}, "capabilities": {"cpu": cpu, "cuda": cuda}, "host": host}
    return {"env.json": json.dumps(facts).encode()}


@pytest.fixture(scope="module")
def mixed(new_study, tmp_path_factory, undrawn):
    """The report of a study whose seeds were trained on two machines under two versions."""
    store = new_study(
        CELLS,
        papers=environment,
        threads="4",
        precision=lambda run: "bf16" if run.method.name == "er" else "fp32",
        processor=lambda run: PROCESSORS[run.seed],
        versions=lambda run: {"torch": f"2.{6 + run.seed}.0"},
    )
    with undrawn():
        return write_report(store.root, "tiny", tmp_path_factory.mktemp("out"))


def part_of(written, name, title):
    """Return the section *title* of report.md or report.html as a reader sees it."""
    text = (written.directory / name).read_text()
    if name.endswith("md"):
        return html.unescape(text.split(f"\n## {title}\n")[1].split("\n## ")[0].replace("\\", ""))
    section = next(part for part in text.split("<section ") if f"<h2>{title}</h2>" in part)
    return html.unescape(re.sub(r"<[^>]*>", " ", section))


@pytest.mark.parametrize("name", ["report.md", "report.html"])
class TestPages:
    """report.md and report.html."""

    @pytest.mark.parametrize(
        "fact",
        [
            "Xeon <A>, 8 cores, 64 GiB, Linux-6.1 (2 runs)",
            "EPYC B, 8 cores, 64 GiB, Linux-6.1, H200 (2 runs)",
            "4 (4 runs)",
            "torch 2.6.0, 2.7.0",
            "cpu (4 runs)",
            "bf16 (2 runs)",
        ],
    )
    def test_what_was_run(self, mixed, name, fact):
        """Machines, threads, versions, devices and precision stand with the runs behind them; names of hosts do not."""
        text = part_of(mixed, name, "What was run")

        assert fact in text
        assert "secret-host" not in text

    @pytest.mark.parametrize(
        "item",
        [
            "p: torch 2.6.0 (seed 0) and 2.7.0 (seed 1) for naive, er",
            "p: processor EPYC B (seed 1) and Xeon <A> (seed 0) for naive, er",
            "p: precision fp32 for naive; bf16 for er",
        ],
    )
    def test_a_mixture_is_told(self, mixed, name, item):
        """Cells of several machines, versions or precisions are named among what to mind, with what each has."""
        lines = [line.strip(" -") for line in part_of(mixed, name, "What to be careful about").splitlines()]

        assert item in lines

    def test_times_are_not_compared(self, mixed, name):
        """Times of two processors are not to be compared, and both are named."""
        assert "p: EPYC B, Xeon <A>" in part_of(mixed, name, "What to be careful about")


class TestMachines:
    """Machines and versions of runs."""

    def machines(self, store):
        """Return what is told of them."""
        _, made = report_of(store, "tiny")
        return dict(made.provenance.facts).get("machines")

    def test_runs_of_one_machine_are_counted_together(self, new_study):
        """One machine is one entry with the number of its runs."""
        store = new_study([("p", "naive", [0], {}, "task"), ("p", "er", [0], {}, "task")], papers=environment)

        assert self.machines(store) == ("Xeon <A>, 8 cores, 64 GiB, Linux-6.1 (2 runs)",)

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"capabilities": 3, "host": {"memory_bytes": "much"}}', None])
    def test_what_is_not_known_is_left_out(self, new_study, content):
        """Where env.json is missing or says something else, there is no machine to tell of, and the report is written."""
        store = new_study(CELLS[:1], papers=lambda _: {} if content is None else {"env.json": content})

        assert self.machines(store) is None

    def test_a_mixture_between_cells_is_told(self, new_study):
        """Where each cell has one version and the table has two, the table is named, at the top and among what to mind."""
        own = {"naive": {"torch": "2.6.0"}, "er": {"torch": "2.7.0"}}
        _, made = report_of(new_study(CELLS, versions=lambda run: own[run.method.name]), "tiny")
        [notice] = [notice for notice in made.notices if notice.text.startswith("Cells of one table were trained under")]

        assert notice.items == ("p: torch 2.6.0 for naive; 2.7.0 for er",)
        assert made.cautions[-1] == notice
