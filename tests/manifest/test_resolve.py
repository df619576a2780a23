import pytest

from contilab.errors import ManifestError
from contilab.manifest.resolve import ResolvedCell


class TestMergeOrder:
    """Which level wins."""

    LEVELS = {  # noqa: RUF012 - a table of the test
        "overrides": "[overrides]\noptim.lr = 2",
        "preset_overrides": "[preset_overrides.split_mnist_class]\noptim.lr = 3",
        "method_overrides": "[method_overrides.naive]\noptim.lr = 3.5",
        "matrix": '"optim.lr" = [4]',
        "sweep": '[sweep]\n"optim.lr" = [5]',
        "method_sweep": '[method_sweep.naive]\n"optim.lr" = [5]',
    }

    def test_preset(self, manifest) -> None:
        """Without anything else, the preset wins over built-in defaults."""
        (cell,) = manifest.of("").cells

        assert (cell.settings["optim"]["lr"], cell.origins["optim.lr"]) == (0.1, "preset split_mnist_class")

    @pytest.mark.parametrize(
        ("lower", "upper", "value"),
        [
            ("overrides", "preset_overrides", 3.0),
            ("overrides", "matrix", 4.0),
            ("preset_overrides", "method_overrides", 3.5),
            ("preset_overrides", "matrix", 4.0),
            ("method_overrides", "matrix", 4.0),
            ("overrides", "sweep", 5.0),
            ("preset_overrides", "sweep", 5.0),
            ("preset_overrides", "method_sweep", 5.0),
        ],
    )
    def test_later_wins(self, manifest, lower: str, upper: str, value: float) -> None:
        """Of two levels the later one wins, and the origin says which it was."""
        levels = sorted((lower, upper), key=lambda level: level != "matrix")  # the matrix stands open
        (cell,) = manifest.of("\n".join(self.LEVELS[level] for level in levels)).cells

        assert (cell.settings["optim"]["lr"], cell.origins["optim.lr"]) == (value, upper)

    def test_profile(self, manifest) -> None:
        """Defaults of the profile win over built-in ones, and a preset of the profile is its own."""
        (cpu,) = manifest.of("").cells
        (gpu,) = manifest.of("", "profile=gpu").cells

        assert (cpu.settings["engine"]["max_members"], gpu.settings["engine"]["max_members"]) == (4, 32)
        assert gpu.origins["engine.max_members"] == "profile gpu"
        assert gpu.origins["train.augment"] == "default"

    def test_usual_profile(self, manifest) -> None:
        """A manifest that names no profile has that of the CPU."""
        (cell,) = manifest.resolve('name = "a"\n[matrix]\npreset = ["split_mnist_task"]\nmethod = ["naive"]\nseed = [0]').cells

        assert cell.origins["engine.max_members"] == "profile cpu"

    def test_every_value_has_an_origin(self, manifest) -> None:
        """Every value of every table can be explained."""
        (cell,) = manifest.of("", methods='["er"]').cells
        keys = {f"{table}.{key}" for table, settings in cell.settings.items() for key in settings}

        assert keys - cell.origins.keys() == {"method.name"}

    @pytest.mark.parametrize("form", ['"train.epochs" = 7', "train.epochs = 7", "[overrides.train]\nepochs = 7"])
    def test_ways_of_writing(self, manifest, form: str) -> None:
        """A quoted key, a dotted key and a table mean the same."""
        (cell,) = manifest.of(f"[overrides]\n{form}").cells

        assert cell.settings["train"]["epochs"] == 7


class TestRivals:
    """Two settings of which one is set."""

    def test_steps_over_epochs(self, manifest) -> None:
        """A later level's steps replace the epochs of the preset."""
        (cell,) = manifest.of("[overrides]\ntrain.steps = 5").cells

        assert cell.settings["train"] == {"steps": 5, "batch": 64, "augment": "none"}

    def test_per_class_over_total(self, manifest) -> None:
        """A memory per class replaces the usual memory in all."""
        (cell,) = manifest.of("[overrides]\nmemory.per_class = 20", methods='["er"]').cells

        assert "total" not in cell.settings["memory"]
        assert cell.settings["memory"]["per_class"] == 20

    def test_usual_memory(self, manifest) -> None:
        """A memory of which nothing is said holds 500 entries."""
        (cell,) = manifest.of("", methods='["er"]').cells

        assert cell.settings["memory"]["total"] == 500

    @pytest.mark.parametrize("batch", ['"train"', "16"])
    def test_replay_batch(self, manifest, batch: str) -> None:
        """The word "train" and its number resolve to one and the same setting."""
        (cell,) = manifest.of(f"[overrides]\ntrain.batch = 16\nmemory.batch = {batch}", methods='["er"]').cells

        assert cell.settings["memory"]["batch"] == 16


