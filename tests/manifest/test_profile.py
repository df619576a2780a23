import pytest

from contilab.manifest.keys import adapter, known_keys
from contilab.manifest.profile import preset_names, profile_names, read_profile
from contilab.manifest.resolve import resolve
from contilab.plan.menu import catalog_menu


class TestProfiles:
    """The profiles of the package."""

    def test_names(self) -> None:
        """There is a profile for trying out, one for CPUs and one for GPUs."""
        assert profile_names() == ("cpu", "gpu", "smoke")

    @pytest.mark.parametrize("profile", profile_names())
    def test_presets(self, profile: str) -> None:
        """Every profile has a preset for each benchmark and scenario."""
        benchmarks = catalog_menu().names["benchmark"]
        scenarios = {name: ("domain",) for name in benchmarks if name.startswith(("permuted_", "rotated_"))}

        assert sorted(read_profile(profile).presets) == sorted(
            f"{benchmark}_{scenario}"
            for benchmark in benchmarks
            for scenario in scenarios.get(benchmark, ("task", "class", "domain"))
        )
        assert set(preset_names()) == set(read_profile(profile).presets)

    @pytest.mark.parametrize("profile", profile_names())
    def test_values(self, profile: str) -> None:
        """Every setting of a profile is known and has a valid value."""
        menu = catalog_menu()
        keys = known_keys(menu, {kind: menu.names[kind] for kind in ("model", "optim", "method")})
        found = read_profile(profile)

        for settings in (found.defaults, *found.presets.values()):
            for key, value in settings.items():
                adapter(keys[key].hint).validate_python(value)

    @pytest.mark.parametrize("profile", profile_names())
    def test_resolve(self, profile: str) -> None:
        """Every preset resolves with every method of the catalog that its scenario knows."""
        menu = catalog_menu()
        names = [f"{kind} = {list(values)}" for kind, values in (("preset", preset_names()), ("method", menu.names["method"]))]
        text = "\n".join(['name = "all"', f'profile = "{profile}"', "[matrix]", *names, "seed = [0]"])

        cells = resolve(text, place="m.toml", values=(), menu=menu).cells

        scenarios = {preset: preset.rpartition("_")[2] for preset in preset_names()}
        known = {method: menu.entry("method", method).scenarios for method in menu.names["method"]}
        assert {(cell.preset, cell.method) for cell in cells} == {
            (preset, method) for preset, scenario in scenarios.items() for method in known if scenario in known[method]
        }

    def test_published_settings(self) -> None:
        """The presets train as documented; Split Digits in batches that leave no last batch of one sample."""
        presets = read_profile("cpu").presets
        digits, mnist = presets["split_digits_class"], presets["split_mnist_class"]

        assert [digits[key] for key in ("model.hidden", "optim.lr", "train.batch", "train.epochs")] == [
            [100, 100],
            0.05,
            10,
            10,
        ]
        assert [mnist[key] for key in ("model.hidden", "optim.lr", "train.batch", "train.epochs")] == [[400, 400], 0.1, 64, 1]
        assert {name: settings["benchmark.scenario"] for name, settings in presets.items()} == {
            name: name.rpartition("_")[2] for name in presets
        }

    @pytest.mark.parametrize("profile", profile_names())
    def test_augmented(self, profile: str) -> None:
        """Photographs are learned moved and mirrored in every profile; digits, clothing and data of one's own as they are."""
        found = {
            preset: settings["train.augment"]
            for preset, settings in read_profile(profile).presets.items()
            if "train.augment" in settings
        }

        assert found == {
            f"{name}_{scenario}": "crop_flip"
            for name in ("split_cifar10", "split_cifar100", "split_tinyimagenet")
            for scenario in ("task", "class", "domain")
        }
