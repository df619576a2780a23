"""Claims about who reads and who cleans up while others publish, as real processes (bazel#8327, bazel#17428)."""

import os

import pytest

from contilab.store.collect import collect
from contilab.store.result import altered, complete
from contilab.store.status import counts, study_status


@pytest.mark.slow
class TestReaders:
    """A missing entry is a miss, and no half one is ever read."""

    def test_while_four_publish(self, plan, start_worker, check, monkeypatch):
        """Whoever looks while four runners publish and another one collects sees whole results only, and nothing fails."""
        monkeypatch.setattr("contilab.store.collect.DAY_SECONDS", 1.0)
        planned = plan(groups=60, members=2, ttl_s=20.0)
        layout = planned.store.layout
        workers = [start_worker("--pause", "0.05") for _ in range(4)]
        for worker in workers:
            worker.wait_until_ready()
        for worker in workers:
            worker.send(planned.root)
        torn, looks, seen = [], 0, []
        while len(planned.store.results()) < len(planned.rids):
            looks += 1
            collect(planned.store)
            seen.append(counts(study_status(planned.store, planned.study)).get("done", 0))
            for rid in planned.store.taken():
                manifest = complete(layout.result(rid), rid)
                if manifest is None or altered(layout.result(rid), manifest):
                    torn.append(rid)
        answers = [worker.answer() for worker in workers]

        assert torn == []
        assert looks > 3
        assert seen == sorted(seen)
        assert check(planned, answers) == []

    def test_collected_working_directories(self, drained, monkeypatch):
        """What is collected is gone for readers too: no working directory stays, and the results are as they were."""
        before = drained.published()
        for path in drained.root.rglob("*"):
            os.utime(path, (0, 0))
        collect(drained.store)

        assert list(drained.root.glob("work/*/*")) == []
        assert drained.published() == before
