"""How long work takes, by what bench measured, and how sure that is."""

import pytest

from contilab.hardware.profile import Answer, Rate
from contilab.plan.speed import UNKNOWN, Work, known, known_of, time

RATE = Rate("vmap", "fp32", "off", 1, 2, 1000.0, 0.1, member_bytes=7)
SLOW = RATE._replace(execution="loop", samples_per_s=10.0)
WORK = Work("mlp", {"hidden": [400]}, 784, 32, 8, samples=5000, flops=5000 * 6, flops_per_sample=6)


def measured(flops_per_sample=6.0, speed=1000.0, **changes):
    """Return what bench measured of one shape, that of WORK unless changed."""
    shape = {"model": "mlp", "settings": {"hidden": [400]}, "features": 784, "batch": 32, "members": 8, **changes}
    rates = (SLOW, RATE._replace(samples_per_s=speed))
    return shape, Answer(rates, "bench", "2026-01-01T00:00:00+00:00", 0.0, flops_per_sample)


class TestTime:
    """Seconds, and what they rest on."""

    def test_measured(self):
        """Work of a shape that was measured takes its samples by the fastest rate, and that is sure."""
        seconds, basis = time([WORK, WORK], known([measured()]))

        assert seconds == 10
        assert basis.startswith("sure: ")

    @pytest.mark.parametrize("change", [{"batch": 10}, {"members": 4}, {"features": 64}, {"settings": {"hidden": [8]}}])
    def test_another_shape(self, change):
        """Another batch, number of members, input or setting is another shape: only roughly known."""
        seconds, basis = time([WORK], known([measured(**change)]))

        assert seconds == 5
        assert basis.startswith("rough: ")

    def test_nearly_as_many_members(self):
        """Nearly as many members are taken to be as fast, which is a little less sure; the number itself goes first."""
        near, exact = measured(members=6, speed=500.0), measured()
        seconds, basis = time([WORK, WORK], known([near]))

        assert seconds == 20
        assert basis.startswith("nearly sure: bench measured all of these shapes here; 6 members in place of 8; ")
        assert time([WORK, WORK], known([near, exact])) == time([WORK, WORK], known([exact]))

    def test_another_model(self):
        """Of another model the operations per second are taken: twice the arithmetic, twice the time."""
        assert time([WORK], known([measured(model="net", flops_per_sample=3.0)])).seconds == 10

    def test_the_most_similar(self):
        """The same model comes before another one, and the nearest batch and number of members before farther ones."""
        answers = [
            measured(model="net", flops_per_sample=6.0, speed=1.0),
            measured(batch=512, speed=2.0),
            measured(batch=64, speed=2500.0),
        ]

        assert time([WORK], known(answers)).seconds == 2

    def test_without_arithmetic(self):
        """Answers of earlier versions, which lack the arithmetic of a sample, tell of their own shape and of no other."""
        old, of_a_net = measured(flops_per_sample=0.0, batch=10), measured(model="net", flops_per_sample=3.0)
        small = WORK._replace(batch=10)

        assert time([small], known([old])).seconds == 5
        assert time([WORK], known([old])) == time([small, WORK], known([old])) == (None, UNKNOWN)
        assert time([WORK], known([old, of_a_net])).seconds == 10

    def test_partly(self):
        """The share of the operations whose shapes were measured is told."""
        seconds, basis = time([WORK, WORK._replace(batch=10, flops=WORK.flops * 3)], known([measured()]))

        assert seconds == 10
        assert basis.startswith("fair: ")
        assert "25%" in basis

    @pytest.mark.parametrize(("works", "answers"), [([WORK], []), ([], [measured()])])
    def test_unknown(self, works, answers):
        """Where nothing was measured, or nothing is to be done, no time is told."""
        assert time(works, known(answers)) == (None, UNKNOWN)

    def test_rate(self):
        """The rate of a shape is its fastest one, on a processor or a GPU."""
        both = [measured(speed=500.0, device="cpu"), measured(device="cuda")]

        assert known_of(WORK, known(both)).rate == known_of(WORK, known(both[::-1])).rate == RATE
        assert known_of(WORK, known([measured(batch=1)])) is None
