import pytest

from contilab.errors import Fault, ManifestError
from contilab.manifest.commandline import read_value, read_values


class TestValues:
    """What stands behind the equals sign."""

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("1", 1),
            ("1.0", 1.0),
            ("true", True),
            ("[0, 1]", [0, 1]),
            ('"a b"', "a b"),
            ("smoke", "smoke"),
            ("split_mnist_class", "split_mnist_class"),
            ("cuda:1", "cuda:1"),
        ],
    )
    def test_toml_or_a_bare_word(self, text: str, value: object) -> None:
        """A value is TOML with its type; a bare word is text."""
        assert repr(read_value(text)) == repr(value)

    @pytest.mark.parametrize("text", ["", "01", "[a]", "a b", "1\nb = 2", "[" * 3000, "{a" + ".b" * 3000 + "=1}"])
    def test_no_value(self, text: str) -> None:
        """What is neither TOML nor a word is refused, and nothing can be smuggled in behind a line end."""
        with pytest.raises(ValueError, match="is"):
            read_value(text)

    @pytest.mark.parametrize(
        ("argument", "problem"),
        [
            ("train.epochs", '"train.epochs" is no key=value'),
            ("=1", '"=1" is no key=value'),
            ("train.epochs=01", "`01` is no TOML value"),
            ("seed=1", "seed is an axis of the matrix"),
            ("profil=smoke", "unknown key"),
            ("epochs=1", "unknown key"),
        ],
    )
    def test_refused_arguments(self, argument: str, problem: str) -> None:
        """Every argument that means nothing is a fault with a way out."""
        (fault,) = read_values([argument]).faults

        assert fault.problem == problem
        assert fault.hint

    def test_twice(self) -> None:
        """A key is given once."""
        (fault,) = read_values(["train.epochs=1", "train.epochs=2"]).faults

        assert fault == Fault("command line: train.epochs", "the key is given twice", "keep one of them")


class TestKeys:
    """What stands before it."""

    def test_setting_of_every_run(self, manifest) -> None:
        """A key of the run wins over everything in the manifest."""
        body = "[overrides]\ntrain.epochs = 2\n[preset_overrides.split_mnist_class]\ntrain.epochs = 3"
        (cell,) = manifest.of(body, "train.epochs=4").cells

        assert (cell.settings["train"]["epochs"], cell.origins["train.epochs"]) == (4, "command line")

    @pytest.mark.parametrize("value", ["matrix.seed=[7]", "matrix = {preset=['synthetic_task'], method=['er'], seed=[7]}"])
    def test_axis_of_the_matrix(self, manifest, value: str) -> None:
        """A key of the manifest replaces what the manifest says, a whole table too."""
        assert manifest.of("", value).cells[0].seeds == (7,)

    def test_other_tables(self, manifest) -> None:
        """Keys inside of every table can be given."""
        values = [
            "name=other",
            "profile=smoke",
            'matrix.method.name=["ewc"]',
            "overrides.train.batch=8",
            "sweep.optim.lr=[1, 2]",
            "method_sweep.ewc.method.strength=[3]",
            "preset_overrides.split_mnist_class.optim.momentum=0.5",
        ]
        resolved = manifest.of("", *values)

        assert (resolved.name, [cell.sweep for cell in resolved.cells]) == (
            "other",
            [{"optim.lr": 1.0, "method.strength": 3.0}, {"optim.lr": 2.0, "method.strength": 3.0}],
        )
        settings = resolved.cells[0].settings
        assert (settings["train"]["batch"], settings["optim"]["momentum"], settings["benchmark"]["train_per_task"]) == (
            8,
            0.5,
            500,
        )

    def test_what_an_axis_leaves_out_takes_its_tables_along(self) -> None:
        """Tables of methods and presets that only the manifest names go; those of names that stand nowhere stay, as faults."""
        document = {
            "matrix": {"method": ["ewc", "naive"], "preset": ["a", "b"]},
            "method_overrides": {
                "ewc": {"method.strength": 1},
                "naive": {"b": {"optim.lr": 1}, "a": {"optim.lr": 2}},
                "ewk": {},
            },
            "method_sweep": {"ewc": {"method.strength": [1, 2]}},
            "preset_overrides": {"a": {"train.epochs": 1}, "b": {"train.epochs": 2}},
        }
        before = repr(document)

        changed = read_values(['matrix.method=["naive"]', 'matrix.preset=["a"]']).applied(document)

        assert changed["method_overrides"] == {"naive": {"a": {"optim.lr": 2}}, "ewk": {}}
        assert (changed["method_sweep"], changed["preset_overrides"]) == ({}, {"a": {"train.epochs": 1}})
        assert repr(document) == before

    def test_axis_replaced_by_its_rival(self, manifest) -> None:
        """Naming a table's key replaces the rival that stands in that table."""
        (cell,) = manifest.of("[overrides]\ntrain.epochs = 2", "overrides.train.steps=5").cells

        assert cell.settings["train"] == {"steps": 5, "batch": 64, "augment": "none"}

    @pytest.mark.parametrize(
        ("value", "problem", "hint"),
        [
            ("optim.lr=1", "optim.lr is an axis of sweep", "replace the axis: sweep.optim.lr=[...]"),
            ("train.steps=1", "train.epochs is an axis of matrix", "replace the axis: matrix.train.epochs=[...]"),
        ],
    )
    def test_key_that_is_an_axis(self, manifest, value: str, problem: str, hint: str) -> None:
        """A key, or its rival, that is an axis is refused: the axis is what to replace."""
        body = '"train.epochs" = [1, 2]\n[sweep]\n"optim.lr" = [1, 2]'
        with pytest.raises(ManifestError) as raised:
            manifest.of(body, value)

        assert raised.value.faults == (Fault(f"command line: {value.partition('=')[0]}", problem, hint),)

    def test_fault_of_a_given_value(self, manifest) -> None:
        """A fault of a value of the command line says so, and not the file."""
        with pytest.raises(ManifestError) as raised:
            manifest.of("", "matrix.seed=[true]", "train.epochs=soon")

        assert [fault.place for fault in raised.value.faults] == ["command line: matrix.seed[0]", "command line: train.epochs"]

    def test_table_in_place_of_a_value(self, manifest) -> None:
        """A key inside of what is no table replaces it."""
        (cell,) = manifest.resolve(
            'name = "a"\noverrides = 3\n[matrix]\npreset = ["synthetic_task"]\nmethod = ["naive"]\nseed = [0]',
            "overrides.train.epochs=9",
        ).cells

        assert cell.settings["train"]["epochs"] == 9
