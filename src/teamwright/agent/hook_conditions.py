"""Conditions of hooks: whether a tool call matches the permission rule that a hook has as its `if`.

A condition chooses hooks and protects nothing: a line that cannot be read matches every condition for commands. Depends
on rules of permissions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from teamwright.permissions.rules import Rule, parse_rule
from teamwright.permissions.verdict import Access, Verdict
from teamwright.protocol.errors import UsageError
from teamwright.storage.real_paths import real_path

_PATH_FIELDS = ("file_path", "notebook_path", "path")


def matches_condition(condition: str, tools: Sequence[str], access: Access, base: Path) -> bool:
    """Return True when a call of a tool with these names matches the rule; False for an invalid rule.

    Relative patterns of paths begin at `base`. Of a command line one command must match.
    """
    rule = _parse(condition, base)
    if rule is None or not any(map(rule.names_tool, tools)):
        return False
    if rule.is_whole_tool:
        return True
    if access.command is not None:
        return _matches_line(rule, access.command, access.cwd or base)
    paths = (*access.reads, *access.writes)
    if paths:
        return any(rule.matches_path(str(path), real_path(path)) for path in paths)
    return rule.matches_url(access.url) if access.url is not None else rule.matches_subject(access.subject)


def access_of_input(fields: Mapping[str, Any], cwd: Path) -> Access:
    """Return what an input touches, by the usual names of fields, for a call that is known by its input only."""
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    paths = tuple(cwd / texts[name] for name in _PATH_FIELDS if name in texts)
    subject = texts.get("subagent_type") or texts.get("skill")
    return Access(reads=paths, command=texts.get("command"), cwd=cwd, url=texts.get("url"), subject=subject)


@lru_cache(maxsize=256)
def _parse(condition: str, base: Path) -> Rule | None:
    try:
        return parse_rule(condition, Verdict.ASK, "a hook", base)
    except UsageError:
        return None


def _matches_line(rule: Rule, command: str, cwd: Path) -> bool:
    # The grammar of the shell is slow to load, so only a hook with a condition on commands loads it.
    from teamwright.permissions.git_policy import deny_forms
    from teamwright.shell_lines.parse import parse_command

    parsed = parse_command(command, cwd)
    if not parsed.is_valid or parsed.may_run_input:
        return True
    return any(rule.could_match(form) for one in parsed.commands for form in deny_forms(one.words))
