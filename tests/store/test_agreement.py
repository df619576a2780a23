"""Claims about two attempts at one run."""

import json

import pytest

from contilab.store.claimer import Claimer

SAME = {"torch": "2.6", "device": "cpu", "members": "x"}
OTHER = {**SAME, "members": "y"}


@pytest.fixture
def overlap(plan):
    """Let two groups that share a run be trained at once; the second result of the shared run is given."""
    planned = plan(members=2)
    shared = planned.rids[0]
    planned.store.add_groups([[shared]])

    def publish(*, numbers=b"1", circumstances=SAME, acc=0.9, state="finished", kept=None):
        claims = [Claimer(planned.store, runner=name, versions={}).claim_next() for name in "ab"]
        for claim in claims:
            for rid in claim.rids:
                is_late = claim is claims[1]
                claim.put_files(rid, {"numbers": numbers if is_late else b"1", "log": claim.runner.encode()})
        first = {"circumstances": SAME, "acc": dict.fromkeys(claims[0].rids, 0.9)}
        claims[0].publish(dict.fromkeys(claims[0].rids, "finished"), frozenset({"numbers"}), **first)
        if kept is not None:
            kept(planned.store.result_dir(shared))
        second = {"circumstances": circumstances, "acc": dict.fromkeys(claims[1].rids, acc)}
        done = claims[1].publish(dict.fromkeys(claims[1].rids, state), frozenset({"numbers"}), **second)
        return planned, claims[1], done

    return publish


class TestAgreement:
    """A second result never replaces the first; a disagreement is kept and named."""

    @pytest.mark.parametrize(
        "second",
        [
            {},
            {"circumstances": OTHER, "numbers": b"2"},
            {"circumstances": OTHER, "numbers": b"2", "acc": 0.86},
            {"circumstances": OTHER, "numbers": b"2", "acc": None},
            {"circumstances": {}, "numbers": b"2"},
        ],
        ids=["equal", "other members", "acc within 0.05", "no acc", "unknown circumstances"],
    )
    def test_agree(self, overlap, second):
        """Equal numbers in equal circumstances, or near accuracy in others, agree; the second output is dropped."""
        planned, claim, done = overlap(**second)
        shared = planned.rids[0]

        assert (done.late, done.mismatched) == ((shared,), ())
        assert planned.store.mismatches() == []
        assert planned.store.results() == {shared, *claim.rids} | set(done.landed) | (
            set() if planned.rids[1] in claim.rids else {planned.rids[1]}
        )
        assert not (claim.work_dir / "out" / shared).exists()

    @pytest.mark.parametrize(
        ("second", "found"),
        [
            ({"numbers": b"2"}, {"what": "files", "names": ["numbers"]}),
            ({"circumstances": OTHER, "acc": 0.8}, {"what": "acc", "kept": 0.9, "late": 0.8}),
            ({"state": "diverged", "acc": None}, {"what": "state", "kept": "finished", "late": "diverged"}),
        ],
        ids=["files", "acc", "state"],
    )
    def test_disagree(self, overlap, second, found):
        """Otherwise the record names both attempts and what differs, and the second output is kept in late/."""
        planned, claim, done = overlap(**second)
        shared = planned.rids[0]
        (record,) = planned.store.mismatches()

        assert done.mismatched == (shared,)
        assert (record["rid"], record["found"]) == (shared, found)
        assert (record["kept"]["runner"], record["late"]["runner"]) == ("a", "b")
        assert (claim.work_dir / "late" / shared / "log").read_bytes() == b"b"
        assert (planned.store.result_dir(shared) / "log").read_bytes() == b"a"

    def test_kept_is_damaged(self, overlap):
        """With a damaged first result nothing can be compared: the second output is kept, the first stays damaged."""
        planned, claim, done = overlap(kept=lambda directory: (directory / "numbers").unlink())
        shared = planned.rids[0]

        assert (done.late, done.mismatched) == ((shared,), ())
        assert not planned.store.has_result(shared)
        assert json.loads((claim.work_dir / "late" / shared / "MANIFEST.json").read_bytes())["rid"] == shared
