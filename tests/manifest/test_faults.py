import pytest

from contilab.errors import Fault, ManifestError

SEEDS = "an integer from 0 to 9007199254740991"


def _faults_of(manifest, body: str, *values: str, methods: str = '["naive"]') -> list[Fault]:
    with pytest.raises(ManifestError) as raised:
        manifest.of(body, *values, methods=methods)
    assert raised.value.exit_code == 2
    return list(raised.value.faults)


class TestNumbers:
    """Numbers of the wrong type, range or size."""

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            ("optim.lr = nan", "nan is not a finite number"),
            ("optim.lr = -inf", "-inf is not a finite number"),
            ("optim.lr = 1e400", "inf is not a finite number"),
            ('optim.lr = "0.1"', '"0.1" is text'),
            ("optim.lr = true", "true is a bool"),
            ("optim.lr = 0", "0 is out of range"),
            ("optim.lr = 9007199254740993", "9007199254740993 is an integer beyond 2^53, which no float holds exactly"),
            ("optim.lr = 1979-05-27", "1979-05-27 is a date or time"),
        ],
    )
    def test_learning_rate(self, manifest, line: str, problem: str) -> None:
        """A rate is a finite number above 0; its own sentence says what else was found."""
        assert _faults_of(manifest, f"[overrides]\n{line}") == [
            Fault("m.toml: overrides.optim.lr", problem, "accepted: a number above 0")
        ]

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("1.0", "1.0 is a float"),
            ("true", "true is a bool"),
            ("0", "0 is out of range"),
            (str(2**70), f"{2**70} does not fit in 64 bits"),
            ("0x" + "f" * 5000, "an integer of 20000 bits does not fit in 64 bits"),
        ],
    )
    def test_epochs(self, manifest, value: str, problem: str) -> None:
        """Epochs are a whole number; a float and a bool are none."""
        assert _faults_of(manifest, f"[overrides]\ntrain.epochs = {value}") == [
            Fault("m.toml: overrides.train.epochs", problem, "accepted: an integer of at least 1")
        ]

    def test_integer_for_a_float(self, manifest) -> None:
        """An integer is a valid value for a float and becomes one."""
        (cell,) = manifest.of("[overrides]\noptim.lr = 1").cells

        assert repr(cell.settings["optim"]["lr"]) == "1.0"

    @pytest.mark.parametrize("seed", [2**70, 2**53, -1])
    def test_range_of_a_seed(self, manifest, seed: int) -> None:
        """A seed beyond its range is refused, and the range is stated."""
        text = f'name = "a"\n[matrix]\npreset = ["synthetic_task"]\nmethod = ["naive"]\nseed = [0, {seed}]'
        with pytest.raises(ManifestError) as raised:
            manifest.resolve(text)

        assert raised.value.faults == (Fault("m.toml: matrix.seed[1]", f"{seed} is out of range", f"accepted: {SEEDS}"),)

    def test_mixed_seeds(self, manifest) -> None:
        """A list of seeds holds integers only."""
        text = 'name = "a"\n[matrix]\npreset = ["synthetic_task"]\nmethod = ["naive"]\nseed = [0, "1"]'
        with pytest.raises(ManifestError) as raised:
            manifest.resolve(text)

        assert raised.value.faults == (Fault("m.toml: matrix.seed[1]", '"1" is text', f"accepted: {SEEDS}"),)


