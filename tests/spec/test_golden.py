"""The committed table of specifications and addresses: addresses survive every upgrade."""

import hashlib
import json
from pathlib import Path

import pytest

from contilab.spec.canonical import canonical
from contilab.spec.group import group_address
from contilab.spec.run import run_from

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text(encoding="utf-8"))


class TestGolden:
    """Every committed specification keeps its address."""

    @pytest.mark.parametrize("case", GOLDEN["runs"], ids=[case["name"] for case in GOLDEN["runs"]])
    def test_runs(self, case):
        """A run read from its specification has the committed address, which is the SHA-256 of the committed canonical text."""
        run = run_from(case["spec"])

        assert run.rid == case["rid"]
        assert canonical(run.spec).decode() == case["canonical"]
        assert hashlib.sha256(case["canonical"].encode()).hexdigest() == case["rid"]

    def test_all_different(self):
        """No two cases share an address."""
        rids = [case["rid"] for case in GOLDEN["runs"]]

        assert len(set(rids)) == len(rids) >= 6

    @pytest.mark.parametrize("case", GOLDEN["groups"], ids=lambda case: case["gid"][:12])
    def test_groups(self, case):
        """A group has the committed address, in whatever order its runs are given."""
        assert group_address(case["rids"]) == group_address(reversed(case["rids"])) == case["gid"]
