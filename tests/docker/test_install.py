"""docker/install.sh, with programs that stand in for Python so that nothing is installed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# stands in for a Python: lacks MISSING, is too old where OLD is set, makes a .venv of itself, notes pip's arguments
PYTHON = """#!/bin/sh
case "$*" in
*version_info*) [ -z "{old}" ] && case "$*" in *"{missing}"*) exit 1 ;; esac ;;
"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && echo "$(basename "$0")" >made-by ;;
"-m pip"*) echo "$*" >pip-arguments; echo "$PIP_CONSTRAINT" >pip-constraint ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with docker/install.sh and an empty bin/, the only folder on the path but for three tools."""
    (tmp_path / "docker").mkdir()
    shutil.copy(ROOT / "docker" / "install.sh", tmp_path / "docker")
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "dirname", "basename", "id", "mkdir", "cp"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    return tmp_path


def add_python(checkout: Path, name: str, *, missing: str = "nothing", old: str = "") -> None:
    """Put a stand-in for a Python on the path."""
    path = checkout / "bin" / name
    path.write_text(PYTHON.format(missing=missing, old=old))
    path.chmod(0o755)


def install(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run docker/install.sh with nothing but bin/ on the path."""
    command = [str(checkout / "bin" / "sh"), str(checkout / "docker" / "install.sh"), *arguments]
    return subprocess.run(command, env={"PATH": str(checkout / "bin")}, capture_output=True, text=True, check=False)


class TestInstall:
    """What the script does before and with pip."""

    def test_says_that_there_is_no_python(self, checkout: Path) -> None:
        """Without a Python that is new enough it says so, with the way out, and makes nothing."""
        add_python(checkout, "python3", old="yes")
        done = install(checkout)

        assert done.returncode == 4
        assert done.stderr.startswith("error: docker/install.sh: no Python 3.11 or newer found\n\nhint: ")
        assert not (checkout / ".venv").exists()

    def test_passes_over_an_old_python(self, checkout: Path) -> None:
        """Where python3 is too old, the newest other one is taken."""
        add_python(checkout, "python3", old="yes")
        add_python(checkout, "python3.11")
        add_python(checkout, "python3.12")
        install(checkout)

        assert (checkout / "made-by").read_text() == "python3.12\n"

    def test_prefers_the_users_python3(self, checkout: Path) -> None:
        """A python3 that is new enough is taken, whatever lies beside it."""
        add_python(checkout, "python3")
        add_python(checkout, "python3.14")
        install(checkout)

        assert (checkout / "made-by").read_text() == "python3\n"

    def test_names_the_package_that_is_missing(self, checkout: Path) -> None:
        """Where ensurepip is missing and apt-get cannot be used, the command that helps is named."""
        add_python(checkout, "python3", missing="ensurepip")
        done = install(checkout)

        assert done.returncode == 4
        assert done.stderr.endswith("hint: as root: apt-get install python3-venv\n")

    @pytest.mark.parametrize(("arguments", "extras"), [((), "report"), (("test",), "report,test")])
    def test_installs_the_wheel_at_pinned_versions(self, checkout: Path, arguments: tuple[str, ...], extras: str) -> None:
        """Pip gets the package with its extras, not editable, and the constraints for the build's environment too."""
        add_python(checkout, "python3")
        done = install(checkout, *arguments)

        assert done.returncode == 0, done.stderr
        assert (checkout / "pip-arguments").read_text() == f"-m pip install .[{extras}]\n"
        assert (checkout / "pip-constraint").read_text() == "docker/constraints.txt\n"

    def test_keeps_an_environment_that_works(self, checkout: Path) -> None:
        """A second call makes no second environment."""
        add_python(checkout, "python3")
        install(checkout)
        (checkout / "made-by").unlink()
        install(checkout)

        assert not (checkout / "made-by").exists()


class TestReadme:
    """The two commands that a newcomer types."""

    def test_holds_the_two_commands(self) -> None:
        """The set-up is two lines of README.md; .ci/run takes them from there."""
        lines = (ROOT / "README.md").read_text().splitlines()
        commands = [line for line in lines if line.startswith("sh docker/install.sh")]

        assert commands == [
            "sh docker/install.sh && .venv/bin/contilab demo",
            "sh docker/install.sh test && .venv/bin/pytest -n auto",
        ]

    def test_ci_run_is_a_program(self) -> None:
        """.ci/run may be started by itself."""
        assert os.access(ROOT / ".ci" / "run", os.X_OK)
