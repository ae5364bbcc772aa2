"""Processes of strangers and of ours for the tests of this room; all are gone at the end, whatever happened."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import require

HERE = Path(__file__).parent
PACKAGES = Path(sys.prefix) / "npm" / "node_modules"


@pytest.fixture
def start():
    """Start a command; its stdin and stdout are pipes of lines."""
    running = []

    def run(*command, **more):
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"NODE_PATH": str(PACKAGES)},
            **more,
        )
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def ours(start):
    """Start a program of ours.py."""
    return lambda name, *arguments: start(sys.executable, HERE / "ours.py", name, *arguments)


@pytest.fixture
def stranger(start):
    """Start a stranger's script, which imports nothing of ours: `stranger("older.py", "send", …)`."""
    return lambda script, *arguments: start(sys.executable, "-I", HERE / script, *arguments)


@pytest.fixture
def npm(start):
    """Start a program of npm.js, which uses the real proper-lockfile; skips with the reason where there is none."""
    node = require("node")
    if not (PACKAGES / "proper-lockfile").is_dir():
        require("npm")
        pytest.skip(f"proper-lockfile is not in {PACKAGES}: `make pytest` installs it")
    return lambda name, *arguments: start(node, HERE / "npm.js", name, *arguments)
