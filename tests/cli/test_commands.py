"""The commands, in this process: what they print and their exit codes."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import structlog

from contilab.cli.app import app
from contilab.cli.main import guarded
from contilab.errors import DataError
from contilab.store.layout import DIRECTORIES
from contilab.store.store import open_store


@pytest.fixture(scope="module")
def trained(tmp_path_factory, manifest_text):
    """A store whose study is done, to be copied."""
    place = tmp_path_factory.mktemp("trained")
    (place / "m.toml").write_text(manifest_text)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # commands set it, for the rest of this process too
        monkeypatch.setenv("OMP_NUM_THREADS", "1")  # so `run` trains in this process
        assert guarded(lambda: app(["plan", str(place / "m.toml"), "--store", str(place / "store")])) == 0
        assert guarded(lambda: app(["run", "--store", str(place / "store")])) == 0
    structlog.reset_defaults()
    return place / "store"


@pytest.fixture
def store(trained, tmp_path):
    """A store whose study is done."""
    shutil.copytree(trained, tmp_path / "store")
    return tmp_path / "store"


class TestPlan:
    """contilab plan."""

    def test_dry_run(self, cli, manifest, tmp_path):
        """A dry run shows cells, runs, groups and estimates, and writes nothing."""
        code, out, err = cli("plan", manifest, "--dry-run", "--store", tmp_path / "store")

        assert (code, err) == (0, "")
        for part in (
            "data        synthetic",
            "cells       4",
            "8, of them 0 done, 8 would be new",
            "2 would be new",
            "memory",
            "disk",
            "GFLOP",
        ):
            assert part in out
        assert not (tmp_path / "store").exists()

    def test_twice(self, cli, manifest, tmp_path):
        """Where the store is stands in the output; planning again finds nothing new."""
        cli("plan", manifest, "--store", tmp_path / "store")
        code, out, _ = cli("plan", manifest, "--store", tmp_path / "store")

        assert code == 0
        assert f"store   {tmp_path / 'store'}" in out
        assert "8, of them 0 done, 0 new" in out

    def test_settings_on_the_command_line(self, cli, manifest, tmp_path):
        """key=value wins over the manifest."""
        _, out, _ = cli("plan", manifest, "matrix.seed=[0,1,2]", "train.epochs=2", "--dry-run", "--store", tmp_path / "store")

        assert "12, of them" in out

    def test_environment_names_the_store(self, cli, manifest, tmp_path, monkeypatch):
        """CONTILAB_STORE names the store where --store does not."""
        monkeypatch.setenv("CONTILAB_STORE", str(tmp_path / "elsewhere"))
        cli("plan", manifest)

        assert (tmp_path / "elsewhere" / "format.json").exists()

    def test_faults(self, cli, manifest, manifest_text, tmp_path):
        """Every fault of a manifest is a sentence on standard error, exit code 2, and nothing is written."""
        manifest.write_text(manifest_text.replace('"er"', '"erx"').replace('"model.hidden" = [4]', '"model.hiden" = [4]'))
        code, out, err = cli("plan", manifest, "--store", tmp_path / "store")

        assert (code, out) == (2, "")
        assert err.count("error: ") == 2
        assert "erx" in err
        assert "hiden" in err
        assert not (tmp_path / "store").exists()

    def test_no_manifest(self, cli, tmp_path):
        """A manifest that is not there is the user's mistake."""
        code, _, err = cli("plan", tmp_path / "none.toml", "--store", tmp_path / "store")

        assert code == 2
        assert "none.toml" in err


class TestRun:
    """contilab run."""

    def test_nothing_left(self, cli, store):
        """A runner with nothing to do says so and exits with 0; logs are JSON lines on standard error."""
        code, out, err = cli("run", "--store", store)

        assert code == 0
        assert out == f"store: {store}\n8 of 8 runs have a result\n"
        assert {json.loads(line)["event"] for line in err.splitlines()} == {"runner_started", "resources"}

    def test_no_store(self, cli, tmp_path):
        """Without a plan the exit code is 4 and the hint says how to make one."""
        code, _, err = cli("run", "--store", tmp_path / "none")

        assert code == 4
        assert "contilab plan" in err

    def test_no_device(self, cli, store):
        """A missing device is told in one sentence, exit code 4."""
        code, _, err = cli("run", "--store", store, "--device", "cuda:99")

        assert code == 4
        assert err.startswith('error: device: "cuda:99" does not exist')


