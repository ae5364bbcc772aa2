"""Files of a repository that are pipes, loops, devices, endless or closed: every start ends, with a documented code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waits import WAIT_S
from tests.ui.odd_files import KINDS

OF_GIT = (
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/index",
    ".git/hooks",
    ".git/modules",
    ".git/objects",
    ".git/info/exclude",
)
OF_AGENTS = (
    ".gitignore",
    "AGENTS.md",
    "CLAUDE.md",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/agents/x.md",
    ".claude/commands/x.md",
    ".claude/skills/x/SKILL.md",
    ".mcp.json",
    ".teamwright/settings.json",
    ".teamwright/settings.local.json",
    ".teamwright/team.toml",
)
DIRECTORIES = (
    ".git/info",
    ".claude",
    ".teamwright",
    ".claude/agents",
    ".claude/commands",
    ".claude/skills",
    ".claude/skills/x",
)
CODES = {"-p": {0}, "check": {0, 1}, "doctor": {0, 1}}
"""What each command may say of such a repository before anybody trusts it."""


def starts(root: Path, cases: list[tuple[str, str]]) -> list[dict]:
    """What became of every start."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.ui.odd_files", str(root), json.dumps(cases)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"ANTHROPIC_API_KEY": "sk-test"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=5 * WAIT_S,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(cases) * len(CODES)
    return found


def wrong(found: list[dict]) -> list[dict]:
    return [one for one in found if one["code"] not in CODES[one["command"]] or "Traceback" in one["said"]]


@pytest.mark.slow
@pytest.mark.promise("K1")
@pytest.mark.finding("P17")
@pytest.mark.parametrize("files", [".git", ".git/HEAD", "+".join((*OF_GIT, *OF_AGENTS))], ids=["git", "HEAD", "others"])
def test_no_odd_file_of_a_repository_keeps_a_start_or_ends_it_as_a_bug(tmp_path, files):
    assert wrong(starts(tmp_path, [(kind, files) for kind in KINDS])) == []


@pytest.mark.slow
@pytest.mark.finding("P17")
@pytest.mark.parametrize("kind", KINDS)
def test_no_single_odd_file_of_a_repository_keeps_a_start_or_ends_it_as_a_bug(tmp_path, kind):
    files = ("HEAD", *OF_GIT, *OF_AGENTS, *DIRECTORIES)
    assert wrong(starts(tmp_path, [(kind, file) for file in files])) == []


def test_a_start_that_hangs_would_be_noticed(tmp_path):
    script = "import tests.ui.odd_files as odd; odd.LIMIT_S = 0.1; odd.run = lambda args: __import__('time').sleep(600)"
    script += f"; print(odd.start([], odd.Path({str(tmp_path)!r}), odd.Path({str(tmp_path / 'said')!r}))[0])"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "hangs\n"