class TestCells:
    """Which cells a manifest has."""

    def test_order(self, manifest) -> None:
        """Cells come by preset, method, matrix and sweeps, in the order in which they are written; seeds stay together."""
        text = """name = "a"
[matrix]
seed = [3, 1]
method = ["ewc", "naive"]
preset = ["synthetic_task", "split_mnist_class"]
"train.batch" = [8, 4]
[sweep]
"optim.lr" = [0.2]
[method_sweep.ewc]
"method.strength" = [2, 1]
"""
        cells = manifest.resolve(text).cells

        assert [(cell.preset, cell.method, *cell.sweep.values()) for cell in cells[:6]] == [
            ("synthetic_task", "ewc", 8, 0.2, 2.0),
            ("synthetic_task", "ewc", 8, 0.2, 1.0),
            ("synthetic_task", "ewc", 4, 0.2, 2.0),
            ("synthetic_task", "ewc", 4, 0.2, 1.0),
            ("synthetic_task", "naive", 8, 0.2),
            ("synthetic_task", "naive", 4, 0.2),
        ]
        assert {cell.seeds for cell in cells} == {(3, 1)}
        assert len(cells) == 12

    def test_memory_of_a_shared_manifest(self, manifest) -> None:
        """A sweep over the memory leaves out methods without one: their variants are one cell without label."""
        cells = manifest.of('[sweep]\n"memory.total" = [10, 20]', methods='["naive", "er"]').cells

        assert [(cell.method, cell.sweep) for cell in cells] == [
            ("naive", {}),
            ("er", {"memory.total": 10}),
            ("er", {"memory.total": 20}),
        ]
        assert "memory" not in cells[0].settings

    def test_setting_of_another_method(self, manifest) -> None:
        """A setting that one method of the manifest has is left out of those that do not have it."""
        cells = manifest.of("[overrides]\nmethod.strength = 2", methods='["naive", "ewc"]').cells

        assert [cell.settings["method"] for cell in cells] == [{"name": "naive"}, {"name": "ewc", "strength": 2.0}]

    def test_equal_variants(self, manifest) -> None:
        """Variants that resolve to the same settings are one cell."""
        cells = manifest.of('[sweep]\n"memory.batch" = ["train", 64, 8]', methods='["er"]').cells

        assert [cell.sweep for cell in cells] == [{"memory.batch": 64}, {"memory.batch": 8}]

    def test_value_of_another_type(self, manifest) -> None:
        """Each method reads a shared value by its own type."""
        cells = manifest.of("[overrides]\nmethod.strength = 2", methods='["ewc", "count"]').cells

        assert [repr(cell.settings["method"]["strength"]) for cell in cells] == ["2.0", "2"]


