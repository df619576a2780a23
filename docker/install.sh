#!/bin/sh
# Make .venv and install contilab into it, at the versions of docker/constraints.txt:
#
#   sh docker/install.sh         what a user needs
#   sh docker/install.sh test    and what the tests need
#
# PYTHON=python3.13 sh docker/install.sh takes that Python. Installing again is quick and takes up what changed.
set -eu
cd "$(dirname "$0")/.."

fail() {  # the problem, the way out
  printf 'error: docker/install.sh: %s\n\nhint: %s\n' "$1" "$2" >&2
  exit 4
}

suffices() {  # a command: is it a Python that contilab runs on, with these modules?
  "$1" -c "import sys${2:+, $2}; sys.exit(sys.version_info < (3, 11))" 2>/dev/null
}

find_python() {  # python3 first, since it is the user's own choice; it may be older than others that lie beside it
  for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    suffices "$name" && echo "$name" && return
  done
  fail "no Python 3.11 or newer found" "install one (Debian, Ubuntu: apt-get install python3), or name it: PYTHON=/path/to/python3 sh docker/install.sh"
}

add_venv() {  # Debian and Ubuntu keep what `python3 -m venv` needs in a package of its own
  package=$(basename "$1")-venv
  if [ "$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi
  if ! command -v apt-get >/dev/null || ! command -v ${sudo:-true} >/dev/null; then
    fail "$1 cannot make virtual environments (it lacks ensurepip)" "as root: apt-get install $package"
  fi
  $sudo apt-get update -qq
  $sudo apt-get install -qq --no-install-recommends "$package"
}

if ! suffices .venv/bin/python pip; then  # none yet, or one that was broken off
  python=$(find_python)
  suffices "$python" venv,ensurepip || add_venv "$python"
  "$python" -m venv --clear .venv
fi

# constraints by variables, since these reach the environment that pip builds the wheel in too; a pip newer than 26.1 wants the second
export PIP_CONSTRAINT=docker/constraints.txt PIP_BUILD_CONSTRAINT=docker/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
.venv/bin/python -m pip install ".[report${1:+,$1}]"
