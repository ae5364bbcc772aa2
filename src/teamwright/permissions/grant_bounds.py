"""Bounds of grants: the most that an update may grant, for each approver.

Grants equal to no permissions at all (bypass, the root, a rule for every command) are refused here; a person writes
them into settings.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.rules import PATH_TOOLS, Rule, fixed_directory, parse_rule
from teamwright.permissions.verdict import Mode, PermissionUpdate, Verdict
from teamwright.protocol.errors import UsageError
from teamwright.sandbox.guarded_files import guard_name
from teamwright.sandbox.known_paths import CREDENTIALS
from teamwright.sandbox.policy import is_inside
from teamwright.shell_lines.command_words import base_name, word_set
from teamwright.storage.real_paths import real_path

GRANTED_MODES = (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK)
"""Modes that an update may set. The others need a person's flag or setting, or belong to the lead."""

_NARROWABLE = PATH_TOOLS | {"Bash", "WebFetch"}
_SYSTEM_DIRECTORIES = word_set(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /opt /proc /root /run /sbin /srv /sys /usr /var /mnt /media"
    " /Applications /Library /System /Users /Volumes /private /private/etc /private/var"
)
_RUN_ANYTHING = word_set("su env eval exec xargs source .")
"""Programs that run others, besides interpreters, wrappers and launchers."""
_NEVER_BELOW = ("/dev/", "/proc/", "/sys/", "/boot/")


def out_of_bounds(place: Path, scope: PermissionScope) -> str:
    """Return the reason why no update may grant this directory, given by its real path; empty when one may."""
    real = Path(real_path(place))
    prefix = f"{real}/"
    if str(real) in _SYSTEM_DIRECTORIES or prefix.startswith(_NEVER_BELOW):
        return f"{real} belongs to the whole system"
    if Path(real_path(os.path.expanduser("~"))).is_relative_to(real):
        return f"{real} is, or holds, the home directory"
    for private in scope.private:
        if real.is_relative_to(private) or private.is_relative_to(real):
            return f"{real} is, or holds, what belongs to Teamwright itself or to other agents"
    home = real_path(os.path.expanduser("~"))
    if any(is_inside(str(real), os.path.join(home, name)) for name in CREDENTIALS):
        return f"{real} holds credentials"
    guard = guard_name(str(real))
    return f"{real} can run something for you or widen what is allowed ({guard})" if guard else ""


def check_mode(update: PermissionUpdate, now: Mode) -> Mode:
    """Return the mode that an update sets.

    Raises UsageError for a mode that no answer may set, and while a plan is open.
    """
    mode = next((mode for mode in GRANTED_MODES if mode == update.mode), None)
    if mode is None:
        raise _out_of_bounds_error(
            f"the mode {update.mode} is not set by an answer", f"--permission-mode {update.mode}"
        )
    if now is Mode.PLAN and mode is not Mode.PLAN:
        raise _out_of_bounds_error(
            "plan mode is left when the plan was approved, not with another answer", "ExitPlanMode"
        )
    return mode


def check_directories(update: PermissionUpdate, scope: PermissionScope) -> tuple[Path, ...]:
    """Return the real paths of the directories that an update adds. Raises UsageError for one out of bounds."""
    found: list[Path] = []
    for text in update.directories:
        path = Path(os.path.expanduser(text))
        why = out_of_bounds(path, scope) if path.is_absolute() else f"{text[:80]!r} is not an absolute path"
        if why:
            raise _out_of_bounds_error(why, "--add-dir")
        found.append(Path(real_path(path)))
    return tuple(found)


def check_rules(update: PermissionUpdate, scope: PermissionScope, source: str, by_user: bool) -> tuple[Rule, ...]:
    """Return the rules that an update adds. Raises UsageError for an allow rule that is too broad."""
    verdict = Verdict(update.behavior)
    rules = tuple(parse_rule(text, verdict, source, scope.base, by_user) for text in update.rules)
    for rule in rules if verdict is Verdict.ALLOW else ():
        why = _reaches_too_far(rule, scope) or (
            "only a person grants it" if rule.tool == "Unconfined" and not by_user else ""
        )
        if why:
            raise _out_of_bounds_error(f"{rule.text}: {why}", "permissions.allow in a settings file")
    return rules


def _reaches_too_far(rule: Rule, scope: PermissionScope) -> str:
    from teamwright.permissions.allow_rule_limits import INTERPRETERS
    from teamwright.shell_lines.wrappers import starts_anything

    pattern = rule.pattern
    if pattern is None:
        whole = rule.tool in _NARROWABLE or rule.tool in {"mcp__*", "python__*"}
        return "it would allow every call of the tool" if whole else ""
    if rule.tool in {"Bash", "Unconfined"}:
        words = pattern.removesuffix("*").removesuffix(":").split()
        if not words:
            return "it would allow every call of the tool"
        is_bare = (base_name(words[0]) in INTERPRETERS | _RUN_ANYTHING and len(words) == 1) or starts_anything(words)
        if "*" in words[0] or (is_bare and not rule.is_exact):
            return "it would allow programs of any name"
        return ""
    if rule.tool in PATH_TOOLS:
        guard = guard_name(pattern)
        if guard:
            return f"{guard} can run something for you or widen what is allowed"
        place = fixed_directory(pattern, scope.base)
        return "" if place.is_relative_to(scope.base) else out_of_bounds(place, scope)
    return ""


def _out_of_bounds_error(what: str, instead: str) -> UsageError:
    return UsageError("usage", what, do=[f"To allow it, type: {instead}"], note="nothing was changed")
