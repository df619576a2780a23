"""Where the time of a step goes: a trace, a table, and the cost of parts by leaving them out."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from contilab import catalog
from contilab.bench.anatomy import _timed, _without_update, anatomy
from contilab.bench.noise import group
from contilab.bench.profiler import profiled
from contilab.engine.choice.pace import Lap, Pace
from contilab.engine.environment import EXECUTIONS
from contilab.engine.setup import initial_members
from contilab.spec.sections import Plugin

SMALL = Plugin(name="mlp", settings={"hidden": [8]})


@pytest.fixture(autouse=True)
def _one_thread():
    """One thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class TestAnatomy:
    """Parts of a step."""

    def test_parts(self):
        """Draws, update and method each have a cost; with naive there is no method to leave out."""
        found = anatomy(group(SMALL, members=2, batch=4, method="er"), EXECUTIONS["loop"], steps=1, turns=1)
        plain = anatomy(group(SMALL, members=2, batch=4), EXECUTIONS["loop"], steps=1, turns=1)

        assert {part.name.split()[0] for part in found.parts} == {"draws", "update", "the"}
        assert {part.name.split()[0] for part in plain.parts} == {"draws", "update"}
        assert all(part.share == pytest.approx(part.seconds / found.step_seconds) for part in found.parts)

    @pytest.mark.parametrize("way", ["loop", "batched"])
    def test_without_update(self, way):
        """An update that is left out is not done, in whatever form an optimiser offers it."""
        adam = catalog.entry("optim", "adam")
        setup = group(SMALL, members=2, batch=4)
        learner = _without_update(setup.learner._replace(optimiser=adam.make(adam.settings())))
        pace = Pace(setup._replace(learner=learner), EXECUTIONS[way])
        before = initial_members(setup)[1].params["head.weight"]
        pace.lap(2)

        assert torch.equal(pace._execution.scatter(pace._ensemble)[1].params["head.weight"], before)

    def test_steps_of_an_epoch_that_ends(self):
        """As many steps are trained as are asked for, in the chunks of training."""
        laps = []
        pace = type("Short", (), {"lap": lambda _self, limit: laps.append(min(limit, 3)) or Lap(laps[-1], 1, 0.5, 0.0)})()

        assert _timed(pace, 7)() == 1.5 / 7
        assert laps == [3, 3, 1]

    def test_clipping(self):
        """With clipping, that is a part too."""
        setup = group(SMALL, members=1, batch=4)
        clipped = setup.learner._replace(optimiser=setup.learner.optimiser._replace(clip_norm=1.0))

        assert "clipping" in {part.name for part in anatomy(setup._replace(learner=clipped), EXECUTIONS["loop"], 1, 1).parts}

    def test_what_is_left_out_is_not_done(self):
        """Without draws a form trains by the same samples again; the whole one by others."""
        setup = group(SMALL, members=1, batch=4)
        seen = {}
        for once in (True, False):
            pace = Pace(setup, EXECUTIONS["loop"], draws_once=once)
            chunks = [setup.stages[0].schedule.chunk(step, 1) for step in range(2)]
            seen[once] = [pace._drawn(chunk).current.tolist() for chunk in chunks]

        assert seen[True][0] == seen[True][1] == seen[False][0]
        assert seen[False][0] != seen[False][1]


class TestProfiled:
    """torch.profiler."""

    def test_operations_of_every_thread(self, tmp_path):
        """Members that train in threads of their own are in the table too."""

        def elsewhere(learner):
            execution = EXECUTIONS["loop"](learner)

            def train(*arguments):
                with ThreadPoolExecutor(1) as thread:
                    return thread.submit(execution.train, *arguments).result()

            return execution._replace(train=train)

        table = profiled(Pace(group(SMALL, members=1, batch=4), elsewhere), tmp_path / "trace.json")

        assert "aten::addmm" in table

    def test_trace_and_table(self, tmp_path):
        """The trace holds five steps and the products of matrices; the table names the operations."""
        pace = Pace(group(SMALL, members=1, batch=4), EXECUTIONS["loop"])
        table = profiled(pace, tmp_path / "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        steps = {event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}

        assert steps == {f"ProfilerStep#{step}" for step in range(25, 30)}
        assert "aten::addmm" in table
