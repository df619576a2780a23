"""How many processes train the most, by what bench measured."""

import pytest

from contilab.hardware.crew import workers
from contilab.hardware.profile import Answer, Rate

MLP, NET = {"hidden": [400, 400]}, {"channels": 8}


def answer(model, settings, *, alone, together, batch=32, members=8, processes=2, device="cpu"):
    """Return what bench measured of one shape."""
    rates = (
        Rate("loop", "fp32", "off", 2, 1, alone / 2, 0.0),
        Rate("vmap", "fp32", "off", 2, 1, alone, 0.0),
        Rate("loop", "fp32", "off", 1, processes, together, 0.0),
    )
    shape = {"device": device, "model": model, "settings": settings, "batch": batch, "members": members}
    return shape, Answer(rates, "bench", "2026-01-01T00:00:00+00:00", 0.0)


WANTED = [("mlp", MLP, 32, 8)]


class TestWorkers:
    """One process with all threads, or one per core."""

    @pytest.mark.parametrize(("together", "count"), [(120.0, 2), (90.0, 1)])
    def test_the_faster(self, together, count):
        """The fastest form of each is compared, not that of a GPU, and the reason names the factor."""
        on_gpu = answer("mlp", MLP, alone=100.0, together=100.0, device="cuda")
        found = workers([answer("mlp", MLP, alone=100.0, together=together), on_gpu], WANTED, 2)

        assert found.workers == count
        assert f"{together / 100:.2f} times" in found.reason

    def test_several_shapes(self):
        """Gains of several shapes are averaged as factors, each shape once."""
        answers = [answer("mlp", MLP, alone=100, together=200), answer("net", NET, alone=100, together=40)]

        assert workers(answers, [*WANTED, ("net", NET, 32, 8)], 2).workers == 1
        assert workers(answers, [*WANTED, *WANTED, ("net", NET, 64, 8)], 2).workers == 2

    def test_nearly_as_many_members(self):
        """Nearly as many members stand for those that were not measured, are counted once, and are told."""
        answers = [
            answer("mlp", MLP, alone=100, together=speed, members=members) for members, speed in ((2, 900), (4, 25), (8, 100))
        ]
        found = workers(answers, [("mlp", MLP, 32, members) for members in (3, 5, 4, 7)], 2)

        assert found.workers == 1
        assert "0.50 times" in found.reason
        assert found.reason.endswith(", 4 members in place of 3, 4 members in place of 5, 8 members in place of 7")

    def test_the_nearest_that_tells(self):
        """An answer that knows one process only does not hide the next one, which knows both."""
        shape, alone = answer("mlp", MLP, alone=100, together=100, members=6)
        answers = [(shape, alone._replace(rates=alone.rates[:2])), answer("mlp", MLP, alone=100, together=150)]
        found = workers(answers, [("mlp", MLP, 32, 6)], 2)

        assert found.reason.endswith("1.50 times the samples/s of one, 8 members in place of 6")

    @pytest.mark.parametrize(("count", "gain"), [(4, 2.0), (3, 1.5), (2, None)])
    def test_fewer_processes(self, count, gain):
        """Fewer processes than were measured reach their share, if each has as many threads; otherwise nothing is known."""
        shape, measured = answer("mlp", MLP, alone=100, together=200, processes=4)
        rates = tuple(rate._replace(threads=4 if rate.processes == 1 else 1) for rate in measured.rates)
        found = workers([(shape, measured._replace(rates=rates))], WANTED, count)

        assert found is None if gain is None else f"{gain:.2f} times" in found.reason

    @pytest.mark.parametrize(
        ("wanted", "count"),
        [(WANTED, 4), ([("mlp", MLP, 10, 8)], 2), ([("mlp", MLP, 32, 4)], 2), ([("mlp", {"hidden": [8]}, 32, 8)], 2), ([], 2)],
    )
    def test_nothing_measured(self, wanted, count):
        """Other shapes or another number of processes are no answer."""
        assert workers([answer("mlp", MLP, alone=100, together=120)], wanted, count) is None