class TestStatus:
    """contilab status."""

    def test_cells(self, cli, store):
        """Each study has its progress, each cell a row with the swept settings."""
        code, out, _ = cli("status", "--store", store)

        assert code == 0
        assert "study small  [####################]  8 of 8 runs have a result" in out
        assert "  synthetic_class  er      optim.lr=0.2     2     2" in out

    def test_json(self, cli, store):
        """The same as JSON, run by run."""
        _, out, _ = cli("status", "small", "--json", "--store", store)
        (study,) = json.loads(out)

        assert study["study"] == "small"
        assert study["counts"] == {"done": 8}
        assert {run["state"] for run in study["runs"]} == {"done"}
        assert {run["optim.lr"] for run in study["runs"]} == {0.1, 0.2}

    def test_quarantined(self, cli, manifest, tmp_path, monkeypatch):
        """A group that kept failing has its reason and the way out, and the file with the traceback is named and there."""

        def fail(*args, **rest):
            raise ZeroDivisionError("by zero")

        monkeypatch.setattr("contilab.runner.training.train", fail)
        cli("plan", manifest, "--store", tmp_path / "store")
        code, _, err = cli("run", "--store", tmp_path / "store")
        _, out, _ = cli("status", "--store", tmp_path / "store")
        _, table, _ = cli("status", "--json", "--store", tmp_path / "store")
        runs = json.loads(table)[0]["runs"]

        assert code == 3
        assert err.count("is in quarantine: 3 attempts without progress") == 2
        assert out.count("last error: ZeroDivisionError: by zero") == 2
        assert {run["state"] for run in runs} == {"quarantined"}
        for run in runs:
            assert "in fail" in json.loads(Path(run["evidence"]).read_text())["traceback"]
            assert f"contilab retry {run['gid'][:12]}" in out

    def test_damaged(self, cli, store):
        """A damaged result is named."""
        rid = open_store(store).study("small").rids[0]
        (store / "results" / rid / "record.jsonl").write_text("")
        _, out, _ = cli("status", "--store", store)

        assert f"damaged: run {rid[:12]}" in out

    def test_tried(self, cli, manifest, tmp_path, monkeypatch):
        """A group that the machine failed waits, and why is told."""

        def fail(*args, **rest):
            raise DataError("mnist", "not there")

        monkeypatch.setattr("contilab.runner.training.train", fail)
        cli("plan", manifest, "--store", tmp_path / "store")
        cli("run", "--store", tmp_path / "store")
        _, out, _ = cli("status", "--store", tmp_path / "store")

        assert out.count("(4 runs), last try: contilab.errors.DataError: mnist: not there") == 2

    def test_foreign_files(self, cli, store):
        """Files and folders of others in every folder of the store disturb neither status nor report nor run."""
        for folder in DIRECTORIES:
            for name in ("junk", "junk.json", ".hidden"):
                (store / folder / name).write_bytes(b"\xff[[[")
            for name in ("folder", "folder.json"):
                (store / folder / name).mkdir()

        assert "8 of 8 runs have a result" in cli("status", "--store", store)[1]
        assert cli("report", "small", "--store", store, "--out", store / "out")[0] == 0
        assert cli("run", "--store", store)[0] == 0

    def test_running(self, cli, manifest, tmp_path):
        """A group in work shows who works on it, how far it is and when it was last heard of."""
        from contilab.store.claimer import Claimer

        cli("plan", manifest, "--store", tmp_path / "store")
        with Claimer(open_store(tmp_path / "store"), runner="ab" * 16, versions={}).claim_next():
            _, out, _ = cli("status", "--store", tmp_path / "store")

        assert "running: group" in out
        assert "on abababababab, starting, beat 0 s ago" in out

    def test_time_left(self, cli, manifest, tmp_path):
        """With a speed known, the time that is left is told for the group and for the study."""
        from contilab.store.claimer import Claimer

        cli("plan", manifest, "--store", tmp_path / "store")
        with Claimer(open_store(tmp_path / "store"), runner="ab" * 16, versions={}).claim_next() as claim:
            claim.tell(step=10, steps=70, samples_per_second=4 * 32.0)
            claim._heartbeat._beat()
            _, out, _ = cli("status", "--store", tmp_path / "store")
            _, table, _ = cli("status", "--json", "--store", tmp_path / "store")
        per_second = 4 * 32.0 / open_store(tmp_path / "store").run(claim.rids[0]).train.batch

        assert json.loads(table)[0]["seconds_left"] == pytest.approx((4 * 60 + 4 * 70) / per_second)
        assert "step 10 of 70, 128 samples/s, 2 min left" in out

    def test_not_in_the_manifest(self, cli, store, manifest, manifest_text):
        """Results that only an earlier plan named are counted; they are removed by prune, after saying how much."""
        manifest.write_text(manifest_text.replace("[0, 1]", "[0]"))
        cli("plan", manifest, "--store", store)
        before = cli("status", "--store", store)[1]
        dry = cli("prune", "small", "--dry-run", "--store", store)[1]
        there = len(list((store / "results").iterdir()))
        wet = cli("prune", "small", "--store", store)[1]

        assert "4 of 4 runs have a result" in before
        assert "not in the manifest any more: 4 results; contilab prune small removes them" in before
        assert dry.startswith("not in any current plan: 4 results, 0 groups, ")
        assert there == 8
        assert wet.splitlines()[1].startswith("removed: 4 results, 0 groups, ")
        assert len(list((store / "results").iterdir())) == 4
        assert "not in the manifest" not in cli("status", "--store", store)[1]

    def test_one_run(self, cli, store):
        """A run is shown with its settings, its attempts and its log; its first digits are enough."""
        rid = open_store(store).study("small").rids[0]
        code, out, _ = cli("status", rid[:6], "--store", store)
        table = json.loads(cli("status", rid, "--json", "--store", store)[1])

        assert code == 0
        for part in (f"run {rid}", "studies: small", "state: done", "[benchmark]", "attempt", "run_done", "from step"):
            assert part in out
        assert (table["run"], table["state"], table["groups"][0]["attempts"][0]["end"]) == (rid, "done", "done")

    def test_one_group(self, cli, manifest, tmp_path, monkeypatch):
        """A group that failed is shown with every attempt, the last traceback and its log."""

        def fail(*args, **rest):
            raise ZeroDivisionError("by zero")

        monkeypatch.setattr("contilab.runner.training.train", fail)
        cli("plan", manifest, "--store", tmp_path / "store")
        cli("run", "--store", tmp_path / "store")
        gid = open_store(tmp_path / "store").group_ids()[0]
        _, out, _ = cli("status", gid[:12], "--store", tmp_path / "store")

        assert "quarantined after attempt 3" in out
        assert out.count("ZeroDivisionError: by zero") >= 4
        assert "traceback of attempt 3:" in out
        assert "group_failed" in out

    def test_unknown(self, cli, store):
        """What is no study, group or run is told in one sentence: exit code 2."""
        code, out, err = cli("status", "smal", "--store", store)

        assert (code, out) == (2, "")
        assert "there is no such study, group or run" in err

    def test_watch_ends(self, cli, store):
        """Watching ends once nothing is left to do."""
        code, out, _ = cli("status", "--watch", "--store", store)

        assert code == 0
        assert out.count("8 of 8 runs have a result") == 1

    def test_watch(self, cli, manifest, tmp_path, monkeypatch):
        """Until then it looks again and again."""
        looks = []

        def sleep(seconds):
            looks.append(seconds)
            cli("cancel", "small", "--store", tmp_path / "store")

        cli("plan", manifest, "--store", tmp_path / "store")
        monkeypatch.setattr("contilab.cli.status.time.sleep", sleep)
        code, _, _ = cli("status", "--watch", "--store", tmp_path / "store")

        assert (code, looks) == (0, [2.0])

    def test_nothing_planned(self, cli, store):
        """A store without studies says how to plan one."""
        shutil.rmtree(store / "studies")
        code, out, _ = cli("status", "--store", store)

        assert code == 0
        assert "nothing is planned" in out

    def test_disagreement(self, cli, store):
        """Two attempts that disagree are named."""
        record = {"rid": "ab" * 32, "found": {"what": "acc"}}
        (store / "mismatch" / f"{'ab' * 32}-01234567.json").write_text(json.dumps(record))
        _, out, _ = cli("status", "--store", store)

        assert "two attempts disagree about run abababababab" in out


