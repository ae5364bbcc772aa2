"""A machine with Python, git and make alone: CI tests it first, and the Makefile names what such a machine lacks."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import PACKAGES, needs, require
from tests.support.waits import WAIT_S

ROOT = Path(__file__).parent.parent

WITHOUT_ENSUREPIP = """#!/bin/sh
exec {python} -c '
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "ensurepip":
            raise ModuleNotFoundError(f"No module named {{name!r}}")

sys.meta_path.insert(0, Missing())
if sys.argv[1] == "-c":
    exec(sys.argv[2])
else:
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
' "$@"
"""
"""A Python without the module that Debian keeps in a package of its own."""


def without_ensurepip(directory: Path) -> Path:
    python = directory / "python3"
    python.write_text(WITHOUT_ENSUREPIP.format(python=shlex.quote(sys.executable)))
    python.chmod(0o755)
    return python


@needs("make")
@pytest.mark.finding("3V1")
@pytest.mark.parametrize("target", ["test", "demo"])
def test_a_python_without_ensurepip_gets_one_line_that_names_the_package_and_leaves_nothing(tmp_path, target):
    python, venv = without_ensurepip(tmp_path), tmp_path / "venv"
    command = ["make", "-s", target, f"PYTHON={python}", f"VENV={venv}"]
    ends = {"capture_output": True, "text": True, "timeout": WAIT_S, "check": False}
    alone = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
    done = subprocess.run(command, cwd=ROOT, env=alone, **ends)
    [line] = done.stdout.splitlines()
    assert line.startswith(f"{python} has no module venv or ensurepip: apt install python3-venv (Debian, Ubuntu)")
    assert "Error 3" in done.stderr and not venv.exists()


@pytest.mark.finding("3V1", "3V2")
def test_ci_tests_the_bare_machine_as_an_ordinary_user_before_it_installs_anything():
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[2] == "bash .ci/bare sh -c 'make test || { make check && make again; }'", lines[:3]
    assert not any("install" in line for line in lines[:2])
    assert "make test || { make check && make again; }" in lines[3:]


@pytest.mark.slow
@pytest.mark.finding("3V1", "3V2")
def test_a_command_on_the_bare_machine_finds_no_further_program_and_is_an_ordinary_users():
    require("unshare")
    names = [name for name, package in PACKAGES.items() if package not in {"bash", "libc-bin", "make", "util-linux"}]
    shows = f"for name in {' '.join(names)}; do [ $name = time ] || command -v $name; done; "
    shows += "ls -d /usr/lib/postgresql/*; id -u; cd; pwd; ls -A; "
    shows += "command -v git; command -v make; python3 -c 'import ensurepip'"
    command = ["bash", ".ci/bare", "sh", "-c", f"{shows}; echo end"]
    ends = {"capture_output": True, "text": True, "timeout": WAIT_S, "check": False}
    done = subprocess.run(command, cwd=ROOT, **ends)
    if "nothing is hidden" in done.stdout:
        pytest.skip("hiding programs needs the superuser, a mount namespace and overlays")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("bare: ") and line != ".config"]
    assert [re.sub(r".*/", "", line) for line in lines] == ["54321", "developer", "teamwright", "git", "make", "end"]
    assert done.returncode == 0, done.stderr
    assert "bare: hidden: " in done.stdout and "other servers are on" in done.stdout


@pytest.mark.finding("3V1")
def test_the_bare_machine_without_rights_runs_the_command_as_the_present_user_and_says_so(tmp_path):
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\nexit 1\n")
    unshare.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ends = {"capture_output": True, "text": True, "timeout": WAIT_S, "check": True}
    done = subprocess.run(["bash", ".ci/bare", "id", "-u"], cwd=ROOT, env=environment, **ends)
    said, uid = done.stdout.splitlines()
    assert said.startswith("bare: ") and "as the present user" in said and uid == str(os.geteuid())