class TestPlugins:
    """Settings of models and optimisers."""

    def _cell(self, manifest, body: str, *values: str) -> ResolvedCell:
        (cell,) = manifest.of(body, *values).cells
        return cell

    def test_optimiser_of_the_user(self, manifest) -> None:
        """What the preset says of its optimiser is not said of another one."""
        cell = self._cell(manifest, '[overrides]\noptim.name = "adam"')

        assert cell.settings["optim"] == {"name": "adam", "lr": 0.001}

    def test_optimiser_of_the_preset_named_again(self, manifest) -> None:
        """Naming the preset's optimiser again changes nothing."""
        cell = self._cell(
            manifest, '[overrides]\noptim.name = "sgd"\n[preset_overrides.split_mnist_class]\noptim.momentum = 0.5'
        )

        assert (cell.settings["optim"]["lr"], cell.settings["optim"]["momentum"]) == (0.1, 0.5)

    def test_settings_of_the_user(self, manifest) -> None:
        """What the user sets goes to every optimiser that has it."""
        cells = manifest.of('"optim.name" = ["sgd", "adam"]\n[overrides]\noptim.lr = 0.3\noptim.momentum = 0.5').cells

        assert [cell.settings["optim"].get("momentum") for cell in cells] == [0.5, None]
        assert [cell.settings["optim"]["lr"] for cell in cells] == [0.3, 0.3]

    def test_lists(self, manifest) -> None:
        """Layer widths are a list, as a default and as a value."""
        assert self._cell(manifest, "[overrides]\nmodel.hidden = []").settings["model"]["hidden"] == []
        assert self._cell(manifest, "").settings["model"]["hidden"] == [400, 400]

    def test_off(self, manifest) -> None:
        """A setting that is a number or a word takes both."""
        assert self._cell(manifest, "[overrides]\noptim.clip_norm = 1").settings["optim"]["clip_norm"] == 1.0
        assert self._cell(manifest, '[overrides]\noptim.clip_norm = "off"').settings["optim"]["clip_norm"] == "off"


class TestMethodOverrides:
    """Settings of one method, and of one method in one preset."""

    MANIFEST = """
name = "m"
[matrix]
preset = ["split_mnist_class", "split_mnist_task"]
method = ["naive", "ewc"]
seed = [0]
[preset_overrides.split_mnist_task]
optim.lr = 0.5
[method_overrides.ewc]
method.strength = 7
"optim.lr" = 0.25
[method_overrides.ewc.split_mnist_task]
"method.strength" = 9
"""

    def test_reach_their_method_and_preset_only(self, manifest) -> None:
        """Strength 7 everywhere but in the one preset, where it is 9; the other method has the rate of its preset."""
        cells = {(cell.preset, cell.method): cell.settings for cell in manifest.resolve(self.MANIFEST).cells}

        assert cells["split_mnist_class", "ewc"]["method"]["strength"] == 7
        assert cells["split_mnist_task", "ewc"]["method"]["strength"] == 9
        assert cells["split_mnist_task", "ewc"]["optim"]["lr"] == 0.25
        assert cells["split_mnist_task", "naive"]["optim"]["lr"] == 0.5

    def test_the_command_line_still_comes_last(self, manifest) -> None:
        """What is given with the command holds for every method."""
        found = manifest.resolve(self.MANIFEST, "optim.lr=1.5")

        assert {cell.settings["optim"]["lr"] for cell in found.cells} == {1.5}

    @pytest.mark.parametrize(
        ("line", "place", "problem"),
        [
            (
                "[method_overrides.ewc]\nmethod.weighting = 'tasks'",
                "m.toml: method_overrides.ewc.method.weighting",
                "unknown key",
            ),
            ("[method_overrides.ewk]\noptim.lr = 1", "m.toml: method_overrides.ewk", "unknown key"),
            ("[method_overrides.ewc.split_mnist]\noptim.lr = 1", "m.toml: method_overrides.ewc.split_mnist", "unknown key"),
            (
                "[method_overrides.ewc.split_mnist_task]\noptim.lr = 'x'",
                "m.toml: method_overrides.ewc.split_mnist_task.optim.lr",
                "is text",
            ),
        ],
    )
    def test_faults_name_their_place(self, manifest, line, place, problem) -> None:
        """A setting of another method, an unknown method or preset, and a wrong type are faults with their full path."""
        text = '[matrix]\npreset = ["split_mnist_task"]\nmethod = ["ewc"]\nseed = [0]\n' + line
        with pytest.raises(ManifestError) as caught:
            manifest.resolve('name = "m"\n' + text)
        (fault,) = caught.value.faults

        assert fault.place == place
        assert problem in fault.problem

    def test_two_rivals_within_one_preset_of_a_method(self, manifest) -> None:
        """Epochs and steps exclude each other there too."""
        text = self.MANIFEST + "train.epochs = 1\ntrain.steps = 2\n"
        with pytest.raises(ManifestError, match="exclude each other"):
            manifest.resolve(text)