class TestCancelAndRetry:
    """contilab cancel, contilab retry."""

    def test_study(self, cli, manifest, tmp_path):
        """A cancelled study is not trained and is named with exit code 3; retried it is trained."""
        place = tmp_path / "store"
        cli("plan", manifest, "--store", place)
        _, cancelled, _ = cli("cancel", "small", "--store", place)
        code, out, err = cli("run", "--store", place)
        status = cli("status", "--store", place)[1]
        _, retried, _ = cli("retry", "small", "--store", place)

        assert cancelled.count("cancelled: group ") == 2
        assert "contilab retry small takes it back" in cancelled
        assert (code, "0 of 8 runs" in out, err.count("is cancelled")) == (3, True, 2)
        assert status.count("cancelled: group ") == 2
        assert retried.count("released: group ") == 2
        assert cli("run", "--store", place)[0] == 0

    def test_again(self, cli, store, manifest):
        """Where nothing is to be done, that is said: exit code 0."""
        assert cli("cancel", "small", "--store", store)[:2] == (0, "nothing to cancel: every run has a result\n")
        assert cli("retry", "--store", store)[:2] == (0, "nothing to retry\n")

    def test_run_is_refused(self, cli, store):
        """A run is not cancelled alone: its group is named, exit code 2."""
        opened = open_store(store)
        code, _, err = cli("cancel", opened.study("small").rids[0][:12], "--store", store)

        assert code == 2
        assert any(f"contilab cancel {gid[:12]}" in err for gid in opened.group_ids())

    def test_needed_by_another(self, cli, manifest, manifest_text, tmp_path):
        """Groups that another study needs are left alone and named; named themselves they are cancelled."""
        place = tmp_path / "store"
        cli("plan", manifest, "--store", place)
        manifest.write_text(manifest_text.replace('"small"', '"other"'))
        cli("plan", manifest, "--store", place)
        _, out, _ = cli("cancel", "small", "--store", place)
        gid = open_store(place).group_ids()[0]

        assert out.count("which other needs too") == 2
        assert f"cancelled: group {gid[:12]}" in cli("cancel", gid[:8], "--store", place)[1]
        assert f"cancelled before: group {gid[:12]}" in cli("cancel", gid[:8], "--store", place)[1]

    def test_damaged_result(self, cli, store):
        """A damaged result is moved aside and its run is trained again."""
        rid = open_store(store).study("small").rids[0]
        (store / "results" / rid / "record.jsonl").write_text("")
        code, out, err = cli("run", "--store", store)
        retried = cli("retry", rid[:12], "--store", store)[1]

        assert (code, "7 of 8 runs" in out, f"contilab retry {rid[:12]}" in err) == (3, True, True)
        assert f"moved aside: the unusable result of run {rid[:12]}" in retried
        assert cli("run", "--store", store)[0] == 0


