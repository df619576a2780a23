"""The scripts that measure: what they make of their numbers. What they measure is for a quiet machine, and run by hand."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from contilab.bench.rounds import Round, Rounds
from contilab.engine.choice.form import Form

HERE = Path(__file__).parent


@pytest.fixture
def script(monkeypatch):
    """Return a function that loads a script beside this file; the process is not set up for measuring."""
    monkeypatch.setattr("contilab.hardware.process.prepare", lambda: None)

    def load(name):
        spec = importlib.util.spec_from_file_location(f"{name}_script", HERE / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(autouse=True)
def _one_thread():
    """One thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class TestPeers:
    """Whole studies side by side."""

    def test_groups_one_after_the_other(self, script):
        """What of `run` is neither training nor evaluation of its groups is start-up."""
        groups = {"naive": {"training": 2.0, "evaluation": 1.0}, "er": {"training": 4.0, "evaluation": 1.0}}

        found = script("peers").divided({"plan": 1.0, "run": 10.0, "report": 3.0}, groups)

        assert found == {"plan": 1.0, "start-up": 2.0, "training": 6.0, "evaluation": 2.0, "report": 3.0}

    def test_groups_side_by_side(self, script):
        """Where two workers trained at once, the longest group counts, and the parts still add up to the whole."""
        groups = {"naive": {"training": 5.0, "evaluation": 1.0}, "er": {"training": 7.0, "evaluation": 1.0}}

        found = script("peers").divided({"plan": 1.0, "run": 10.0, "report": 3.0}, groups)

        assert found == {"plan": 1.0, "start-up": 2.0, "training": 7.0, "evaluation": 1.0, "report": 3.0}

    @pytest.mark.parametrize(("seeds", "ratio"), [(0, "7.00"), (2, "14.00")])
    def test_fewer_seeds_are_scaled(self, script, seeds, ratio):
        """Avalanche's processes are added up; where two of four seeds ran, their time counts twice, and the table says so."""
        peers = script("peers")
        own = [peers.Turn({"plan": 1.0, "run": whole - 1.0}, {"er": 0.8}, 0.0, "by batched") for whole in (9.0, 10.0, 99.0)]
        other = [peers.Turn({"er 0": 35.0}, {"er": 0.8}, 0.0)] * 2
        asked = type("Asked", (), {"seeds": 4, "avalanche_seeds": seeds, "turns": 3})

        lines = peers.summary({"contilab auto": [], "contilab fp32": own, "avalanche-lib": other}, asked, "fp32")

        assert any(f"{ratio} times contilab" in line for line in lines)
        assert any("2 of 4 seeds" in line for line in lines) == bool(seeds)
        assert ("FAILS" in lines[2]) == (not seeds)

    @pytest.mark.parametrize("method", ["naive", "er"])
    def test_loop_by_hand_learns(self, script, method):
        """The loop by hand tells two tasks of clear classes apart, er all four; naive forgets the first two."""
        torch.manual_seed(0)
        means = 3 * torch.randn(4, 12)

        def task(first):
            rows = first + torch.arange(640) % 2
            return means[rows] + torch.randn(640, 12), rows

        found = script("by_hand").accuracy(method, 0, [task(0), task(2)], [task(0), task(2)])

        assert (found > 0.9) == (method == "er")


class TestAuto:
    """Choices of `auto` case by case."""

    def told(self, **changed):
        """Return what a case left that passes but for what is *changed*."""
        case = {
            "model": "mlp",
            "members": 8,
            "batch": 10,
            "compile": "on",
            "precision": "auto",
            "stored": "batched fp32",
            "stored_share": 0.91,
        }
        trial = {"tried": ["loop fp32"], "tried_shares": [0.86], "trial_seconds": [4.0], "first_step_seconds": [1.5]}
        return {**case, **trial, "foreign_cores": 0.0, **changed}

    @pytest.mark.parametrize(
        ("changed", "fault"),
        [
            ({}, ""),
            ({"stored_share": 0.89}, "profile"),
            ({"tried_shares": [0.84]}, "trial"),
            ({"trial_seconds": [4.6]}, "time"),
        ],
    )
    def test_what_fails(self, script, changed, fault):
        """A case names the claim that it breaks."""
        text, passes = script("auto").line(self.told(**changed))

        assert passes == (not fault)
        assert (f"FAILS: {fault}" in text) == bool(fault)

    def test_cases_are_kept(self, script, tmp_path, monkeypatch, capsys):
        """A case that the file tells of is told, not measured again; one for which there is no time is counted."""
        path = tmp_path / "choices.jsonl"
        path.write_text(json.dumps(self.told()) + "\n")
        words = ["auto.py", "--json", str(path), "--model", "mlp", "--members", "8", "--batch", "10,32", "--minutes", "0.01"]
        monkeypatch.setattr(sys, "argv", words)
        script("auto").main()

        assert "1 of 1 cases pass; 1 are still to be measured" in capsys.readouterr().out

    def test_first_steps_are_not_charged(self, script, monkeypatch):
        """What `auto` takes without a profile is told beside the building and first steps of the forms it tried."""
        auto = script("auto")
        monkeypatch.setattr("contilab.engine.choice.trial.MOST_SECONDS", 0.1)
        small = auto.Plugin(name="mlp", settings={"hidden": [8]})
        form, seconds, first = auto.chosen(auto.group(small, members=1, batch=4), auto.Profiles())

        assert form.compile == "off"
        assert 0 < first < seconds


