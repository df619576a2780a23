import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from contilab.manifest.profile import preset_names
from contilab.manifest.schema import schema
from contilab.plan.menu import catalog_menu

MANIFESTS = sorted((Path(__file__).parents[2] / "manifests").glob("*.toml"))
GOOD = {"name": "a", "matrix": {"preset": ["synthetic_task"], "method": ["er"], "seed": [0]}}


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    """Return the validator of the schema of what the catalog offers."""
    return Draft202012Validator(schema(catalog_menu()))


class TestSchema:
    """The JSON schema of manifests."""

    def test_draft(self, validator) -> None:
        """The schema is itself valid, and says by which draft."""
        Draft202012Validator.check_schema(validator.schema)

        assert validator.schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"

    @pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
    def test_shipped_manifests(self, validator, path: Path) -> None:
        """Every shipped manifest is valid."""
        validator.validate(tomllib.loads(path.read_text(encoding="utf-8")))

    def test_names(self, validator) -> None:
        """Editors can complete every preset and method."""
        matrix = validator.schema["$defs"]["matrix"]["properties"]

        assert sorted(matrix["preset"]["items"]["enum"]) == list(preset_names())
        assert sorted(matrix["method"]["items"]["enum"]) == list(catalog_menu().names["method"])

    def test_meanings(self, validator) -> None:
        """Every setting says what it means."""
        settings = validator.schema["$defs"]["settings"]["properties"]

        assert [key for key, value in settings.items() if not value.get("description")] == []

    @pytest.mark.parametrize("overrides", [{"optim.lr": 1}, {"optim": {"lr": 1}}])
    def test_ways_of_writing(self, validator, overrides: dict[str, object]) -> None:
        """A dotted key and a table are both known."""
        assert validator.is_valid({**GOOD, "overrides": overrides})

    @pytest.mark.parametrize(
        "change",
        [
            {"overrides": {"model.name": "nets.small:cnn", "model.width": 64}},
            {"overrides": {"model": {"name": "nets:cnn", "width": 64}}},
            {"sweep": {"model.name": ["mlp", "nets:cnn"], "model.width": [32, 64]}},
            {"preset_overrides": {"synthetic_task": {"model.name": "nets:cnn"}}},
        ],
        ids=str,
    )
    def test_own_models(self, validator, change: dict[str, object]) -> None:
        """A model of one's own may be named wherever one of the catalog may, and its settings with it."""
        assert validator.is_valid({**GOOD, **change})

    @pytest.mark.parametrize(
        "change",
        [
            {"overrides": {"model.name": "nets:"}},
            {"overrides": {"model.name": "mlpp"}},
            {"sweep": {"model.name": ["mlp", "2nets:cnn"]}},
            {"sweep": {"model.width": 32}},
            {"overrides": {"optim.lr": 0}},
            {"overrides": {"optim": {"lr": "0.1"}}},
            {"overrides": {"train.epoch": 1}},
            {"overrides": {"benchmark.class_mask": "sean"}},
            {"sweep": {"engine.threads": [1, 2]}},
            {"sweep": {"optim.lr": []}},
            {"method_sweep": {"naive": {"memory.total": [1]}}},
            {"profile": "cpuu"},
            {"name": "A"},
            {"command line": {}},
            {"matrix": {"preset": ["synthetic_task"], "method": ["er"], "seed": [2**53]}},
            {"matrix": {"preset": ["synthetic_task"], "method": ["er"]}},
        ],
        ids=str,
    )
    def test_faults(self, validator, change: dict[str, object]) -> None:
        """Types, ranges, names and missing keys are found while typing."""
        assert not validator.is_valid({**GOOD, **change})
