"""Slash commands that are commands of the program too: `/doctor` is `teamwright doctor`, with its output on the screen.

They run in a process of their own, in the session's directory and with its home. Depends on sessions.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Sequence

from teamwright.protocol.errors import UsageError
from teamwright.session.session import Session
from teamwright.ui.display_text import clean

MAX_LINES = 200
"""The number of lines that are shown; the rest is counted."""

PROGRAM_COMMANDS = {
    "/agents": "agents",
    "/config": "config",
    "/doctor": "doctor",
    "/permissions": "permissions",
}
"""The command of the program for each slash command."""

_DEFAULTS = {"config": ("list",)}
"""The arguments of a command that was typed without any."""


def _session_flags(session: Session, words: Sequence[str]) -> list[str]:
    """Return the flags with which `doctor` examines this session: its model, and the terminal that it has."""
    model = [] if "--model" in words else ["--model", session.lead.agent.model.card.name]
    return [*model, "--at-terminal"]


async def program_lines(session: Session, name: str, rest: str) -> list[str]:
    """Run the command of the program with these arguments and return its output. Raises UsageError."""
    command = PROGRAM_COMMANDS[name]
    try:
        words = shlex.split(rest)
    except ValueError:
        raise UsageError("usage", f"{name}: a quote is not closed", note="nothing was run") from None
    home = ("--home", session.options.home) if session.options.home else ()
    if command == "doctor":
        words += _session_flags(session, words)
    argv = (sys.executable, "-P", "-m", "teamwright", command, *(words or _DEFAULTS.get(command, ())), *home)
    child = await asyncio.create_subprocess_exec(
        *argv,
        cwd=session.agent_factory.cwd,
        env={**os.environ, "PAGER": "cat", "NO_COLOR": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
    lines = output.decode("utf-8", "replace").rstrip("\n").split("\n")
    left = len(lines) - MAX_LINES
    more = [f"  … {left:,} more lines: teamwright {command}"] if left > 0 else []
    return [*(f"  {clean(line)}".rstrip() for line in lines[:MAX_LINES]), *more]
