"""What was measured, kept and found again: on this machine, with this torch, for this shape."""

import json

import pytest

from contilab.hardware.fingerprint import Machine
from contilab.hardware.profile import Answer, Profiles, Rate, Shape, put, read, user_folder

HERE = Machine("f" * 64, "2.13.0", {"cpu": "x"})
SHAPE = Shape(HERE, "cpu", "mlp", {"hidden": [400, 400]}, 784, 32, 8)
FAST = Rate("vmap", "fp32", "off", 1, 2, 200.0, 0.1)
SLOW = Rate("loop", "fp32", "off", 1, 2, 100.0, 0.1)
ANSWER = Answer((SLOW, FAST), "bench", "2026-01-01T00:00:00+00:00", 0.0)
OTHER = ANSWER._replace(rates=(SLOW,))


class TestProfiles:
    """The answers that count."""

    def test_found_again(self, tmp_path):
        """What one process keeps, another one finds."""
        Profiles(tmp_path).keep(SHAPE, ANSWER)

        assert Profiles(tmp_path).find(SHAPE) == ANSWER

    @pytest.mark.parametrize(
        "changes",
        [
            {"machine": HERE._replace(fingerprint="e" * 64)},
            {"machine": HERE._replace(torch="2.12.0")},
            {"device": "cuda"},
            {"settings": {"hidden": [400]}},
            {"features": 3072},
            {"batch": 10},
            {"members": 4},
            {"detail": {"method": "er"}},
        ],
    )
    def test_of_something_else(self, tmp_path, changes):
        """An answer of another machine, torch, device, model, batch or number of members is never found."""
        Profiles(tmp_path).keep(SHAPE, ANSWER)

        assert Profiles(tmp_path).find(SHAPE._replace(**changes)) is None

    @pytest.mark.parametrize(
        ("measured", "members", "found"),
        [
            ((1, 2, 4, 8), 4, 4),
            ((4, 5, 6), 5, 5),
            ((1, 2, 4, 8), 3, 4),
            ((1, 2, 4, 8), 5, 4),
            ((1, 2, 4, 8), 6, 8),
            ((1, 2, 4, 8), 12, 8),
            ((4, 9), 6, 4),  # equally near
            ((1, 2, 4, 8), 13, None),
            ((2, 4), 1, None),
            ((1,), 2, None),
        ],
    )
    def test_nearly_as_many_members(self, tmp_path, measured, members, found):
        """The number of members itself, then the nearest within a factor of 1.5, of two the smaller one; none beyond it."""
        for count in measured:
            put(tmp_path, SHAPE._replace(members=count), ANSWER._replace(foreign_cores=float(count)), replaces=False)
        expected = (found, ANSWER._replace(foreign_cores=float(found))) if found else None

        assert next(Profiles(tmp_path).nearest(SHAPE._replace(members=members)), None) == expected

    @pytest.mark.parametrize("machine", [HERE._replace(fingerprint="e" * 64), HERE._replace(torch="2.12.0")])
    def test_nearly_as_many_members_elsewhere(self, tmp_path, machine):
        """What another machine, or another torch, measured with nearly as many members is never found."""
        put(tmp_path, SHAPE._replace(machine=machine), ANSWER, replaces=False)

        assert list(Profiles(tmp_path).nearest(SHAPE._replace(members=7))) == []

    def test_who_asks_again_hears_the_same(self, tmp_path):
        """That there was no answer is remembered, so what is recorded after training is what decided before it."""
        profiles = Profiles(tmp_path)
        before = profiles.find(SHAPE)
        put(tmp_path, SHAPE, ANSWER, replaces=False)

        assert before is None
        assert profiles.find(SHAPE) is None
        assert Profiles(tmp_path).find(SHAPE) == ANSWER

    def test_under_a_false_name(self, tmp_path):
        """A file that was copied to the name of another machine's answer is none."""
        Profiles(tmp_path).keep(SHAPE, ANSWER)
        foreign = SHAPE._replace(machine=HERE._replace(fingerprint="e" * 64))
        (tmp_path / f"{SHAPE.address}.json").rename(tmp_path / f"{foreign.address}.json")

        assert read(tmp_path, foreign) is None

    def test_the_first_one_counts(self, tmp_path):
        """Of two runners that measured at once, both use what the first kept."""
        first, second = Profiles(tmp_path), Profiles(tmp_path)
        first.keep(SHAPE, ANSWER)

        assert second.keep(SHAPE, OTHER) == ANSWER
        assert second.find(SHAPE) == ANSWER

    def test_without_a_folder(self):
        """Without a folder a process remembers what it measured."""
        profiles = Profiles()
        profiles.keep(SHAPE, ANSWER)

        assert profiles.find(SHAPE) == ANSWER
        assert Profiles().find(SHAPE) is None

    def test_from_the_cache_into_the_store(self, tmp_path):
        """An answer of the user's cache is kept in the store once it is used, so a later one does not split the runners."""
        put(tmp_path / "cache", SHAPE, ANSWER, replaces=True)
        Profiles(tmp_path / "store", tmp_path / "cache").find(SHAPE)
        put(tmp_path / "cache", SHAPE, OTHER, replaces=True)

        assert Profiles(tmp_path / "store", tmp_path / "cache").find(SHAPE) == ANSWER
        assert Profiles(None, tmp_path / "cache").find(SHAPE) == OTHER

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"rates": 1}', '{"shape": {}}'])
    def test_damaged(self, tmp_path, text):
        """A damaged file is no answer, and no reason to stop."""
        put(tmp_path, SHAPE, ANSWER, replaces=False)
        (tmp_path / f"{SHAPE.address}.json").write_text(text)

        assert Profiles(tmp_path).find(SHAPE) is None
        assert Profiles(tmp_path).all(HERE) == []

    @pytest.mark.parametrize("rates", [[], [{"execution": "loop"}], [{**FAST._asdict(), "samples_per_s": 0}]])
    def test_empty(self, tmp_path, rates):
        """So is one without a speed."""
        put(tmp_path, SHAPE, ANSWER, replaces=False)
        file = tmp_path / f"{SHAPE.address}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "rates": rates}))

        assert Profiles(tmp_path).find(SHAPE) is None

    def test_a_place_that_cannot_be_written(self, tmp_path):
        """Where nothing can be kept training goes on with what was measured."""
        (tmp_path / "file").write_text("")
        profiles = Profiles(tmp_path / "file")

        assert profiles.keep(SHAPE, ANSWER) == ANSWER
        assert profiles.find(SHAPE) == ANSWER

    def test_a_folder_of_another_user(self, monkeypatch, tmp_path):
        """A folder that may not be read holds no answers."""

        def denied(_):
            raise PermissionError(13, "denied")

        monkeypatch.setattr("contilab.hardware.profile.names", denied)
        monkeypatch.setattr("contilab.hardware.profile.read_table", denied)

        assert Profiles(tmp_path).all(HERE) == []
        assert Profiles(tmp_path).find(SHAPE) is None

    def test_all_of_this_machine(self, tmp_path):
        """All answers of bench on this machine are listed, each once, those of the store first; others and auto's are not."""
        put(tmp_path / "store", SHAPE, ANSWER, replaces=False)
        put(tmp_path / "cache", SHAPE, OTHER, replaces=False)
        put(tmp_path / "cache", SHAPE._replace(batch=10), OTHER, replaces=False)
        put(tmp_path / "store", SHAPE._replace(batch=20), OTHER._replace(by="auto"), replaces=False)
        put(tmp_path / "store", SHAPE._replace(machine=HERE._replace(torch="1")), OTHER, replaces=False)
        found = Profiles(tmp_path / "store", tmp_path / "cache").all(HERE)

        assert [(shape["batch"], answer) for shape, answer in found] == [(32, ANSWER), (10, OTHER)]

    def test_of_the_user(self):
        """Without a store it lies in the user's cache."""
        assert str(user_folder({"CONTILAB_CACHE": "/own"})) == "/own/hardware"


class TestAnswer:
    """Rates by threads."""

    def test_fastest_first(self):
        """Those of processes with as many threads, fastest first."""
        assert ANSWER.at(1) == [FAST, SLOW]
        assert ANSWER.at(2) == []

    def test_any_threads(self):
        """On a GPU the number of threads does not count."""
        assert ANSWER.at(None) == [FAST, SLOW]

    def test_beside_others(self):
        """Where a form was measured beside others too, that is what counts for a process of so many threads."""
        alone = FAST._replace(processes=1, samples_per_s=900.0)

        assert ANSWER._replace(rates=(alone, SLOW)).at(1) == [SLOW]