class TestReport:
    """contilab report."""

    def test_into_the_store(self, cli, store, monkeypatch):
        """The report lies in the store and its path is printed; it needs no hard links, as a store does."""

        def refused(path, target):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

        monkeypatch.setattr(Path, "hardlink_to", refused)
        code, out, _ = cli("report", "small", "--store", store)

        assert code == 0
        assert out == f"report: {store / 'reports' / 'small' / 'report.html'}\n"
        assert (store / "reports" / "small" / "report.html").exists()

    def test_missing_runs(self, cli, manifest, tmp_path, monkeypatch):
        """A report of a study that is not done is written all the same, and says what is missing."""
        monkeypatch.setattr("contilab.report.write.find_spec", lambda _: None)
        cli("plan", manifest, "--store", tmp_path / "store")
        code, _, err = cli("report", "small", "--store", tmp_path / "store", "--out", tmp_path / "out")

        assert code == 0
        assert "8 runs have no result" in err
        assert "pip install" in err
        assert (tmp_path / "out" / "results.csv").exists()

    def test_unknown_study(self, cli, store):
        """An unknown study is named, with those that are there."""
        code, _, err = cli("report", "smal", "--store", store)

        assert code == 2
        assert "it has small" in err

    def test_into_a_file(self, cli, store):
        """A file where the folder of the report should be is the user's mistake, told before the report is made."""
        code, out, err = cli("report", "small", "--store", store, "--out", store / "format.json")

        assert (code, out) == (2, "")
        assert err == (
            f'error: --out: "{store / "format.json"}" is no folder\n\n'
            "hint: a report is a folder: name another one with --out DIR\n"
        )

    def test_file_in_the_store(self, cli, store):
        """Where no --out was given none is blamed: a file in the place of the report in the store is told as such."""
        place = store / "reports" / "small"
        place.parent.mkdir(exist_ok=True)
        place.write_text("")
        code, out, err = cli("report", "small", "--store", store)

        assert (code, out) == (2, "")
        assert err.startswith(f'error: report: "{place}" is no folder\n')

    def test_no_place(self, cli, store):
        """A folder that cannot be made or written is refused before the report is made."""
        code, out, err = cli("report", "small", "--store", store, "--out", "/proc/none")

        assert (code, out) == (4, "")
        assert err.startswith("error: /proc/none: the directory cannot hold a report: ")

    def test_baseline_and_all_pairs(self, cli, store):
        """Where all pairs are compared there is no baseline, and one that is named is not ignored silently."""
        code, out, err = cli("report", "small", "--store", store, "--baseline", "er", "--pairs", "all")

        assert (code, out) == (2, "")
        assert err.startswith("error: --baseline: with --pairs all ")

    def test_baseline_without_results(self, cli, manifest, tmp_path):
        """Before there is a result it is the results that lack, whatever the baseline is called."""
        cli("plan", manifest, "--store", tmp_path / "store")
        code, out, err = cli("report", "small", "--store", tmp_path / "store", "--baseline", "er")

        assert (code, out) == (2, "")
        assert err.startswith('error: --baseline: no run of "small" has a result yet, so nothing can be compared with "er"')


