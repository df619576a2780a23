"""Claims about what is planned and what came out."""

import hashlib
import json
from dataclasses import replace

import pytest

from contilab.errors import StoreError, UsageError
from contilab.store.result import complete
from contilab.store.store import create_store, open_store


class TestCreateStore:
    """The first plan makes the store, the others find it."""

    def test_format(self, tmp_path):
        """format.json holds the format, the TTL and the beat, an eighth of it."""
        create_store(tmp_path / "new" / "store")

        facts = json.loads((tmp_path / "new" / "store" / "format.json").read_bytes())

        assert facts == {"format": "contilab.store/1", "ttl_s": 120, "beat_s": 15}

    def test_again(self, tmp_path):
        """Making it again keeps the times that the first one set."""
        create_store(tmp_path, 60)

        store = create_store(tmp_path)

        assert (store.ttl_s, store.beat_s) == (60, 7.5)

    def test_another_ttl(self, tmp_path):
        """Asking for another TTL is refused, since all runners must agree."""
        create_store(tmp_path, 60)

        with pytest.raises(UsageError, match="ttl of 60 s, asked for is 90 s"):
            create_store(tmp_path, 90)

    def test_foreign_folder(self, tmp_path):
        """A folder that holds other things is refused and nothing is written into it; what a killed plan left is none."""
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "thesis.tex").touch()
        (tmp_path / "begun" / "runs").mkdir(parents=True)

        with pytest.raises(StoreError, match=r"this is no store, and it holds other things: thesis\.tex"):
            create_store(tmp_path / "home")
        assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.tex"]
        assert create_store(tmp_path / "begun").ttl_s == 120

    @pytest.mark.parametrize("ttl_s", [0, -5, 0.5, float("nan"), float("inf")])
    def test_impossible_ttl(self, tmp_path, ttl_s):
        """A TTL below a second or without end is refused before anything is written."""
        with pytest.raises(UsageError, match="not possible"):
            create_store(tmp_path / "store", ttl_s)
        assert not (tmp_path / "store").exists()


class TestOpenStore:
    """A store is opened by every verb."""

    def test_none_there(self, tmp_path):
        """Without a store the error says how to make one."""
        with pytest.raises(StoreError, match="contilab plan MANIFEST makes one"):
            open_store(tmp_path)

    def test_unknown_format(self, plan):
        """A later format is refused, with both names."""
        root = plan().root
        (root / "format.json").write_text('{"format": "contilab.store/2"}')

        with pytest.raises(StoreError, match=r'"contilab.store/2", this version knows "contilab.store/1"'):
            open_store(root)

    def test_unknown_format_is_left_alone(self, tmp_path):
        """Planning into a store of a later format writes nothing there."""
        (tmp_path / "format.json").write_text('{"format": "contilab.store/2"}')

        with pytest.raises(StoreError, match=r"contilab.store/2"):
            create_store(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["format.json"]

    def test_directory_instead_of_format(self, tmp_path):
        """A directory named like the format is refused, not met with an error of the system."""
        (tmp_path / "format.json").mkdir()

        with pytest.raises(StoreError, match="cannot be read: Is a directory"):
            create_store(tmp_path)

    @pytest.mark.parametrize("ttl", ['"nan"', "-5", "0", "1e999", "null"])
    def test_impossible_times(self, plan, ttl):
        """Times that cannot be are a damaged format.json."""
        root = plan().root
        (root / "format.json").write_text(f'{{"format": "contilab.store/1", "ttl_s": {ttl}, "beat_s": 1}}')

        with pytest.raises(StoreError, match="the file is damaged"):
            open_store(root)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "contilab.store/1"}'])
    def test_damaged_format(self, plan, text):
        """A damaged format.json is refused and named."""
        root = plan().root
        (root / "format.json").write_text(text)

        with pytest.raises(StoreError, match=r"format.json: the file is damaged"):
            open_store(root)

    def test_file_instead_of_directory(self, tmp_path):
        """A file in the place of the store is refused."""
        (tmp_path / "store").touch()

        with pytest.raises(StoreError, match="cannot be read: Not a directory"):
            open_store(tmp_path / "store")


