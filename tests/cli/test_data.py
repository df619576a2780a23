"""`contilab data`: what its commands print, their warnings and exit codes."""

from pathlib import Path

import numpy as np
import pytest

from contilab.cli.app import app
from contilab.cli.main import guarded


@pytest.fixture
def cli(capsys, monkeypatch, tmp_path):
    """Run a command line and return exit code, standard output and standard error; the cache is empty."""
    monkeypatch.setenv("CONTILAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CONTILAB_DATA", "")

    def run(*words):
        code = guarded(lambda: app([str(word) for word in words]))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def arrays(tmp_path):
    """The file of a small data set."""
    path, images, labels = tmp_path / "own.npz", np.arange(60, dtype=np.uint8).reshape(5, 3, 2, 2), np.array([0, 1, 0, 1, 0])
    np.savez(path, train_inputs=images, train_labels=labels, test_inputs=images, test_labels=labels)
    return path


class TestData:
    """The commands."""

    def test_list_names_what_is_missing(self, cli):
        """Of an empty cache every published set is listed with the command that gets it."""
        code, out, _ = cli("data", "list")

        assert code == 0
        for name in ("mnist", "fashion-mnist", "cifar10", "cifar100", "tinyimagenet"):
            assert f"not there: contilab data prepare {name}" in out

    def test_import_says_how_it_is_used(self, cli, arrays):
        """Importing one's own data prints name, source, digest and the keys that use them; the list then has them."""
        code, out, err = cli("data", "import", "mine", arrays)
        listed = cli("data", "list")[1]

        assert (code, err) == (0, "")
        assert f"mine: from {arrays}, digest " in out
        assert 'benchmark.name = "npz" and benchmark.data = "mine"' in out
        line = next(line for line in listed.splitlines() if line.startswith("mine "))
        assert line.split()[1:8] == ["5", "5", "3", "x", "2", "x", "2"]
        assert line.endswith("ready")

    def test_list_knows_what_a_runner_kept(self, cli, arrays, monkeypatch):
        """A published set that a runner found and kept by its digest is there, though nobody imported it by name."""
        from contilab.data import published

        digest = cli("data", "import", "mine", arrays)[1].splitlines()[0].rpartition(" ")[2]
        monkeypatch.setitem(published.KNOWN, "mnist", published.MNIST._replace(digest=digest))
        line = next(line for line in cli("data", "list")[1].splitlines() if line.startswith("mnist "))

        assert line.endswith(f"{digest[:12]}  ready")

    def test_refusal_is_one_sentence_and_exit_2(self, cli, tmp_path):
        """Files that are none of the set end in one error with its hint, and exit code 2: the user named them."""
        (tmp_path / "page.html").write_text("<html>")

        code, out, err = cli("data", "import", "cifar10", tmp_path)

        assert (code, out) == (2, "")
        assert err.startswith(f"error: {tmp_path}: holds no cifar10: expected cifar-10-batches-py or cifar-10-batches-bin")

    @pytest.mark.parametrize("content", [None, b"", b"PK cut"])
    def test_files_that_cannot_be_read_are_exit_2(self, cli, tmp_path, content):
        """So do files of one's own that are not there, or are damaged."""
        if content is not None:
            (tmp_path / "own.npz").write_bytes(content)

        assert cli("data", "import", "mine", tmp_path / "own.npz")[:2] == (2, "")

    def test_cache_that_cannot_be_written_is_exit_4(self, cli, arrays, tmp_path):
        """Good files that cannot be kept are a fault of the environment."""
        (tmp_path / "cache").write_text("a file where the folder should be")

        code, _, err = cli("data", "import", "mine", arrays)

        assert (code, err.count("error: ")) == (4, 1)

    def test_data_of_the_environment_are_exit_4(self, cli, tmp_path, monkeypatch):
        """What is asked for by name alone, and lies damaged in a folder of CONTILAB_DATA, is a fault of the environment."""
        (tmp_path / "t10k-labels-idx1-ubyte").write_text("cut")
        monkeypatch.setenv("CONTILAB_DATA", str(tmp_path))

        code, _, err = cli("data", "prepare", "mnist")

        assert code == 4
        assert f"error: {tmp_path}: mnist is incomplete" in err

    def test_names_that_cannot_be_are_exit_2(self, cli, arrays):
        """A name that means nothing is a fault of the words."""
        assert cli("data", "import", "My Data", arrays)[0] == 2
        assert cli("data", "prepare", "imagenet")[0] == 2

    def test_content_that_is_not_published_is_warned_of_once(self, cli, tmp_path, monkeypatch):
        """Files of the right form with other content are taken with one warning on standard error."""
        from contilab.data import published

        monkeypatch.setitem(
            published.KNOWN,
            "cifar10",
            published.CIFAR10._replace(image_shape=(3, 2, 2), classes=2, train_samples=5, test_samples=5),
        )
        images, labels = np.zeros((5, 3, 2, 2), np.uint8), np.array([0, 1, 0, 1, 0])
        np.savez(tmp_path / "own.npz", train_inputs=images, train_labels=labels, test_inputs=images, test_labels=labels)

        code, out, err = cli("data", "import", "cifar10", tmp_path / "own.npz")
        named = cli("data", "import", "cifar10", tmp_path / "own.npz", "--as", "jpeg")[1]

        assert code == 0
        assert out.startswith("cifar10 (not the published files): from ")
        assert err.count("warning:") == 1
        assert "the content is not the published one of cifar10" in err
        assert 'benchmark.data = "jpeg"' in named

    @pytest.mark.parametrize("is_named", [True, False])
    def test_verify_finds_a_flipped_byte(self, cli, arrays, tmp_path, is_named):
        """What is kept is verified, by a name or without; one flipped byte is found, named, and exit code 4."""
        cli("data", "import", "mine", arrays)
        good = cli("data", "verify")
        (path,) = (tmp_path / "cache" / "data").glob("*.safetensors")
        if not is_named:  # as runners keep what they found by themselves
            (tmp_path / "cache" / "data" / "names" / "mine.json").unlink()
            assert cli("data", "verify")[:2] == (0, good[1].replace("mine", "no name"))
        content = path.read_bytes()
        path.write_bytes(content[:-1] + b"\x07")

        code, _, err = cli("data", "verify")

        assert good[0] == 0
        assert good[1].startswith(f"mine: {path.stem} is what is kept")
        assert code == 4
        assert f"error: {path}: the file is damaged" in err

    def test_plan_without_data_names_the_import(self, cli):
        """`contilab plan` of a study on CIFAR without data says the command that imports them, and exits with 2."""
        manifest = Path(__file__).parents[2] / "manifests" / "cifar.toml"

        code, _, err = cli("plan", manifest, "--dry-run")

        assert code == 2
        assert "contilab data import cifar10 DIR" in err
        assert "contilab data import cifar100 DIR" in err


