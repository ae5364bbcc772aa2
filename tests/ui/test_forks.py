"""Forks from the command line: a headless run refuses them with the reason, before anything starts."""

import json
import os
import subprocess
import sys

import pytest

from tests.support import preloaded
from tests.support.waits import WAIT_S


@pytest.mark.promise("F41", "row F5")
def test_a_headless_run_with_forks_wanted_does_not_start_and_says_why(tmp_path):
    (tmp_path / "given.json").write_text(json.dumps({"agents": {"fork": True}}))
    (tmp_path / "script.toml").write_text("")
    flags = ["--settings", str(tmp_path / "given.json"), "--model", f"scripted:{tmp_path / 'script.toml'}"]
    made = preloaded.run(
        [sys.executable, "-m", "teamwright", "-p", "Go.", *flags],
        cwd=tmp_path,
        env=os.environ,
        text=True,
        timeout=WAIT_S,
        stdin=subprocess.DEVNULL,
    )
    assert made.returncode == 3
    assert "agents.fork is on and cannot be honoured: in a headless run no person sees the work of forks" in made.stderr
    assert str(tmp_path / "given.json") in made.stderr and "run it at a terminal, or from Python" in made.stderr
    assert "[bad-settings]" in made.stderr and not made.stdout
    assert not list(tmp_path.rglob("events.jsonl"))
