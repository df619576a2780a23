"""The two Dockerfiles and what they build from."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DOCKERFILES = ("Dockerfile", "Dockerfile.cuda")


def instructions(name: str) -> list[str]:
    """Return the lines of a Dockerfile that are not comments."""
    return [line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")]


def pins() -> dict[str, str]:
    """Return the versions of docker/constraints.txt by canonical name."""
    lines = (ROOT / "docker" / "constraints.txt").read_text().splitlines()
    return {
        canonicalize_name(name): version for name, version in (line.split("==") for line in lines if not line.startswith("#"))
    }


class TestDockerfiles:
    """Dockerfile and Dockerfile.cuda as texts; the container tests build the first."""

    def test_differ_in_torchs_index_only(self) -> None:
        """Dockerfile.cuda is Dockerfile but for the index that torch comes from."""
        pairs = zip(instructions("Dockerfile"), instructions("Dockerfile.cuda"), strict=True)
        differing = [pair for pair in pairs if pair[0] != pair[1]]

        index = "ARG TORCH_INDEX=https://download.pytorch.org/whl/"
        assert differing == [(f"{index}cpu", f"{index}cu130")]

    @pytest.mark.parametrize("name", DOCKERFILES)
    def test_name_no_architecture_and_need_no_newer_engine(self, name: str) -> None:
        """Neither names an architecture, nor uses what engine 20.10 cannot build without a download."""
        text = (ROOT / name).read_text()

        assert re.findall(r"amd64|arm64|x86_64|aarch64|--platform|# *syntax *=|<<|--link|--mount", text) == []

    @pytest.mark.parametrize("name", DOCKERFILES)
    def test_start_contilab_itself_and_not_as_root(self, name: str) -> None:
        """The entry point is in exec form, so that signals reach contilab; the user is a number, which a cluster can check."""
        lines = instructions(name)

        assert [line for line in lines if line.startswith("ENTRYPOINT")] == ['ENTRYPOINT ["contilab"]']
        assert [line for line in lines if line.startswith("USER")] == ["USER 1000:1000"]

    def test_copy_only_what_dockerignore_lets_through(self) -> None:
        """Each file that is copied from the checkout stands in .dockerignore, and nothing else does."""
        copies = [line.split()[1:-1] for line in instructions("Dockerfile") if line.startswith("COPY") and "--from" not in line]
        ignore = (ROOT / ".dockerignore").read_text().splitlines()

        assert {source for sources in copies for source in sources} == {line[1:] for line in ignore if line.startswith("!")}
        assert "*" in ignore


class TestConstraints:
    """docker/constraints.txt, the versions that everything is installed at."""

    def test_pin_each_requirement_within_its_range(self) -> None:
        """What the package, its extras and its build require is pinned, to a version that pyproject.toml accepts."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        extras = project["project"]["optional-dependencies"]
        names = [*project["build-system"]["requires"], *project["project"]["dependencies"], *extras["report"], *extras["test"]]
        required = [Requirement(name) for name in names]

        pinned = pins()
        assert [r.name for r in required if not r.specifier.contains(pinned.get(canonicalize_name(r.name), "0"))] == []

    def test_name_no_build_and_no_place(self) -> None:
        """Pins are plain versions: no local version such as +cpu, no address, so that every index can serve them."""
        assert [version for version in pins().values() if not re.fullmatch(r"[0-9]+(\.[0-9]+)*", version)] == []