class TestOwnBenchmark:
    """A benchmark of one's own by manifest."""

    MANIFEST = """
name = "own"
[benchmark]
source = "npz"
data = "mine"
scenario = "class"
tasks = 2
validation = 0
[matrix]
preset = ["npz_class"]
method = ["naive"]
seed = [0]
"""

    def test_manifest_with_a_benchmark_plans(self, cli, arrays, tmp_path):
        """Imported arrays and a table `[benchmark]` make a study."""
        (tmp_path / "m.toml").write_text(self.MANIFEST)
        before = cli("plan", tmp_path / "m.toml", "--store", tmp_path / "store")
        cli("data", "import", "mine", arrays)

        code, out, err = cli("plan", tmp_path / "m.toml", "--store", tmp_path / "store")

        assert before[0] == 2
        assert "contilab data import mine PATH" in before[2]
        assert (code, err) == (0, "")
        assert "1, of them 0 done, 1 new" in out

    def test_worked_example_of_the_manual(self, cli, tmp_path, monkeypatch):
        """The example of manifests/README.md works as written: its program, its import, its manifest."""
        manual = (Path(__file__).parents[2] / "manifests" / "README.md").read_text(encoding="utf-8")
        section = manual[manual.index("## Data of your own") :]
        program, manifest = (section.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "toml"))
        monkeypatch.chdir(tmp_path)
        exec(program, {})  # noqa: S102 - the manual's own program
        (tmp_path / "m.toml").write_text(manifest)

        imported = cli("data", "import", "mine", "mine.npz")
        planned = cli("plan", "m.toml")

        assert "contilab data import mine mine.npz" in section
        assert (imported[0], planned[0]) == (0, 0)
        assert "4, of them 0 done, 4 new" in planned[1]

    def test_faults_have_their_place(self, cli, tmp_path):
        """Faults in `[benchmark]` are told by their key, with the nearest known one."""
        (tmp_path / "m.toml").write_text(
            self.MANIFEST.replace("tasks = 2", "taks = 2").replace("validation = 0", "validation = 2")
        )

        code, _, err = cli("plan", tmp_path / "m.toml", "--store", tmp_path / "store")

        assert code == 2
        assert 'benchmark.taks: unknown key\n\nhint: did you mean "tasks"' in err
        assert "benchmark.validation: 2" in err
