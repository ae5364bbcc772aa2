"""Commands in texts for users, completed with the home that this run uses."""

from __future__ import annotations

import os
import re
from shlex import quote

_COMMAND = re.compile(r"\bteamwright (?=[a-z-])")


def command_with_home(command: str, home: str | None) -> str:
    """Return the command with the home that was named for this run; unchanged without one, or if it names one.

    It also works within a sentence: `end it with: teamwright stop crew`.
    """
    if home is None or "--home" in command:
        return command
    where = quote(os.path.abspath(os.path.expanduser(home)))
    return _COMMAND.sub(lambda _: f"teamwright --home {where} ", command, count=1)
