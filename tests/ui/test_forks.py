"""Forks from the command line: a headless run starts general-purpose in their place."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import preloaded
from tests.support.waits import WAIT_S

SCRIPT = """
[[agent.lead.turn]]
say = "Let me ask."
[[agent.lead.turn.call]]
tool = "Agent"
input = { description = "look", prompt = "Look." }

[[agent.lead.turn]]
say = "Done."

[[agent.general-purpose.turn]]
say = "Looked."
"""


@pytest.mark.promise("F41", "row F5")
@pytest.mark.finding("C9")
def test_a_headless_run_with_forks_wanted_starts_general_purpose_and_says_so(tmp_path):
    (tmp_path / "given.json").write_text(json.dumps({"agents": {"fork": True}}))
    (tmp_path / "script.toml").write_text(SCRIPT)
    flags = ["--settings", str(tmp_path / "given.json"), "--model", f"scripted:{tmp_path / 'script.toml'}"]
    made = preloaded.run(
        [sys.executable, "-m", "teamwright", "-p", "Go.", *flags],
        cwd=tmp_path,
        env=os.environ,
        text=True,
        timeout=WAIT_S,
        stdin=subprocess.DEVNULL,
    )
    assert (made.returncode, made.stdout) == (0, "Done.\n"), made.stderr
    assert made.stderr.count("agents.fork has no effect in a headless run") == 1
    [log] = Path(os.environ["TEAMWRIGHT_HOME"]).rglob("events.jsonl")
    kinds = [json.loads(line) for line in log.read_text().splitlines()]
    assert {one["kind"] for one in kinds if one["type"] == "subagent_changed"} == {"general-purpose"}
