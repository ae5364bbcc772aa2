"""A session with edits of several prompts, for rewinds and forks."""

from pathlib import Path

import pytest

from tests.ui.edit_history.test_diff_and_undo import edit
from tests.ui.member_processes.house import BYPASS
from tests.ui.subagents.play import Play, call


@pytest.fixture
def edited(repo: Path, own_home: Path):
    """A session with three prompts: the first two edit a file, the third makes another."""
    play = Play(
        [
            call("Read", file_path="main.py"),
            edit("main.py", "hello", "first"),
            "First.",
            call("Read", file_path="main.py"),
            edit("main.py", "first", "second"),
            "Second.",
            call("Write", file_path="deep/new.txt", content="new\n"),
            "Third.",
        ]
    )
    with play.on(repo, own_home / ".teamwright") as program:
        assert program.run("-p", "make it first", BYPASS).returncode == 0
        assert program.run("-c", "-p", "make it second", BYPASS).returncode == 0
        assert program.run("-c", "-p", "make a file", BYPASS).returncode == 0
        yield program, play
