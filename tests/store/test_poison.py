"""Claims about a group that ends every process that trains it, as real processes."""

import signal

import pytest

from contilab.store.retry import retry

PLACE = "disk"  # unless a test says otherwise


class TestPoison:
    """A bad group takes three attempts down, not the study."""

    @pytest.mark.parametrize("how", ["KILL", "RAISE"])
    def test_others_finish(self, plan, start_worker, check, how):
        """It is quarantined after three attempts, whoever made them; the others finish; a retry lets it run again."""
        planned = plan(groups=5, ttl_s=20.0)
        poison, deaths = planned.gids[2], 0
        for _ in range(5):
            worker = start_worker("--pause", "0.05", "--poison", f"{poison}:{how}")
            worker.wait_until_ready()
            worker.send(planned.root)
            line = worker.process.stdout.readline()
            if how == "KILL" and not line:
                deaths += 1
                assert worker.process.wait() == -signal.SIGKILL
                continue
            if planned.store.layout.quarantine(poison, 3).exists():
                break
        healthy = start_worker("--pause", "0.05")
        healthy.wait_until_ready()
        healthy.send(planned.root)
        blocked = healthy.answer()
        missing = set(planned.rids) - planned.store.results()
        retry(planned.store, None)
        healthy.send(planned.root)
        last = healthy.answer()

        assert deaths == (3 if how == "KILL" else 0)
        assert blocked["quarantined"] == [poison]
        assert missing == set(planned.store.group(poison))
        assert [(claim["gid"], claim["n"]) for claim in last["claims"]] == [(poison, 5)]
        assert check(planned, [last], all_told=False) == []
