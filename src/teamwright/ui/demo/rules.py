"""Permission rules for the demo's script: git commands that only read, without the repository's settings.

Git commands of this form run no program of the repository, fetch nothing and take no lock, whatever its configuration
contains. So they are safe before the repository is trusted. A test compares this file with demo.toml.
"""

from __future__ import annotations

GIT_COMMAND = (
    "git --no-pager --no-optional-locks -c core.fsmonitor=false -c core.hooksPath=/dev/null -c protocol.allow=never"
    " -c protocol.ext.allow=never -c fetch.prune=refused -c core.quotePath=false -c color.ui=false"
    " -c grep.column=false"
)
"""The start of each git command of the script."""

_READING_COMMANDS = (
    "log -1 --no-show-signature",
    "log -z -n 5000 --no-show-signature --no-ext-diff --no-textconv",
    "rev-parse --is-shallow-repository",
    "ls-tree -r -z --full-tree",
    "grep -zIn",
    "grep -zInwF",
    "--literal-pathspecs grep -zIc",
    "blame --line-porcelain --no-textconv --ignore-revs-file=",
)

READING_RULES = tuple(f"Bash({GIT_COMMAND} {words} *)" for words in _READING_COMMANDS)
"""Allow rules for a session that plays demo.toml; its other commands (awk, tr, printf) are known to be read-only."""
