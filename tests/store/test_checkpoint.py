"""Claims about checkpoints: where the next attempt starts, and what is never used."""

import errno
import json
import shutil

import pytest

from contilab.disk.publish import MANIFEST
from contilab.disk.sync import write_synced
from contilab.store.checkpoint import newest

FILES = {"state": b"at nine", "weights": bytes(range(200))}


def flip(path):
    """Change one byte of *path*."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES = {
    "cut to 0": lambda directory: (directory / "weights").write_bytes(b""),
    "cut to half": lambda directory: (directory / "weights").write_bytes(FILES["weights"][:100]),
    "byte flipped": lambda directory: flip(directory / "weights"),
    "no manifest": lambda directory: (directory / MANIFEST).unlink(),
    "manifest cut to half": lambda directory: (directory / MANIFEST).write_bytes((directory / MANIFEST).read_bytes()[:90]),
    "file removed": lambda directory: (directory / "weights").unlink(),
    "of another step": lambda directory: (
        shutil.copytree(directory, directory.with_name("ckpt-99")),
        shutil.rmtree(directory),
    ),
}


def content(directory):
    """Return every file below *directory* with its bytes, but for beats and manifests."""
    skipped = ("beat", MANIFEST)
    files = (path for path in directory.rglob("*") if path.is_file() and path.name not in skipped)
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.fixture
def failing(monkeypatch):
    """Let the next writes of checkpoint files fail, as often as told; return how many are left to fail."""
    left = [0]

    def write(path, data):
        if left[0]:
            left[0] -= 1
            path.write_bytes(data[:1])  # what a failed fsync may leave
            raise OSError(errno.EIO, "Input/output error", str(path))
        write_synced(path, data)

    monkeypatch.setattr("contilab.store.checkpoint.write_synced", write)
    monkeypatch.setattr("contilab.store.checkpoint.PAUSE_SECONDS", 0.0)
    return left


class TestSave:
    """A checkpoint arrives complete, by one rename, in the directory of its attempt."""

    def test_complete(self, plan, claimer):
        """It holds what was given, with group, step and all hashes in its manifest, and no temp stays."""
        planned = plan()
        with claimer(planned).claim_next() as claim:
            claim.save_checkpoint(9, FILES)
            directory = planned.store.layout.checkpoint(claim.gid, 1, 9)
            manifest = json.loads((directory / MANIFEST).read_bytes())

        assert content(directory) == FILES
        assert (manifest["gid"], manifest["step"], manifest["n"], manifest["runner"]) == (claim.gid, 9, 1, "one")
        assert manifest["files"].keys() == FILES.keys()
        assert sorted(path.name for path in claim.work_dir.iterdir()) == ["beat", "ckpt-9"]

    def test_the_two_newest_stay(self, plan, claimer):
        """Older ones of the attempt are removed, so that a long run does not fill the disk."""
        with claimer(plan()).claim_next() as claim:
            for step in (1, 2, 30, 4):
                claim.save_checkpoint(step, FILES)

            assert sorted(path.name for path in claim.work_dir.glob("ckpt-*")) == ["ckpt-30", "ckpt-4"]

    def test_same_step_twice(self, plan, claimer):
        """A second one at the same step leaves the first as it is, and nothing besides."""
        with claimer(plan()).claim_next() as claim:
            claim.save_checkpoint(9, FILES)
            claim.save_checkpoint(9, {"state": b"other"})

            assert claim.checkpoint().files == FILES
            assert sorted(path.name for path in claim.work_dir.iterdir()) == ["beat", "ckpt-9"]

    def test_one_fault_is_tried_again(self, plan, claimer, failing):
        """After a failed write or fsync a new file is written once, after a pause."""
        with claimer(plan()).claim_next() as claim:
            failing[0] = 1

            assert claim.save_checkpoint(9, FILES) is None
            assert claim.checkpoint().files == FILES

    def test_training_goes_on_after_a_fault(self, plan, claimer, failing):
        """If that fails too it is told, the one before is intact, no temp stays, and the next one may succeed."""
        with claimer(plan()).claim_next() as claim:
            claim.save_checkpoint(3, FILES)
            failing[0] = 2
            error = claim.save_checkpoint(6, FILES)
            kept = claim.checkpoint().step
            names = sorted(path.name for path in claim.work_dir.iterdir())
            later = claim.save_checkpoint(9, FILES)

            assert error.errno == errno.EIO
            assert (kept, names) == (3, ["beat", "ckpt-3"])
            assert (later, claim.checkpoint().step) == (None, 9)

    def test_two_faults_in_a_row(self, plan, claimer, failing):
        """A second checkpoint in a row that fails ends the attempt as a fault of the environment; the last good one stays."""
        planned = plan()
        with claimer(planned).claim_next() as claim:
            claim.save_checkpoint(3, FILES)
            failing[0] = 4
            claim.save_checkpoint(6, FILES)
            with pytest.raises(OSError, match="Input/output error") as raised:
                claim.save_checkpoint(9, FILES)
            claim.fail(raised.value)

        assert planned.end()["kind"] == "env"
        assert newest(planned.store.layout, claim.gid, 1).found.step == 3

    def test_directory_collected(self, plan, claimer):
        """An owner whose directory is gone is superseded, and does not make it anew."""
        with claimer(plan()).claim_next() as claim:
            shutil.rmtree(claim.work_dir)
            error = claim.save_checkpoint(9, FILES)

            assert isinstance(error, FileNotFoundError)
            assert claim.is_superseded()
            assert not claim.work_dir.exists()


class TestNewest:
    """The valid one with the highest step is used, whoever wrote it."""

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_damaged(self, plan, claimer, damage):
        """A damaged one is passed over for the one before it, and is named."""
        planned = plan()
        with claimer(planned).claim_next() as first:
            first.save_checkpoint(5, {"state": b"at five"})
            first.save_checkpoint(9, FILES)
            first.end("released")
        DAMAGES[damage](planned.store.layout.checkpoint(first.gid, 1, 9))

        with claimer(planned, "two").claim_next() as second:
            found = second.checkpoint()

        assert (found.step, found.files, found.generation) == (5, {"state": b"at five"}, 1)
        assert [path.split("/")[-1].split("-")[0] for path in found.damaged] == ["ckpt"]
        assert second.damaged_checkpoints == found.damaged

    def test_all_damaged(self, handed_on, claimer):
        """With no valid one the attempt starts anew, says what was damaged, and its claim says step 0."""
        planned = handed_on()
        DAMAGES["byte flipped"](planned.store.layout.checkpoint(planned.gids[0], 1, 5))

        with claimer(planned).claim_next() as claim:
            found = claim.checkpoint()
            record = json.loads(planned.store.layout.claim(claim.gid, 2).read_bytes())

        assert found is None
        assert len(claim.damaged_checkpoints) == 1
        assert record["start"] == {"step": 0, "results": 0}

    def test_of_any_generation(self, plan, claimer):
        """The highest step counts, not the latest attempt."""
        planned = plan()
        for runner, step in (("one", 9), ("two", 12), ("three", 12)):
            with claimer(planned, runner).claim_next() as claim:
                claim.save_checkpoint(step, {"state": runner.encode()})
                claim.end("released")
        shutil.rmtree(planned.store.layout.checkpoint(claim.gid, 3, 12))

        assert newest(planned.store.layout, claim.gid, 3).found[:3] == (12, {"state": b"two"}, 2)

    def test_none(self, plan, claimer):
        """A first attempt has none."""
        with claimer(plan()).claim_next() as claim:
            assert claim.checkpoint() is None


class TestTakeOver:
    """A successor begins with a copy of its own."""

    def test_own_directory(self, handed_on, claimer):
        """What it starts from lies in its own directory, and its claim says at which step it starts."""
        planned = handed_on()

        with claimer(planned, "two").claim_next() as claim:
            record = json.loads(planned.store.layout.claim(claim.gid, 2).read_bytes())
            own = newest(planned.store.layout, claim.gid, 2).found

        assert record["start"] == {"step": 5, "results": 0}
        assert (own.step, own.generation) == (5, 2)
        assert own.files == {"state": b"at five", "weights": bytes(range(256))}

    def test_nothing_is_written_at_the_predecessors(self, handed_on, claimer, finish):
        """All that a successor does leaves every byte of its predecessor's directory as it was, and adds no name."""
        planned = handed_on()
        work = planned.store.layout.work(planned.gids[0], 1)
        before = {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in work.rglob("*")}

        with claimer(planned, "two").claim_next() as claim:
            claim.checkpoint()
            for step in (6, 7, 8):
                claim.save_checkpoint(step, FILES)
            finish(claim)

        after = {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in work.rglob("*")}
        assert after == before

    def test_predecessor_removes_its_own(self, handed_on, claimer):
        """A predecessor that goes on and cleans up, or is collected, takes nothing from its successor."""
        planned = handed_on()
        with claimer(planned, "two").claim_next() as claim:
            shutil.rmtree(planned.store.layout.work(claim.gid, 1))

            assert newest(planned.store.layout, claim.gid, 2).found.step == 5

    @pytest.mark.parametrize("error", [errno.EPERM, errno.EMLINK, errno.ENOENT])
    def test_without_hard_links(self, handed_on, claimer, monkeypatch, error):
        """Where another user's file must not be linked, or vanishes between reading and linking, it is copied."""
        planned = handed_on()
        source = planned.store.layout.checkpoint(planned.gids[0], 1, 5)

        real = type(source).hardlink_to

        def refuse(self, target):
            if source == target.parent:
                raise OSError(error, "not linked")
            real(self, target)

        monkeypatch.setattr(type(source), "hardlink_to", refuse)

        with claimer(planned, "two").claim_next() as claim:
            assert content(claim.work_dir / "ckpt-5") == content(source)

    def test_disk_full(self, handed_on, claimer, monkeypatch):
        """Where it does not fit, the attempt ends as a fault of the environment."""
        planned = handed_on()

        def full(*_):
            raise OSError(errno.ENOSPC, "no space left")

        monkeypatch.setattr("contilab.store.claim.take_over", full)

        with pytest.raises(OSError, match="no space left"):
            claimer(planned, "two").claim_next()
        assert planned.end(2)["kind"] == "env"
