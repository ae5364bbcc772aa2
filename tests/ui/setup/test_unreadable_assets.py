"""What cannot be read, by rights or by kind, is named with its reason, and never breaks the command that looks."""

import ctypes
import os
import subprocess
import sys

import pytest

from tests.session.compatibility.folder import put
from tests.support.waits import WAIT_S

_DROP, _OVERRIDE, _SEARCH = 24, 1, 2
AGENT = "---\nname: a\ndescription: Does.\n---\nYou do.\n"


def _without_rights() -> None:
    """As root, too, rights count: what root may read anyway is taken away before the program begins."""
    libc = ctypes.CDLL(None)
    for capability in (_OVERRIDE, _SEARCH):
        libc.prctl(_DROP, capability, 0, 0, 0)


def check(cwd, home, *words):
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_COLOR": "1"}
    argv = [sys.executable, "-P", "-m", "teamwright", *(words or ("check",))]
    return subprocess.run(
        argv, cwd=cwd, env=env, preexec_fn=_without_rights, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


@pytest.fixture
def places(tmp_path):
    home, repo = tmp_path / "home", tmp_path / "repo"
    for base in (home, repo):
        put(base, ".claude/agents/a.md", AGENT)
        put(base, ".claude/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\nText")
        put(base, ".claude/commands/c.md", "Text.")
    put(repo, "CLAUDE.md", "Text.")
    put(home, ".claude/settings.json", "{}")
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    return home, repo


@pytest.mark.slow_after(1)
@pytest.mark.skipif(sys.platform != "linux", reason="root's rights are taken away as Linux does")
@pytest.mark.promise("K7")
@pytest.mark.parametrize(
    ("name", "group", "why"),
    [
        ("repo/CLAUDE.md", "instructions", "Permission denied"),
        ("repo/.claude/agents/a.md", "agents", "Permission denied"),
        ("home/.claude/agents", "agents", "this directory cannot be listed"),
        ("home/.claude/skills", "skills", "Permission denied"),
        ("home/.claude/commands", "commands", "Permission denied"),
        ("home/.claude/settings.json", "settings", "Permission denied"),
        ("home/.claude", "settings", "Permission denied"),
    ],
)
def test_what_nobody_may_read_is_broken_and_says_why(places, tmp_path, name, group, why):
    home, repo = places
    assert check(repo, home, "trust", "--yes").returncode == 0
    path = tmp_path / name
    path.chmod(0)
    try:
        done = check(repo, home)
    finally:
        path.chmod(0o755)
    assert (done.returncode, done.stderr) == (1, "")
    section = done.stdout.partition(f"{group}\n")[2]
    broken = section.partition("  broken ")[2].partition("\n  used ")[0]
    assert why in " ".join(broken.split()), done.stdout


@pytest.mark.promise("K7")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "it is a directory"),
        (lambda path: path.symlink_to("nowhere"), "it is a link that leads nowhere"),
        (os.mkfifo, "it is no plain file"),
        (lambda path: path.write_bytes(b"\0\1"), "it is no text"),
    ],
)
@pytest.mark.slow_after(1)
def test_instructions_that_are_no_text_say_what_they_are(places, make, why):
    home, repo = places
    (repo / "CLAUDE.md").unlink()
    make(repo / "CLAUDE.md")
    done = check(repo, home)
    assert done.returncode == 1
    assert f"  broken       CLAUDE.md  {why}\n" in done.stdout