class TestSchema:
    """contilab schema."""

    def test_is_json(self, cli):
        """The schema of manifests is printed as JSON."""
        code, out, _ = cli("schema")

        assert code == 0
        assert json.loads(out)["$schema"].startswith("https://json-schema.org/")


class TestDoctor:
    """contilab doctor."""

    def test_machine(self, cli, tmp_path, monkeypatch):
        """Machine, limits, choices with reasons, and a place that can hold a store; it leaves nothing behind."""
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        code, out, _ = cli("doctor", "--store", tmp_path / "new")

        assert code == 0
        for part in ("torch kernels", "processor quota", "threads", "affinity", "device", "execution", "can hold a store"):
            assert part in out
        assert "a worker may take" in out
        assert not (tmp_path / "new").exists()

    def test_unusable_store(self, cli):
        """A place that cannot hold a store is told with the reason, exit code 4."""
        code, out, _ = cli("doctor", "--store", "/proc/none")

        assert code == 4
        assert "unusable: " in out

    def test_store_of_another_version(self, cli, store):
        """So is a store of an unknown format."""
        (store / "format.json").write_text('{"format": "contilab.store/99"}')

        assert cli("doctor", "--store", store)[0] == 4


class TestOptions:
    """What stands before the command."""

    def test_version(self, cli):
        """The version is printed."""
        code, out, _ = cli("--version")

        assert code == 0
        assert out.startswith("contilab ")

    @pytest.mark.parametrize("words", [(), ("--help",)])
    def test_help(self, cli, words):
        """Without a command the commands are shown."""
        _, out, err = cli(*words)

        for command in ("demo", "plan", "run", "status", "report", "list", "schema", "doctor"):
            assert command in out + err

    def test_unknown_option(self, cli):
        """An unknown option is a usage error."""
        code, _, err = cli("status", "--stor", "x")

        assert code == 2
        assert "--stor" in err

    def test_debug(self, cli, tmp_path, monkeypatch):
        """With --debug the traceback of an error is printed too."""
        monkeypatch.setenv("CONTILAB_DEBUG", "")

        assert "Traceback" in cli("--debug", "status", "--store", tmp_path / "none")[2]