class TestPlanned:
    """Plans are written once and read as they were."""

    def test_places(self, plan):
        """Reports have a place in the store."""
        planned = plan()

        assert planned.store.reports_dir("study") == planned.root / "reports" / "study"

    def test_runs_round_trip(self, plan):
        """A run read back equals the one written, and its file's SHA-256 is its name."""
        planned = plan(members=3)

        assert [planned.store.run(rid) for rid in planned.rids] == planned.runs
        files = [(path.stem, path.read_bytes()) for path in (planned.root / "runs").iterdir()]
        assert {stem: hashlib.sha256(data).hexdigest() for stem, data in files} == {rid: rid for rid in planned.rids}

    def test_groups_round_trip(self, plan):
        """A group is its sorted runs, whatever the order they were given in."""
        planned = plan(groups=2, members=3)

        (again,) = planned.store.add_groups([planned.rids[2::-1]])

        assert again == planned.gids[0]
        assert planned.store.groups() == {
            planned.gids[0]: tuple(sorted(planned.rids[:3])),
            planned.gids[1]: tuple(sorted(planned.rids[3:])),
        }

    @pytest.mark.parametrize("text", ["[[1]]", '"abc"', "{}", "3"])
    def test_damaged_group(self, plan, text):
        """A group file that is no list of runs is refused and named, and all others are there."""
        planned = plan(groups=2)
        path = planned.store.layout.group(planned.gids[0])
        path.write_text(text)

        with pytest.raises(StoreError, match="it is no list of runs"):
            planned.store.group(planned.gids[0])
        assert list(planned.store.groups()) == [planned.gids[1]]
        assert [fault.place for fault in planned.store.unreadable_groups()] == [str(path)]

    @pytest.mark.parametrize("what", ["group", "run"])
    def test_content_of_another_name(self, plan, what):
        """A group or run under the name of another is refused: its results would stand under a name that lies."""
        planned = plan(groups=2)
        layout = planned.store.layout
        place, names = (layout.group, planned.gids) if what == "group" else (layout.run, planned.rids)
        place(names[0]).write_bytes(place(names[1]).read_bytes())

        with pytest.raises(StoreError, match=f"it holds another {what} than its name says"):
            getattr(planned.store, what)(names[0])

    @pytest.mark.parametrize("kind", ["directory", "loop", "deep"])
    def test_no_file(self, plan, kind):
        """So is what is no readable file at all."""
        planned = plan()
        path = planned.store.layout.run(planned.rids[0])
        path.unlink()
        if kind == "directory":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to(path.name)
        else:
            path.write_bytes(b"[" * 100_000)

        with pytest.raises(StoreError, match="cannot"):
            planned.store.run(planned.rids[0])

    @pytest.mark.parametrize("text", ["[]", "3", "null", '{"v": "contilab.study/1"}'])
    def test_damaged_study(self, plan, text):
        """So is the file of a study that is no study; the other studies are there."""
        planned = plan()
        planned.store.add_study(replace(planned.study, name="other"))
        planned.store.layout.plan("study", 2).write_text(text)

        with pytest.raises(StoreError, match=r"2\.json: this version cannot read the file"):
            planned.store.study("study")
        assert list(planned.store.studies()) == ["other"]
        assert [fault.place for fault in planned.store.unreadable_studies()] == [str(planned.store.layout.plan("study", 2))]

    def test_study_round_trip(self, plan):
        """The current plan of a study equals the one written."""
        planned = plan(members=2)

        assert planned.store.studies() == {"study": planned.study}

    def test_planning_twice_writes_nothing(self, plan):
        """The same plan again changes no file and adds none."""
        planned = plan(groups=2, members=2)
        before = {path: path.stat().st_mtime_ns for path in planned.root.rglob("*") if path.is_file()}

        planned.store.add_runs(planned.runs)
        planned.store.add_groups([planned.rids[:2]])
        number = planned.store.add_study(planned.study)

        assert number == 1
        assert {path: path.stat().st_mtime_ns for path in planned.root.rglob("*") if path.is_file()} == before

    def test_next_plan(self, plan):
        """A changed plan is the next one and becomes current; going back makes a third."""
        planned = plan()
        changed = replace(planned.study, manifest="changed")

        numbers = [planned.store.add_study(study) for study in (changed, changed, planned.study)]

        assert numbers == [2, 2, 3]
        assert planned.store.study("study") == planned.study

    def test_unknown_study(self, plan):
        """A study that is not there is refused with the names of those that are."""
        with pytest.raises(UsageError, match="it has study"):
            plan().store.study("stdy")

    def test_name_with_other_content(self, plan):
        """A run whose file holds something else stops the plan, and the file is named."""
        planned = plan()
        (planned.root / "runs" / f"{planned.rids[0]}.json").write_text("{}")

        with pytest.raises(StoreError, match=f"runs/{planned.rids[0]}.json"):
            planned.store.add_runs(planned.runs[:1])

    def test_unreadable_run(self, plan):
        """A run of another scheme is refused, with the file and both schemes."""
        planned = plan()
        (planned.root / "runs" / f"{planned.rids[0]}.json").write_text('{"v": "contilab.run/9"}')

        with pytest.raises(StoreError, match=r"cannot read the file.*contilab.run/9"):
            planned.store.run(planned.rids[0])

    def test_missing_run(self, plan):
        """A run that is not planned is refused with the way out."""
        with pytest.raises(StoreError, match="plan the study again"):
            plan().store.run("0" * 64)

    def test_strange_names_are_left_alone(self, plan):
        """Directories and files of people do not disturb a store."""
        planned = plan()
        for name in ("studies/Lost and found", "studies/empty", "results/notes", "groups/x"):
            (planned.root / name).mkdir()

        assert list(planned.store.studies()) == ["study"]
        assert planned.store.taken() == set()
        assert planned.store.group_ids() == list(planned.gids)


