"""Commands that somebody is told to type, as they work where this run keeps its state.

Knows a command's words and a home; starts nothing.
"""

from __future__ import annotations

import os
import re
from shlex import quote

_COMMAND = re.compile(r"\bteamwright (?=[a-z-])")


def command_with_home(command: str, home: str | None) -> str:
    """The command with the home that was named for this run; as it is where none was, or where it names one itself.

    Also within a sentence, and with words before it: `end it with: teamwright stop crew`.
    """
    if home is None or "--home" in command:
        return command
    where = quote(os.path.abspath(os.path.expanduser(home)))
    return _COMMAND.sub(lambda _: f"teamwright --home {where} ", command, count=1)
