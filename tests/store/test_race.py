"""Claims about many runners on one store, as real processes."""

from functools import cache

import pytest


def race(workers, planned):
    """Let all *workers* work on the store at once and return what they did."""
    for worker in workers:
        worker.send(planned.root)
    return [worker.answer() for worker in workers]


@pytest.fixture(scope="module")
def eight(start_shared_worker):
    """Return a function that gives eight runner processes that are ready; each store is news to them."""

    @cache
    def start(*arguments):
        workers = [start_shared_worker("--pause", "0.05", *arguments) for _ in range(8)]
        for worker in workers:
            worker.wait_until_ready()
        return workers

    return start


class TestRace:
    """However many runners meet, one claims each generation and one publishes each run."""

    @pytest.mark.parametrize("place", ["disk", "memory"], indirect=True)
    @pytest.mark.parametrize("arguments", [(), ("--no-flock",)], ids=["flock", "no flock"])
    def test_one_group(self, plan, eight, check, arguments):
        """Eight processes, one group, 15 rounds: one claimant per generation, no gaps, one winner, all hashes right."""
        workers, wrongs = eight(*arguments), []
        for _ in range(15):
            planned = plan()
            wrongs += check(planned, race(workers, planned))

        assert wrongs == []

    @pytest.mark.parametrize("place", ["disk", "memory"], indirect=True)
    def test_many_groups(self, plan, eight, check):
        """Eight processes, 40 groups: each group is trained once, and no temp is left behind."""
        planned = plan(groups=40, members=2, ttl_s=20.0)

        answers = race(eight(), planned)

        assert check(planned, answers) == []
        assert sum(len(answer["claims"]) for answer in answers) == 40
        assert list(planned.root.rglob(".tmp-*")) == []

    @pytest.mark.parametrize("place", ["disk", "memory"], indirect=True)
    @pytest.mark.slow
    @pytest.mark.parametrize("arguments", [(), ("--no-flock",)], ids=["flock", "no flock"])
    def test_long(self, plan, eight, check, arguments):
        """The same over 200 rounds of one group and 100 groups at once."""
        workers, wrongs = eight(*arguments), []
        for planned in [*(plan() for _ in range(200)), plan(groups=100)]:
            wrongs += check(planned, race(workers, planned))

        assert wrongs == []
