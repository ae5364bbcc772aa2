"""Offers: grants that a person may add to an approval, so that similar calls are not asked about again.

Grants out of bounds are not offered. Depends on a policy.
"""

from __future__ import annotations

from pathlib import Path

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.grant_bounds import out_of_bounds
from teamwright.permissions.path_verdicts import containing_directory
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import READ_TOOLS, WRITE_TOOLS
from teamwright.permissions.verdict import Access, Decision, Mode, PermissionUpdate, Verdict

_MAX_OFFERS = 3


def suggest_updates(
    tool: str, access: Access, decision: Decision, policy: Policy, always: str, *, is_limited: bool = False
) -> tuple[PermissionUpdate, ...]:
    """Return the grants that a person may add to an approval of this call.

    They are the directory of the call, the mode that accepts edits, or `always`, the rule that "always" would store
    (empty: none), and the rules that run the command outside the sandbox. `is_limited`: the sandbox keeps the command
    from something that it names, so that these rules are what helps. Nothing else is offered for a question by a rule,
    a guarded path or path ownership, and nothing that `grant_bounds` would refuse.
    """
    if decision.verdict is not Verdict.ASK:
        return ()
    outside_sandbox = _unconfined_rules(access, policy) if is_limited else ()
    if not decision.is_by_mode:
        return outside_sandbox
    touched = _used_directories(tool, access, policy.scope)
    if touched is not None:
        places, changes = touched
        outside = tuple(dict.fromkeys(str(place) for place in places if not _is_inside(place, policy.scope)))
        edits = changes and policy.effective_mode is Mode.DEFAULT
        fine = len(outside) <= _MAX_OFFERS and all(_may_be_offered(Path(one), policy.scope) for one in outside)
        if fine and (outside or edits):
            found = (PermissionUpdate("addDirectories", directories=outside),) if outside else ()
            found += (PermissionUpdate("setMode", mode=Mode.ACCEPT_EDITS),) if edits else ()
            return (*found, *outside_sandbox)
    inside = (PermissionUpdate("addRules", rules=(always,)),) if always else ()
    return (*inside, *(outside_sandbox or (_unconfined_rules(access, policy) if access.sandbox else ())))


def _unconfined_rules(access: Access, policy: Policy) -> tuple[PermissionUpdate, ...]:
    """Return the rules that run the same line outside the sandbox, if there is one and the rules would be narrow."""
    from teamwright.permissions.always_rule import exact_commands

    rules = tuple(f"Unconfined({line})" for line in exact_commands(access, policy.scope))
    return (PermissionUpdate("addRules", rules=rules),) if rules else ()


def _used_directories(tool: str, access: Access, scope: PermissionScope) -> tuple[list[Path], bool] | None:
    """Return the directories that a call uses, and whether it changes files in them; None when it does more."""
    if access.command is not None:
        from teamwright.permissions.shell_verdict import used_directories

        return used_directories(access, scope)
    if tool in READ_TOOLS | WRITE_TOOLS and (access.reads or access.writes):
        return [containing_directory(path) for path in (*access.reads, *access.writes)], bool(access.writes)
    return None


def _is_inside(place: Path, scope: PermissionScope) -> bool:
    return any(place.is_relative_to(directory) for directory in scope.directories)


def _may_be_offered(place: Path, scope: PermissionScope) -> bool:
    return len(place.parts) > 2 and str(place).isprintable() and not out_of_bounds(place, scope)