class TestKeys:
    """Keys that are unknown or stand in the wrong place."""

    def test_misspelt_setting(self, manifest) -> None:
        """A misspelt key is refused with the nearest known one."""
        (fault,) = _faults_of(manifest, '[overrides]\n"train.epoch" = 1')

        assert fault == Fault(
            "m.toml: overrides.train.epoch", "unknown key", 'did you mean "train.epochs"? contilab list shows all'
        )

    @pytest.mark.parametrize("key", ["train.lr", "lr", "Optim.LR"])
    def test_setting_of_another_table(self, manifest, key: str) -> None:
        """A key of the wrong table, of none, or in other letters is led to the one that ends alike."""
        (fault,) = _faults_of(manifest, f'[overrides]\n"{key}" = 1')

        assert (fault.problem, fault.hint) == ("unknown key", 'did you mean "optim.lr"? contilab list shows all')

    def test_empty_key(self, manifest) -> None:
        """An empty key is refused, and where all keys are shown is told."""
        (fault,) = _faults_of(manifest, '[overrides]\n"" = 1')

        assert (fault.place, fault.problem) == ('m.toml: overrides.""', "the key is empty")
        assert fault.hint == "contilab list shows all"

    def test_quoted_key_with_umlaut(self, manifest) -> None:
        """A key of other letters passes the parser and is then unknown."""
        (fault,) = _faults_of(manifest, '[overrides]\n"größe" = 1')

        assert (fault.place, fault.problem) == ("m.toml: overrides.größe", "unknown key")

    def test_unknown_table(self, manifest) -> None:
        """A table that manifests do not have is refused with the nearest one."""
        (fault,) = _faults_of(manifest, "[override]\ntrain.epochs = 1")

        assert fault.place == "m.toml: override"
        assert 'did you mean "overrides"?' in fault.hint

    def test_settings_at_the_top(self, manifest) -> None:
        """Settings of runs outside of overrides are refused with the place where they belong."""
        (fault,) = _faults_of(manifest, "[train]\nepochs = 1")

        assert fault == Fault(
            "m.toml: train", "settings of runs do not stand at the top", "write them into the table overrides"
        )

    def test_name_of_the_command_line(self, manifest) -> None:
        """No table of a manifest can pose as the command line."""
        (fault,) = _faults_of(manifest, '["command line"]\ntrain.epochs = 1')

        assert (fault.place, fault.problem) == ("m.toml: command line", "unknown key")

    def test_key_written_in_two_ways(self, manifest) -> None:
        """A setting that stands in its dotted form and in its table is refused."""
        faults = _faults_of(manifest, '[overrides]\n"optim.lr" = 1\n[overrides.optim]\nlr = 2')

        assert faults == [Fault("m.toml: overrides.optim.lr", "the key stands twice, written in two ways", "keep one of them")]

    def test_table_for_a_value(self, manifest) -> None:
        """A table where a value belongs is named as what it is."""
        (fault,) = _faults_of(manifest, "[overrides]\ntrain.epochs = {a = 1}")

        assert fault.problem == "{a = 1} is a table"

    def test_value_for_a_table(self, manifest) -> None:
        """A value where a table belongs is named as what it is."""
        with pytest.raises(ManifestError) as raised:
            manifest.resolve('name = "a"\nmatrix = 3\noverrides = [1]')

        assert raised.value.faults == (
            Fault("m.toml: matrix", "3 is an integer", "accepted: a table"),
            Fault("m.toml: overrides", "[1] is a list", "accepted: a table"),
        )

    @pytest.mark.parametrize("key", ["preset", "method", "seed", "method.name"])
    def test_axis_outside_of_the_matrix(self, manifest, key: str) -> None:
        """Preset, method and seed vary in the matrix only."""
        (fault,) = _faults_of(manifest, f'[sweep]\n"{key}" = ["er"]')

        assert fault.problem == "the key is an axis of the matrix"
        assert fault.hint == f"list its values in matrix.{key.removesuffix('.name')}"

    def test_axis_without_effect(self, manifest) -> None:
        """A setting that changes no number cannot vary: both variants would be one run."""
        (fault,) = _faults_of(manifest, '[sweep]\n"engine.threads" = [1, 2]')

        assert fault.problem == "the key changes no number, so it is no axis of a study"


class TestNames:
    """Names of presets, plugins and studies."""

    @pytest.mark.parametrize(
        ("line", "path", "near"),
        [
            ('optim.name = "sdg"', "optim.name", "sgd"),
            ('model.name = "mlpp"', "model.name", "mlp"),
            ('benchmark.name = "split_mnst"', "benchmark.name", "split_mnist"),
            ('benchmark.scenario = "clas"', "benchmark.scenario", "class"),
            ('memory.batch = "trains"', "memory.batch", "train"),
        ],
    )
    def test_misspelt_name(self, manifest, line: str, path: str, near: str) -> None:
        """A misspelt name is shown with the nearest one and all that are accepted."""
        (fault,) = _faults_of(manifest, f"[overrides]\n{line}")

        assert fault.place == f"m.toml: overrides.{path}"
        assert fault.hint.startswith(f'did you mean "{near}"? accepted: ')

    def test_every_named_thing_at_once(self, manifest) -> None:
        """Profile, preset, method and a table's method or preset are checked together."""
        text = """name = "a"
profile = "cpuu"
[matrix]
preset = ["split_mnist_classes"]
method = ["naiv"]
seed = [0]
[method_sweep.ewcc]
"method.strength" = [1]
[preset_overrides.synthetic_tas]
"train.epochs" = 1
"""
        with pytest.raises(ManifestError) as raised:
            manifest.resolve(text)

        assert [fault.place for fault in raised.value.faults] == [
            "m.toml: profile",
            "m.toml: matrix.preset[0]",
            "m.toml: matrix.method[0]",
            "m.toml: method_sweep.ewcc",
            "m.toml: preset_overrides.synthetic_tas",
        ]
        assert all("did you mean" in fault.hint for fault in raised.value.faults)

    @pytest.mark.parametrize("name", ['"A"', '"-a"', '""', '"a b"', f'"{"a" * 41}"', '"a\\n"'])
    def test_name_of_a_study(self, manifest, name: str) -> None:
        """The name of a study becomes a directory, so its signs are few."""
        with pytest.raises(ManifestError) as raised:
            manifest.resolve(f'name = {name}\n[matrix]\npreset = ["synthetic_task"]\nmethod = ["naive"]\nseed = [0]')

        assert [fault.place for fault in raised.value.faults] == ["m.toml: name"]

    def test_date_as_a_name(self, manifest) -> None:
        """A date is no name, though TOML reads it as a value."""
        with pytest.raises(ManifestError) as raised:
            manifest.resolve('name = 2024-01-01\n[matrix]\npreset = ["synthetic_task"]\nmethod = ["naive"]\nseed = [0]')

        assert raised.value.faults[0].problem == "2024-01-01 is a date or time"

    def test_missing_axes(self, manifest) -> None:
        """Name, preset, method and seed must be given."""
        with pytest.raises(ManifestError) as raised:
            manifest.resolve("[matrix]\n")

        assert {fault.place: fault.problem for fault in raised.value.faults} == dict.fromkeys(
            ["m.toml: name", "m.toml: matrix.preset", "m.toml: matrix.method", "m.toml: matrix.seed"], "the key is missing"
        )