class TestResults:
    """A result is complete or damaged."""

    def test_complete(self, drained):
        """A published run has a result with a state and a directory."""
        rid = drained.rids[0]

        assert drained.store.results() == set(drained.rids)
        assert complete(drained.store.result_dir(rid), rid).state == "finished"
        assert (drained.store.result_dir(rid) / "MANIFEST.json").exists()

    @pytest.mark.parametrize(
        "damage", ["no manifest", "half a manifest", "another run", "file cut", "file gone", "a file", "odd"]
    )
    def test_damaged(self, drained, damage):
        """A result that is not complete is never counted, but its name is taken."""
        rid = drained.rids[0]
        directory = drained.store.result_dir(rid)
        manifest = directory / "MANIFEST.json"
        if damage == "no manifest":
            manifest.unlink()
        elif damage == "half a manifest":
            manifest.write_bytes(manifest.read_bytes()[:100])
        elif damage == "another run":
            manifest.write_bytes(manifest.read_bytes().replace(rid.encode(), drained.rids[1].encode()))
        elif damage == "file cut":
            (directory / "numbers").write_bytes(b"")
        elif damage == "file gone":
            (directory / "numbers").unlink()
        elif damage == "odd":
            manifest.write_text(json.dumps({**json.loads(manifest.read_bytes()), "files": ["numbers"]}))
        else:
            directory.rename(directory.with_name("elsewhere"))
            directory.touch()

        assert drained.store.results() == {drained.rids[1]}
        assert drained.store.taken() == set(drained.rids)
        assert complete(directory, rid) is None

    def test_manifest_of_a_later_version(self, drained):
        """Facts that a later version adds to the manifest do not damage the result."""
        manifest = drained.store.result_dir(drained.rids[0]) / "MANIFEST.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_bytes()), "new": 1}))

        assert drained.store.has_result(drained.rids[0])
