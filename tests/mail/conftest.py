"""An inbox for a test, entries of strangers, and processes that are gone at the end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.mail.inbox import inbox_for

CHILD = Path(__file__).with_name("child.py")


@pytest.fixture
def start(tmp_path):
    """Start a program of child.py on this test's directory; its stdout is a pipe of lines."""
    running = []

    def run(name, *arguments):
        command = [sys.executable, str(CHILD), name, str(tmp_path), *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def place(tmp_path):
    """Path, guard and archive of bob's inbox."""
    return tmp_path / "t" / "bob.json", tmp_path / "g" / "bob.json", tmp_path / "bob.jsonl"


@pytest.fixture
def path(place):
    return place[0]


@pytest.fixture
def inbox(place):
    """Bob's inbox in the running loop: call it."""
    return lambda: inbox_for(*place)


@pytest.fixture
def on_disk(path):
    """The entries as any JSON reader sees them: call it."""
    return lambda: json.loads(path.read_bytes())
