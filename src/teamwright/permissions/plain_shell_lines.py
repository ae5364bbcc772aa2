"""The lines that run in plain bash, because a mode may allow them without a rule.

Their verdict rests on what bash does with the line. Another shell differs in more than its syntax: zsh evaluates
arithmetic in `printf %d PATH=0`, and options of the user (`dotglob`) change which files a pattern names.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.permissions.file_changes import find_changes
from teamwright.permissions.line_confinement import HARMLESS_TARGETS
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.permissions.shell.parser import parse_command


def runs_in_plain_bash(command: str, cwd: Path) -> bool:
    """Return True when each command of the line only reads, or changes files as modes accept it."""
    parsed = parse_command(command, cwd)
    written = (one for one in parsed.redirects if one.writes and one.target not in HARMLESS_TARGETS)
    if not parsed.is_valid or parsed.doubt or any(written):
        return False
    found = (one for one in parsed.commands if one.role in {"run", "unsure"})
    return all(prove_read_only(one) is not None or find_changes(one) is not None for one in found)
