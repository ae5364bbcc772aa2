"""Whether a path may be read or changed. One function for all file tools and for what a shell command touches.

Rules first, then what is private or guarded, then the directories and the mode. Looks at the disk only to find
the real path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from teamwright.permissions.book import Ground, ToolRules, by_mode, by_plan, by_rule
from teamwright.permissions.guarded import guard_of
from teamwright.permissions.left_out import Segments, expression
from teamwright.permissions.rule import Rule
from teamwright.permissions.shell.words import Shape
from teamwright.permissions.verdict import Decision, Verdict

_MAX_ENTRIES = 20_000
"""A directory with more entries below it is not looked through."""


def judge_path(
    ground: Ground, tool: str, path: Path, *, writes: bool, deep: bool = False, spares: bool = False
) -> Decision:
    """The verdict on one absolute path. `deep`: everything below it is read as well; `spares`: but what is denied."""
    named, real = os.path.normpath(path), os.path.realpath(path)
    rules = ground.book.of(tool)
    denied = _matching(rules.deny, named, real)
    if denied is not None:
        return by_rule(denied)
    if writes and ground.scope.fence is not None and (fenced := ground.scope.fence.refuses(path)) is not None:
        return fenced
    if writes and ground.plans:
        return by_plan(ground)
    if _is_private(ground, rules, named, real, writes):
        return Decision(Verdict.DENY, "private files", f"{named} belongs to Teamwright itself or to other agents.")
    if ground.bypass:
        return by_mode(ground.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
    asked = _matching(rules.ask, named, real)
    if asked is not None:
        return by_rule(asked)
    if deep and (decision := _below(ground, rules, real, spares)) is not None:
        return decision
    if writes and (decision := _guarded(ground, rules, named, real)) is not None:
        return decision
    allowed = _matching(rules.allow, named, real)
    return by_rule(allowed) if allowed is not None else _by_mode(ground, named, real, writes)


def judge_unknown_path(ground: Ground, tool: str, shape: Shape, certain: bool) -> Iterator[Decision]:
    """Yield what rules say of a file of whose name only the shell knows a part (see `Rule.may_name`)."""
    rules = ground.book.of(tool)
    for rule in (*rules.deny, *(() if ground.bypass else rules.ask)):
        if rule.may_name(shape, certain=certain):
            reason = f"The shell fills in a part of a file name, so {rule.text} cannot be excluded; write the name out."
            yield Decision(Verdict.DENY if ground.bypass else Verdict.ASK, str(rule), reason)
            return


def judge_all_below(ground: Ground, tool: str, path: Path, name: str) -> Iterator[Decision]:
    """Yield the refusal of a change to all below a path whose name matches, when some of it must not be changed."""
    real = os.path.realpath(path)
    for rule, patterns in denied_below(ground, tool, str(path)):
        if patterns and (there := _named_below(real, expression(patterns), name)):
            yield Decision(Verdict.DENY, rule, f"It changes everything below {real}, {there}.")


def _named_below(directory: str, paths: re.Pattern[str], pattern: str) -> str:
    """Say what is below a directory that both patterns name, or that there is too much to look through."""
    left = _MAX_ENTRIES
    for place, directories, files in os.walk(directory):
        for name in (*directories, *files):
            below = os.path.relpath(os.path.join(place, name), directory)
            if fnmatchcase(name, pattern) and paths.fullmatch(below):
                return f"also {below}"
        left -= len(directories) + len(files)
        if left < 0:
            return "and there are too many files to look through"
    return ""


def place_of(path: Path) -> Path:
    """The directory that a path is, or lies in, by real path."""
    real = Path(os.path.realpath(path))
    return real if real.is_dir() else real.parent


def judge_own_file(ground: Ground, tool: str, path: Path, why: str) -> Decision:
    """The verdict on a file of whoever asks, its plan or its memory: only a rule keeps an agent from it."""
    named, real = os.path.normpath(path), os.path.realpath(path)
    rules = ground.book.of(tool)
    for group in (rules.deny, () if ground.bypass else rules.ask):
        found = _matching(group, named, real)
        if found is not None:
            return by_rule(found)
    return by_mode(ground.mode, Verdict.ALLOW, why)


def denied_below(ground: Ground, tool: str, root: str) -> Iterator[tuple[str, set[Segments]]]:
    """What must not be read below a directory: who says so, and patterns that begin there."""
    real = os.path.realpath(root)
    for rule in ground.book.of(tool).deny:
        yield rule.text, rule.names_below(root) | rule.names_below(real)
    above = f"{real.rstrip('/')}/".lower()
    for directory in ground.private:
        if directory.startswith(above) and directory != above:
            yield "private files", {tuple(directory[len(above) :].rstrip("/").split("/"))}


def asks_below(ground: Ground, tool: str, real: str) -> Decision | None:
    """The question that deny rules ask before everything below a directory is shown, given by its real path."""
    return _fenced(ground.book.of(tool).deny, real)


def _matching(rules: tuple[Rule, ...], named: str, real: str) -> Rule | None:
    for rule in rules:
        if rule.matches_path(named, real):
            return rule
    return None


def _is_private(ground: Ground, rules: ToolRules, named: str, real: str, writes: bool) -> bool:
    place = f"{real}/"
    if not place.lower().startswith(ground.private):
        return False
    if not writes and place.startswith(ground.own):
        return False
    if any(one.lower().startswith(ground.private) and place.startswith(one) for one in ground.directories):
        return False  # somebody works inside a private directory: what was given to them is theirs
    lifted = (rule for rule in rules.allow if rule.by_user and not rule.whole and _names_private(ground, rule.text))
    return not any(rule.matches_path(named, real) for rule in lifted)


def _names_private(ground: Ground, text: str) -> bool:
    """A general rule does not open the private directories; one that names them does."""
    return any(directory.name in text for directory in ground.scope.private)


def _below(ground: Ground, rules: ToolRules, real: str, spares: bool) -> Decision | None:
    """Reading a whole directory must not go round a rule about something in it."""
    above = f"{real.rstrip('/')}/".lower()
    if any(directory.startswith(above) for directory in ground.private):
        return Decision(Verdict.ASK, "private files", f"Below {real} are files of Teamwright or of other agents.")
    return _fenced((*(() if spares else rules.deny), *rules.ask), real)


def _fenced(rules: tuple[Rule, ...], real: str) -> Decision | None:
    fenced = next((rule for rule in rules if rule.may_name_below(real)), None)
    if fenced is None or not os.path.isdir(real):
        return None
    reason = f"It reads everything below {real}, and {fenced.text} may name some of it."
    return Decision(Verdict.ASK, str(fenced), reason)


def _guarded(ground: Ground, rules: ToolRules, named: str, real: str) -> Decision | None:
    guard = _guard(ground, real) or (_guard(ground, named) if named != real else "")
    if not guard and real in ground.scope.run:
        guard = os.path.basename(real).lower()
    if not guard:
        return None
    for rule in rules.allow:
        if rule.by_user and guard in (rule.pattern or "").lower() and rule.matches_path(named, real):
            return by_rule(rule)
    reason = f"{os.path.basename(named)} can run something for you or widen what is allowed ({guard})."
    return Decision(Verdict.ASK, "guarded files", reason)


def _guard(ground: Ground, path: str) -> str:
    """The guard's name, looked for below the directory that may be used, not in the way to it."""
    roots = [len(directory) for directory in ground.directories if path.startswith(directory)]
    return guard_of(path[min(roots) :] if roots else path)


def _by_mode(ground: Ground, named: str, real: str, writes: bool) -> Decision:
    place = f"{real}/"
    inside = place.startswith(ground.directories)  # a link is as good as what it leads to
    if inside and not writes:
        return by_mode(ground.mode, Verdict.ALLOW, "Reading inside the directories is allowed.")
    if inside and ground.accepts_edits:
        return by_mode(ground.mode, Verdict.ALLOW, "The mode accepts changes inside the directories.")
    if not inside and not writes and place.startswith(ground.own):
        return by_mode(ground.mode, Verdict.ALLOW, "It is this agent's own file.")
    where = "" if inside else ", which is outside the directories"
    return by_mode(ground.mode, Verdict.ASK, f"Nothing allows to {'change' if writes else 'read'} {named}{where}.")