class TestBench:
    """contilab bench."""

    QUICK = ("bench", "--model", "mlp", "--seconds", 0.001, "--repetitions", 1, "--batch", 8, "--compile", "off")

    @pytest.fixture(autouse=True)
    def _own_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        monkeypatch.delenv("CONTILAB_STORE", raising=False)
        monkeypatch.setattr("contilab.bench.bounds.SIZES", (64,))
        monkeypatch.setattr("contilab.bench.bounds.COPY_BYTES", 2**16)

    def test_json(self, cli, tmp_path):
        """The file holds machine, bounds, baseline and a row per execution and number of members, with its speed."""
        code, _, _ = cli(*self.QUICK, "--members", "1,2", "--precision", "fp32", "--json", tmp_path / "b.json")
        table = json.loads((tmp_path / "b.json").read_text())
        rows = [row for row in table["rows"] if "reason" not in row]

        assert code == 0
        assert table.keys() == {"machine", "bounds", "one_at_a_time", "rows"}
        assert {(row["execution"], row["members"]) for row in rows} >= {("loop", 1), ("loop", 2), ("vmap", 2)}
        assert all(row["samples_per_s"] > 0 and row["percent_of_gemm_bound"] > 0 for row in rows)

    def test_table(self, cli, tmp_path):
        """For people: the fastest form first, figures flush right, and where it is kept for `auto`."""
        _, out, _ = cli(*self.QUICK, "--members", 1, "--precision", "fp32")
        heads, *rows = [line for line in out.splitlines() if line.split()[:2] in (["members", "batch"], ["1", "8"])]

        assert {row.split()[2] for row in rows} >= {"loop", "vmap"}
        assert {len(row) for row in rows} == {len(heads)}
        assert str(tmp_path / "cache" / "hardware") in out

    def test_kept_in_a_store(self, cli, store):
        """With --store the first measurement stays, and the second says where it is."""
        words = (*self.QUICK, "--members", 1, "--precision", "fp32", "--store", store)
        cli(*words)
        [kept] = (store / "cache" / "hardware").iterdir()
        first = kept.read_bytes()
        _, out, _ = cli(*words)

        assert kept.read_bytes() == first
        assert f"an earlier measurement of this stays: {kept}" in out

    def test_json_for_a_program(self, cli):
        """With - as the file nothing but JSON is printed."""
        _, out, _ = cli(*self.QUICK, "--members", 1, "--precision", "fp32", "--json", "-")

        assert json.loads(out)["rows"]

    @pytest.mark.parametrize(
        "words",
        [("--members", "1,x"), ("--members", "0"), ("--model", "none"), ("--method", "none"), ("--precision", "fp8")],
    )
    def test_refused(self, cli, words):
        """Names and numbers that mean nothing are refused."""
        assert cli("bench", *words)[0] == 2

    @pytest.mark.parametrize("words", [("bench", "--json"), ("bench", "--plot"), ("profile", "m.toml", "--trace")])
    def test_nowhere_to_write(self, cli, words, tmp_path):
        """A file in a folder that is not there is refused before anything is measured."""
        code, out, err = cli(*words, tmp_path / "none" / "file.svg")

        assert (code, out) == (2, "")
        assert err.startswith(f'error: {words[-1]}: there is no folder "{tmp_path / "none"}"')


class TestDemo:
    """contilab demo, on a smaller manifest."""

    @pytest.fixture(autouse=True)
    def _smaller(self, tmp_path, manifest_text, monkeypatch):
        text = manifest_text.partition("[sweep]")[0].replace('"small"', '"demo"').replace('["naive", "er"]', '["joint", "er"]')
        (tmp_path / "demo.toml").write_text(text)
        monkeypatch.setattr("contilab.cli.demo.MANIFEST", tmp_path / "demo.toml")

    def test_table_and_report(self, cli, tmp_path):
        """It ends with a row per method, the reason of an absent value, and the path of the report, which is there."""
        code, out, _ = cli("demo", "--store", tmp_path / "store")
        words = [line.split()[0] for line in out.splitlines() if line]

        assert code == 0
        assert [word for word in words if word in ("joint", "er")] == ["joint", "er"]
        assert "n/a: forgetting of joint: " in out
        assert (tmp_path / "store" / "reports" / "demo" / "report.html").exists()
        assert f"report: {tmp_path / 'store' / 'reports' / 'demo' / 'report.html'}" in out

    def test_failure(self, cli, tmp_path, monkeypatch):
        """When training fails it says so and ends with the exit code of run."""

        def fail(*args, **rest):
            raise ZeroDivisionError("by zero")

        monkeypatch.setattr("contilab.runner.training.train", fail)
        monkeypatch.setattr("contilab.cli.demo.tempfile.mkdtemp", lambda prefix: str(tmp_path / prefix))
        code, _, err = cli("demo")

        assert code == 3
        assert "ZeroDivisionError: by zero" in err
