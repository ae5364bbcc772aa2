"""Processes for the tests of this room: started by name, told apart, and gone at the end whatever happened."""

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("child.py")


@pytest.fixture
def start():
    """Start a program of child.py; its stdout is a pipe of lines."""
    running = []

    def run(name, *arguments, **options):
        command = [sys.executable, str(CHILD), name, *map(str, arguments)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, **options)
        running.append(process)
        return process

    yield run
    for process in running:
        process.kill()
        process.communicate()