class TestSettingsOfPlugins:
    """Settings that only some plugins have."""

    def test_setting_of_no_method_in_use(self, manifest) -> None:
        """A method's setting is a fault if no method of the manifest has it, and its owners are named."""
        (fault,) = _faults_of(manifest, "[overrides]\nmethod.strength = 1")

        assert fault.place == "m.toml: overrides.method.strength"
        assert fault.problem == 'the key belongs to "count" or "ewc", which the manifest does not use here'

    def test_misspelt_method_makes_one_fault(self, manifest) -> None:
        """The settings meant for a misspelt method are not faults too."""
        faults = _faults_of(manifest, "[overrides]\nmethod.strength = 1", methods='["naive", "ewcc"]')

        assert [fault.place for fault in faults] == ["m.toml: matrix.method[1]"]

    def test_memory_of_a_method_without_one(self, manifest) -> None:
        """Neither settings nor variants of one method can be of a memory that it does not use, and that is what is said."""
        for table in ("method_sweep.naive", "method_overrides.naive", "method_overrides.naive.split_mnist_class"):
            (fault,) = _faults_of(manifest, f'[{table}]\n"memory.total" = [1, 2]')

            assert fault == Fault(
                f"m.toml: {table}.memory.total", "naive uses no memory", "remove it, or give it to a method that replays"
            )

    def test_misspelt_memory_of_a_method_with_one(self, manifest) -> None:
        """A method that uses memory has its keys, and one of them is near."""
        (fault,) = _faults_of(manifest, '[method_overrides.er]\n"memory.totl" = 1', methods='["er"]')

        assert (fault.problem, fault.hint) == ("unknown key", 'did you mean "memory.total"? contilab list shows all')

    def test_value_for_one_of_two_methods(self, manifest) -> None:
        """A value that one method accepts and another refuses is a fault of the other."""
        faults = _faults_of(manifest, "[overrides]\nmethod.strength = 0.5", methods='["ewc", "count"]')

        assert faults == [Fault("m.toml: overrides.method.strength", "0.5 is a float", "accepted: an integer of at least 1")]

    def test_combination_that_a_plugin_refuses(self, manifest) -> None:
        """What a plugin says of a combination of its settings is a fault of the manifest."""
        faults = _faults_of(manifest, "[overrides]\noptim.nesterov = true")

        assert faults == [
            Fault(
                "m.toml: optim sgd",
                "nesterov = true needs momentum above 0, and momentum is 0",
                "change one of these settings",
            )
        ]

    def test_setting_without_default(self, manifest) -> None:
        """A plugin's setting without default must be given."""
        (fault,) = _faults_of(manifest, "", methods='["grow"]')

        assert fault == Fault("m.toml: method.growth", "the key is missing", "set it in overrides")

    def test_item_of_a_list(self, manifest) -> None:
        """A wrong item of a list is named by its place in it."""
        (fault,) = _faults_of(manifest, "[overrides]\nmodel.hidden = [400, 0]")

        assert fault == Fault("m.toml: overrides.model.hidden[1]", "0 is out of range", "accepted: an integer of at least 1")


