"""Claims about one attempt: how it publishes and how it ends."""

import errno

import pytest

from contilab.errors import EnvironmentFault, UsageError
from contilab.store.claimer import Idle
from contilab.store.result import complete


class TestPublish:
    """Results are written once."""

    def test_done(self, plan, claimer, finish):
        """All results arrive, `.end done` is written, nothing stays in the working directory but the beat."""
        planned = plan(members=2)
        claim = claimer(planned).claim_next()

        done = finish(claim)

        assert sorted(done.landed) == sorted(planned.rids)
        assert planned.end() == {"kind": "done", "runner": "one"}
        assert sorted(path.name for path in claim.work_dir.rglob("*")) == ["beat", "out"]

    def test_in_parts(self, plan, claimer):
        """Runs may be published one after the other; the attempt is done with the last."""
        planned = plan(members=2)
        with claimer(planned).claim_next() as claim:
            for rid in claim.rids:
                claim.put_files(rid, {"numbers": b"1"})
            claim.publish({claim.rids[0]: "finished"}, frozenset())
            ends = [planned.store.layout.end(claim.gid, 1).exists()]
            claim.publish({claim.rids[1]: "diverged"}, frozenset())
            ends.append(planned.store.layout.end(claim.gid, 1).exists())

        assert ends == [False, True]
        assert [complete(planned.store.result_dir(rid), rid).state for rid in claim.rids] == ["finished", "diverged"]

    def test_superseded(self, plan, claimer, finish):
        """An owner that was followed publishes nothing, keeps its output in late/ and says so in its `.end`."""
        planned = plan()
        late = claimer(planned).claim_next()
        planned.store.layout.claim(planned.gids[0], 2).write_text("{}")

        done = finish(late)

        assert done.is_superseded
        assert planned.store.taken() == set()
        assert planned.end()["kind"] == "superseded"
        assert (late.work_dir / "late" / planned.rids[0] / "numbers").exists()

    def test_collected(self, plan, claimer, tmp_path):
        """An owner whose working directory was collected is superseded, and notices it with its next beat."""
        planned = plan()
        late = claimer(planned).claim_next()
        late.put_files(planned.rids[0], {"numbers": b"1"})
        late.work_dir.rename(tmp_path / "collected")
        late._heartbeat._beat()

        done = late.publish({planned.rids[0]: "finished"}, frozenset())

        assert late.is_superseded()
        assert done.is_superseded

    def test_collected_past_the_fence(self, plan, claimer, tmp_path, monkeypatch):
        """Collected between fence and rename, it is superseded all the same."""
        planned = plan()
        late = claimer(planned).claim_next()
        late.put_files(planned.rids[0], {"numbers": b"1"})
        place = "publish.fenced"
        monkeypatch.setattr(
            "contilab.store.claim.failpoint", lambda name: name == place and late.work_dir.rename(tmp_path / "collected")
        )

        assert late.publish({planned.rids[0]: "finished"}, frozenset()).is_superseded

    def test_output_missing(self, plan, claimer):
        """Publishing a run that was not built is an error, never an empty result."""
        planned = plan()
        with claimer(planned).claim_next() as claim, pytest.raises(FileNotFoundError):
            claim.publish({planned.rids[0]: "finished"}, frozenset())

        assert planned.store.taken() == set()


class TestEnd:
    """An attempt tells how it ended, once."""

    def test_failed(self, plan, claimer):
        """An exception is kept with class, text and traceback, and the group may be tried again."""
        planned = plan()
        claim = claimer(planned).claim_next()
        with pytest.raises(ValueError, match="too much") as raised:
            int("3 is too much")
        claim.fail(raised.value)

        assert planned.end()["kind"] == "failed"
        assert (planned.end()["class"], planned.end()["text"]) == ("ValueError", str(raised.value))
        assert planned.end()["traceback"].endswith(f"ValueError: {raised.value}\n")
        with claimer(planned).claim_next() as second:
            assert second.n == 2

    def test_refused_configuration(self, plan, claimer):
        """A configuration that the code refuses ends the group at once: no other attempt could succeed."""
        planned = plan()

        claimer(planned).claim_next().fail(UsageError("memory", "too small"))

        assert planned.end()["kind"] == "failed-final"
        assert claimer(planned).claim_next() == Idle(quarantined=planned.gids)

    @pytest.mark.parametrize(
        ("error", "name"),
        [
            (OSError(errno.ENOSPC, "full", "/s/x"), "OSError"),
            (EnvironmentFault("gpu", "lost"), "contilab.errors.EnvironmentFault"),
        ],
    )
    def test_machine(self, plan, claimer, error, name):
        """A fault of the machine is not a failure of the group."""
        planned = plan()

        claimer(planned).claim_next().fail(error)

        assert (planned.end()["kind"], planned.end()["class"]) == ("env", name)

    def test_text_that_is_no_unicode(self, plan, claimer):
        """A message with a file name that is not UTF-8 can be kept."""
        planned = plan()

        claimer(planned).claim_next().fail(RuntimeError("bad name \udcff"))

        assert planned.end()["text"] == "bad name \\udcff"

    def test_first_end_stays(self, plan, claimer):
        """A second end changes nothing."""
        planned = plan()
        claim = claimer(planned).claim_next()
        claim.end("released")
        claim.end("failed")

        assert planned.end()["kind"] == "released"

    def test_unknown_kind(self, plan, claimer):
        """Only the kinds of the protocol can be written."""
        planned = plan()
        with claimer(planned).claim_next() as claim, pytest.raises(ValueError, match="done, released, superseded"):
            claim.end("finished")
