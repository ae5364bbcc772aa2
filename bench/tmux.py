"""A private tmux server for a benchmark: its one pane is where the lead is said to be. Ended with all that is in it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.fresh import clean_env

LIMIT_S = 60.0


def absent() -> str:
    """Why there is none here, a sentence; empty when there is one."""
    return "" if shutil.which("tmux") else "tmux is not installed: its rows are left out."


@contextmanager
def in_tmux(backend: str, root: Path) -> Generator[dict[str, str]]:
    """What the environment of a lead in tmux says; nothing, and no server, for another backend."""
    if backend != "tmux":
        yield {}
        return
    program, socket = shutil.which("tmux") or "tmux", str(root / "t")

    def run(*words: str) -> str:
        argv = [program, "-S", socket, "-f", "/dev/null", *words]
        return subprocess.run(
            argv, env=clean_env(), capture_output=True, text=True, check=True, timeout=LIMIT_S
        ).stdout.strip()

    pane, number, session = run(
        *("new-session", "-d", "-x", "200", "-y", "50", "-P", "-F", "#{pane_id} #{pid} #{session_id}", "cat")
    ).split()
    try:
        yield {"TMUX": f"{socket},{number},{session[1:]}", "TMUX_PANE": pane}
    finally:
        run("kill-server")
