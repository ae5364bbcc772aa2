"""JSON of the session's policy, for the connection of processes.

Depends on `permissions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Mode, Verdict


def policy_to_json(policy: Policy, from_settings: Sequence[Rule]) -> dict[str, Any]:
    """Return the present mode and directories of the session's policy, and its rules that are not from settings."""
    known = set(map(id, from_settings))
    return {
        "mode": str(policy.effective_mode),
        "rules": [
            [str(one.verdict), one.text, one.source, one.by_user, one.trusted]
            for one in policy.rules
            if id(one) not in known
        ],
        "directories": [str(path) for path in policy.scope.directories],
    }


def rules_from_json(data: Mapping[str, Any], base: Path) -> tuple[Rule, ...]:
    """Return the rules in an object of `policy_to_json`."""
    rules: list[Rule] = []
    for verdict, text, source, *flags in cast("list[tuple[str, str, str, bool, bool]]", data["rules"]):
        rules += parse_rules([text], Verdict(verdict), source, base, *flags)
    return tuple(rules)


def apply_policy(policy: Policy, data: Mapping[str, Any], *, is_elsewhere: bool) -> tuple[Path, ...]:
    """Apply the lead's mode and directories to this process's policy; return the new directories.

    `is_elsewhere`: the lead is on another machine, and the same paths are other directories here. So none applies.
    """
    before = policy.scope.directories
    directories = before if is_elsewhere else tuple(Path(path) for path in data["directories"])
    if directories != before:
        policy.change_scope(replace(policy.scope, directories=directories))
    if (mode := Mode(data["mode"])) is not policy.mode:
        policy.change_mode(mode)
    return tuple(one for one in directories if one not in before)
