"""JSON of permission questions, answers, grants and the session's policy, for the connection of processes.

Depends on `permissions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import to_builtins
from msgspec.structs import replace

from teamwright.permissions.decide import Policy
from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Mode, PermissionAnswer, PermissionUpdate, Question, Verdict


def question_to_json(question: Question) -> dict[str, Any]:
    """Return the question as an object."""
    return to_builtins(question)


def question_from_json(data: Mapping[str, Any]) -> Question:
    """Parse a question."""
    said: dict[str, Any] = {name: data[name] for name in Question.__struct_fields__ if name in data}
    said["options"] = tuple(said.get("options", ()))
    said["suggestions"] = _updates(said.get("suggestions", ()))
    return Question(**said)


def answer_to_json(answer: PermissionAnswer) -> dict[str, Any]:
    """Return the answer as an object."""
    return to_builtins(answer)


def answer_from_json(data: Mapping[str, Any]) -> PermissionAnswer:
    """Parse an answer."""
    said: dict[str, Any] = {**data, "updates": _updates(data.get("updates", ()))}
    return PermissionAnswer(**said)


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
    made: list[Rule] = []
    for verdict, text, source, *said in cast("list[tuple[str, str, str, bool, bool]]", data["rules"]):
        made += parse_rules([text], Verdict(verdict), source, base, *said)
    return tuple(made)


def apply_policy(policy: Policy, data: Mapping[str, Any]) -> tuple[Path, ...]:
    """Apply the lead's mode and directories to this process's policy; return the new directories."""
    before, directories = policy.scope.directories, tuple(Path(path) for path in data["directories"])
    if directories != before:
        policy.change_scope(replace(policy.scope, directories=directories))
    if (mode := Mode(data["mode"])) is not policy.mode:
        policy.change_mode(mode)
    return tuple(one for one in directories if one not in before)


def _updates(given: object) -> tuple[PermissionUpdate, ...]:
    made: list[PermissionUpdate] = []
    for one in cast("list[dict[str, Any]]", given or ()):
        said: dict[str, Any] = {**one, "rules": tuple(one["rules"]), "directories": tuple(one["directories"])}
        made.append(PermissionUpdate(**said))
    return tuple(made)