class TestResnet:
    """Members in one process and split over several."""

    def test_ratios(self, script):
        """Each is the median over rounds of the best form of its kind, in fp32."""
        loop, vmap, bf16 = Form("loop"), Form("vmap"), Form("loop", "bf16")
        speeds = {"alone": 1.0, "shared": 1.5, loop: 2.0, vmap: 1.0, bf16: 9.0, ("split", loop): 3.0, ("split", bf16): 9.0}
        found = Rounds(tuple(Round({name: pace * value for name, value in speeds.items()}, 0.0) for pace in (1, 2, 5)), 0, {})

        ratios = script("resnet").ratios(found)

        assert ratios == {
            "one model alone": (loop, 2.0),
            "vmap": (loop, 2.0),
            "threads within operations": (("split", loop), 2.0),
        }

    @pytest.mark.parametrize(("precision", "forms", "told"), [("fp32", 1, 3), ("bf16", 1, 0), ("both", 2, 3)])
    def test_precisions(self, script, precision, forms, told):
        """`both` measures each form in both, and ratios are of fp32; where it was not measured there is none."""
        resnet = script("resnet")
        measured = resnet.TABLE.forms(resnet.TABLE.eager, resnet.precisions(precision), ["off"])
        names = ["alone", "shared", *measured, *(("split", form) for form in measured)]
        ratios = resnet.ratios(Rounds((Round(dict.fromkeys(names, 2.0), 0.0),), 0, {}))

        assert len(measured) == forms * len(resnet.TABLE.eager)
        assert len(ratios) == told
        assert all(resnet.form_of(over).precision == "fp32" and ratio == 1.0 for over, ratio in ratios.values())

    def test_a_contender_that_failed(self, script):
        """Ratios against a form that could not be measured are left out, the others stay."""
        loop = Form("loop")
        found = Rounds(
            (Round({"alone": 1.0, "shared": 1.5, loop: 2.0, ("split", loop): 3.0}, 0.0),), 0, {Form("vmap"): "it is too large"}
        )

        assert script("resnet").ratios(found).keys() == {"one model alone", "threads within operations"}


class TestScaling:
    """Twice the members, twice the tasks."""

    def test_a_small_case(self, script, capsys):
        """A method that needs a memory and ends tasks is trained in all three shapes, and told in one line."""
        scaling = script("scaling")
        words = [
            "--seconds",
            "0",
            "--turns",
            "1",
            "--steps",
            "2",
            "--batch",
            "4",
            "--width",
            "6",
            "--hidden",
            "4",
            "--memory",
            "8",
        ]
        scaling.check(scaling.Case("agem"), scaling.arguments(words))

        assert capsys.readouterr().out.startswith("agem ")

    @pytest.mark.parametrize(("speed", "passes"), [(0.89, False), (0.91, True)])
    def test_the_last_task(self, script, speed, passes):
        """Its speed counts against that of the second; a dear second task is no growth, since the first is counted like it."""
        scaling = script("scaling")
        short = scaling.Trained(9.0, 1.0, [10.0, 5.0, 5.0, 5.0, 5.0], 10, "loop")
        wide = short._replace(seconds=19.0)
        long = scaling.Trained(20.5, 1.0, [10.0, *[5.0] * 8, 5.0 * speed], 10, "loop")

        assert scaling.verdict(scaling.Case("ewc"), [(short, wide, long)])[1] == passes

    def test_filling_memory(self, script):
        """Where memory fills until the end, the last task may be slower."""
        case = script("scaling").Case

        assert (case("er").least, case("er", fills=True).least) == (0.9, 0.75)


class TestRecording:
    """What records cost."""

    @pytest.mark.parametrize(("recording", "passes"), [(7.8, True), (8.0, False)])
    def test_the_share_of_records(self, script, recording, passes):
        """Passes that a schedule asks for do not count; medians decide, of `extended` alone; slower training is told."""
        module = script("recording")
        core, full = (module.Recorded(3.0, seconds, 0.0, 0.1, 10**6, 0) for seconds in (0.5, 9.0))
        own = [module.Recorded(3.4, seconds, 6.8, 0.1, 10**6, 0) for seconds in (recording, recording, 99.0)]

        lines, found = module.verdict([{"core": core, "extended": one, "full": full} for one in own])

        assert found == passes
        assert [("FAILS" in line) for line in lines] == [False, not passes, False]
        assert ("8.9 % of the run (12.5)" in lines[1]) == passes

    def test_a_small_case(self, script, monkeypatch, capsys):
        """All tiers are trained and told, each in one line, with passes in its recording, and what is kept has bytes."""
        module = script("recording")
        monkeypatch.setattr(module, "thread_budget", lambda: type("One", (), {"count": 1}))
        words = ["--benchmark", "split_digits", "--hidden", "4", "--steps", "2", "--turns", "1", "--execution", "loop"]
        module.main(words)
        found = module.recorded("full", module.arguments(words))
        *lines, last = capsys.readouterr().out.splitlines()

        assert [line.partition("  ")[0] for line in lines] == [*module.TIERS]
        assert "kept   0.00 MB" not in lines[-1]
        assert 0 < found.passes < found.recording
        assert "1 x MLP 2x4, naive, split_digits" in last