class TestClashes:
    """Settings of which only one can hold."""

    @pytest.mark.parametrize(("one", "other"), [("train.epochs", "train.steps"), ("memory.per_class", "memory.total")])
    def test_rivals_at_one_level(self, manifest, one: str, other: str) -> None:
        """Two settings of which one holds are a fault where both stand at one level."""
        faults = _faults_of(manifest, f"[overrides]\n{one} = 1\n{other} = 2", methods='["er"]')

        assert faults == [Fault(f"m.toml: overrides.{one}", f"{one} and {other} exclude each other", "keep one of the two")]

    @pytest.mark.parametrize(
        ("lines", "problem", "tier"),
        [
            ("eval.keep_features = true", 'keep_features = true needs tier "extended" or "full", found "core"', "extended"),
            (
                'eval.keep_trajectory = true\neval.tier = "extended"',
                'keep_trajectory = true needs tier "full", found "extended"',
                "full",
            ),
            (
                "eval.keep_features = true\neval.keep_trajectory = true",
                'keep_trajectory = true needs tier "full", found "core"',
                "full",
            ),
        ],
    )
    def test_keeping_what_is_not_measured(self, manifest, lines: str, problem: str, tier: str) -> None:
        """What a tier does not measure cannot be kept; the hint is the tier that measures all that is asked for."""
        faults = _faults_of(manifest, f"[overrides]\n{lines}")

        assert faults == [Fault("m.toml: eval", problem, f'set eval.tier = "{tier}"')]

    def test_rivals_on_the_command_line(self, manifest) -> None:
        """The command line is a level too."""
        (fault,) = _faults_of(manifest, "", "train.epochs=1", "train.steps=1")

        assert fault.place == "command line: train.epochs"

    def test_rivals_in_preset_overrides(self, manifest) -> None:
        """The settings of a preset are a level too."""
        (fault,) = _faults_of(manifest, "[preset_overrides.split_mnist_class]\ntrain.epochs = 1\ntrain.steps = 2")

        assert fault.place == "m.toml: preset_overrides.split_mnist_class.train.epochs"

    @pytest.mark.parametrize("other", ["train.epochs", "train.steps"])
    def test_two_axes_of_one_thing(self, manifest, other: str) -> None:
        """A key, or its rival, cannot vary in two tables: the later one would hide the earlier."""
        body = f'[sweep]\n"train.epochs" = [1, 2]\n[method_sweep.naive]\n"{other}" = [3, 4]'
        (fault,) = _faults_of(manifest, body)

        assert fault.problem == "the key is an axis twice: sweep.train.epochs varies it too"

    @pytest.mark.parametrize(("key", "values", "twice"), [("optim.lr", "[1, 0.5, 1.0]", "1.0"), ("train.batch", "[2, 2]", "2")])
    def test_repeated_value(self, manifest, key: str, values: str, twice: str) -> None:
        """An axis holds each value once; the same number in two forms is one value."""
        (fault,) = _faults_of(manifest, f'[sweep]\n"{key}" = {values}')

        assert fault.problem == f"{values} repeats itself: {twice} stands twice in it"

    def test_empty_axis(self, manifest) -> None:
        """An axis without values would be a study without runs."""
        (fault,) = _faults_of(manifest, '[sweep]\n"optim.lr" = []')

        assert (fault.place, fault.problem) == ("m.toml: sweep.optim.lr", "[] is empty")


class TestCompleteness:
    """Every fault in one message."""

    def test_six_faults_in_one_message(self, manifest) -> None:
        """Six faults of six kinds come in one message, each with its own key path."""
        text = """name = "Study"
[matrix]
preset = ["split_mnst_class"]
method = ["naive", "er"]
seed = [0, "1"]
[overrides]
train.epochs = 1.0
optim.lr = nan
memory.totl = 3
"""
        with pytest.raises(ManifestError) as raised:
            manifest.resolve(text)

        assert [fault.place for fault in raised.value.faults] == [
            "m.toml: name",
            "m.toml: matrix.preset[0]",
            "m.toml: matrix.seed[1]",
            "m.toml: overrides.train.epochs",
            "m.toml: overrides.optim.lr",
            "m.toml: overrides.memory.totl",
        ]
        assert all(fault.hint for fault in raised.value.faults)
        assert str(raised.value).count("\n  hint: ") == 6

    def test_faults_of_form_do_not_hide_clashes(self, manifest) -> None:
        """Faults of the command line, of form and of combination come together."""
        faults = _faults_of(manifest, '[sweep]\n"optim.lr" = ["a"]', "optim.lr=1", "nothing")

        assert [fault.place for fault in faults] == ["command line", "m.toml: sweep.optim.lr[0]", "command line: optim.lr"]
