"""Whether a path may be read or changed. One function for all file tools and for what a shell command touches.

Rules first, then what is private or guarded, then the directories and the mode. Looks at the disk only to find
the real path.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.permissions.book import Ground, ToolRules, by_mode, by_rule
from teamwright.permissions.guarded import guard_of, within
from teamwright.permissions.verdict import Decision, Mode, Verdict


def judge_path(ground: Ground, tool: str, path: Path, *, writes: bool, deep: bool = False) -> Decision:
    """The verdict on one absolute path. `deep`: everything below it is read as well."""
    named, real = Path(os.path.normpath(path)), Path(os.path.realpath(path))
    rules = ground.book.of(tool)
    denied = next((rule for rule in rules.deny if rule.matches_path(named, real)), None)
    if denied is not None:
        return by_rule(denied)
    if _is_private(ground, rules, named, real, writes):
        return Decision(Verdict.DENY, "private files", f"{named} belongs to Teamwright itself or to other agents.")
    if ground.bypass:
        return by_mode(ground.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
    asked = next((rule for rule in rules.ask if rule.matches_path(named, real)), None)
    if asked is not None:
        return by_rule(asked)
    if deep and (decision := _below(ground, rules, real)) is not None:
        return decision
    if writes and (decision := _guarded(ground, rules, named, real)) is not None:
        return decision
    allowed = next((rule for rule in rules.allow if rule.matches_path(named, real)), None)
    return by_rule(allowed) if allowed is not None else _by_mode(ground, named, real, writes)


def _is_private(ground: Ground, rules: ToolRules, named: Path, real: Path, writes: bool) -> bool:
    scope = ground.scope
    around = [directory for directory in scope.private if real.is_relative_to(directory)]
    if not around or (not writes and within(real, scope.own)):
        return False
    if any(real.is_relative_to(one) and within(one, tuple(around)) for one in scope.directories):
        return False  # somebody works inside a private directory: what was given to them is theirs
    lifted = (rule for rule in rules.allow if rule.by_user and not rule.whole and _within_private(ground, rule.text))
    return not any(rule.matches_path(named, real) for rule in lifted)


def _within_private(ground: Ground, text: str) -> bool:
    """A general rule does not open the private directories; one that names them does."""
    return any(directory.name in text for directory in ground.scope.private)


def _below(ground: Ground, rules: ToolRules, real: Path) -> Decision | None:
    """Reading a whole directory must not go round a rule about something in it."""
    if any(directory.is_relative_to(real) for directory in ground.scope.private):
        return Decision(Verdict.ASK, "private files", f"Below {real} are files of Teamwright or of other agents.")
    fenced = next((rule for rule in (*rules.deny, *rules.ask) if not rule.whole), None)
    if fenced is None or not real.is_dir():
        return None
    return Decision(
        Verdict.ASK, str(fenced), f"It reads everything below {real}, and {fenced.text} may name some of it."
    )


def _guarded(ground: Ground, rules: ToolRules, named: Path, real: Path) -> Decision | None:
    guard = _guard(ground, named) or _guard(ground, real)
    if not guard:
        return None
    for rule in rules.allow:
        if rule.by_user and guard in (rule.pattern or "").lower() and rule.matches_path(named, real):
            return by_rule(rule)
    reason = f"{named.name} can run something for you or widen what is allowed ({guard})."
    return Decision(Verdict.ASK, "guarded files", reason)


def _guard(ground: Ground, path: Path) -> str:
    """The guard's name, looked for below the directory that may be used, not in the way to it."""
    roots = [directory for directory in ground.scope.directories if path.is_relative_to(directory)]
    below = path.relative_to(min(roots, key=lambda root: len(root.parts))) if roots else path
    return guard_of(below)


def _by_mode(ground: Ground, named: Path, real: Path, writes: bool) -> Decision:
    inside = ground.scope.inside(real)  # a link is as good as what it leads to
    if inside and not writes:
        return by_mode(ground.mode, Verdict.ALLOW, "Reading inside the directories is allowed.")
    if inside and ground.mode is Mode.ACCEPT_EDITS:
        return by_mode(ground.mode, Verdict.ALLOW, "The mode accepts changes inside the directories.")
    if not inside and not writes and within(real, ground.scope.own):
        return by_mode(ground.mode, Verdict.ALLOW, "It is this agent's own file.")
    where = "" if inside else ", which lies outside the directories"
    return by_mode(ground.mode, Verdict.ASK, f"Nothing allows to {'change' if writes else 'read'} {named}{where}.")
