"""Updates: what may be granted along with a yes. Their shapes on the wire, which ones are offered, and their bounds.

An update grants something particular. What would be as good as no permissions at all (bypass, the root, a rule about
every command) is refused here whoever sends it: a person writes such a thing into settings. Does not know who asked,
who answered, or where a destination is kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from teamwright.permissions.book import Scope
from teamwright.permissions.files import place_of
from teamwright.permissions.guarded import guard_of
from teamwright.permissions.rule import PATHS, READERS, WRITERS, Rule, parse_rule, written_place
from teamwright.permissions.table import table
from teamwright.permissions.verdict import Access, Decision, Mode, Update, Verdict
from teamwright.protocol.errors import UsageError

if TYPE_CHECKING:
    from teamwright.permissions.decide import Policy

DESTINATIONS = ("session", "localSettings", "projectSettings", "userSettings")
BEHAVIORS = tuple(str(verdict) for verdict in Verdict)
GRANTED_MODES = (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK)
"""Modes that an update may set: the others are a person's flag or setting, or belong to the lead."""

MAX_ENTRIES = 50
"""Rules or directories in one update."""

MAX_TEXT = 4_000
"""Characters of a rule or a path."""

_OFFERED_AT_ONCE = 3
_NOT_TAKEN = frozenset({"replaceRules", "removeRules", "removeDirectories"})
_NARROWABLE = PATHS | {"Bash", "WebFetch"}
_SYSTEM = table(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /opt /proc /root /run /sbin /srv /sys /usr /var /mnt /media"
    " /Applications /Library /System /Users /Volumes /private /private/etc /private/var"
)
_NEVER_BELOW = ("/dev/", "/proc/", "/sys/", "/boot/")


# ── on the wire ───────────────────────────────────────────────────────────────────────────────────────────────────


def to_wire(update: Update) -> dict[str, Any]:
    """The update as others write and read it."""
    made: dict[str, Any] = {"type": update.kind}
    if update.kind == "setMode":
        made["mode"] = update.mode
    elif update.kind == "addDirectories":
        made["directories"] = list(update.directories)
    else:
        made["rules"] = [_rule_to_wire(text) for text in update.rules]
        made["behavior"] = update.behavior
    return {**made, "destination": update.destination}


def from_wire(value: object) -> Update:
    """An update from what somebody sent. Raises UsageError for what is none, or one that is not taken."""
    if not isinstance(value, dict):
        raise _bad("a permission update is an object with a type")
    given = cast("Mapping[str, Any]", value)
    kind, destination = given.get("type"), given.get("destination", "session")
    if kind in _NOT_TAKEN:
        raise _bad(f"{kind} is not taken: an answer only adds, rules are taken away in a settings file")
    if destination not in DESTINATIONS:
        raise _bad(f"{_shown(destination)} is not a destination: {', '.join(DESTINATIONS)}")
    match kind:
        case "setMode":
            mode = given.get("mode")
            if not isinstance(mode, str) or mode not in list(Mode):
                raise _bad(f"{_shown(mode)} is not a permission mode")
            return Update("setMode", mode=mode, destination=destination)
        case "addDirectories":
            return Update("addDirectories", directories=_texts(given, "directories"), destination=destination)
        case "addRules":
            behavior = given.get("behavior", "allow")
            if behavior not in BEHAVIORS:
                raise _bad(f"{_shown(behavior)} is not a behavior: {', '.join(BEHAVIORS)}")
            rules = tuple(_rule_from_wire(rule) for rule in _list(given, "rules"))
            return Update("addRules", rules=rules, behavior=behavior, destination=destination)
        case _:
            raise _bad(f"{_shown(kind)} is not a kind of permission update: addRules, addDirectories, setMode")


def _rule_to_wire(text: str) -> dict[str, str]:
    tool, opened, rest = text.partition("(")
    return {"toolName": tool, "ruleContent": rest.removesuffix(")")} if opened else {"toolName": tool}


def _rule_from_wire(value: object) -> str:
    """A rule in our syntax, read once so that nothing else is handed on."""
    if isinstance(value, str):
        text = value
    else:
        given: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
        tool, content = given.get("toolName"), given.get("ruleContent")
        if not isinstance(tool, str) or not isinstance(content, str | None) or "(" in tool:
            raise _bad("a rule is an object with toolName and perhaps ruleContent")
        text = tool if content is None else f"{tool}({content})"
    if len(text) > MAX_TEXT:
        raise _bad(f"a rule has at most {MAX_TEXT} characters")
    return parse_rule(text, Verdict.ASK, "a permission update", Path("/")).text


def _list(given: Mapping[str, Any], key: str) -> list[object]:
    found = given.get(key)
    if not isinstance(found, list) or not found:
        raise _bad(f"{key} is a list with at least one entry")
    entries = cast("list[object]", found)
    if len(entries) > MAX_ENTRIES:
        raise _bad(f"{key} has at most {MAX_ENTRIES} entries")
    return entries


def _texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _list(given, key)
    if not all(isinstance(one, str) and 0 < len(one) <= MAX_TEXT and "\0" not in one for one in found):
        raise _bad(f"{key} is a list of paths")
    return tuple(str(one) for one in found)


# ── what is offered ───────────────────────────────────────────────────────────────────────────────────────────────


def suggestions(tool: str, access: Access, decision: Decision, policy: Policy) -> tuple[Update, ...]:
    """What a person may grant along with a yes, so that this call and its like are not asked about again.

    The directory that it lies in, the mode that accepts edits, else the rule that "always" would store. Nothing for
    what a rule, a guard or a fence asks about, and nothing that `bounds` would refuse.
    """
    if decision.verdict is not Verdict.ASK or not _is_mere(decision):
        return ()
    touched = _touched(tool, access, policy.scope)
    if touched is not None:
        places, changes = touched
        outside = tuple(dict.fromkeys(str(place) for place in places if not _lies_in(place, policy.scope)))
        edits = changes and policy.lasting_mode is Mode.DEFAULT
        fine = len(outside) <= _OFFERED_AT_ONCE and all(_may_be_offered(Path(one), policy.scope) for one in outside)
        if fine and (outside or edits):
            found = (Update("addDirectories", directories=outside),) if outside else ()
            return (*found, Update("setMode", mode=Mode.ACCEPT_EDITS)) if edits else found
    return (Update("addRules", rules=(decision.always,)),) if decision.always else ()


def _is_mere(decision: Decision) -> bool:
    return decision.rule.startswith("mode ") or decision.rule == "git manners"


def _touched(tool: str, access: Access, scope: Scope) -> tuple[list[Path], bool] | None:
    """The directories that a call uses, and whether it changes files in them; None when it does more than that."""
    if access.command is not None:
        from teamwright.permissions.commands import places_of

        return places_of(access, scope)
    if tool in READERS | WRITERS and (access.reads or access.writes):
        return [place_of(path) for path in (*access.reads, *access.writes)], bool(access.writes)
    return None


def _lies_in(place: Path, scope: Scope) -> bool:
    return any(place.is_relative_to(directory) for directory in scope.directories)


def _may_be_offered(place: Path, scope: Scope) -> bool:
    return len(place.parts) > 2 and str(place).isprintable() and not out_of_bounds(place, scope)


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────────────────────


def out_of_bounds(place: Path, scope: Scope) -> str:
    """Why a directory is never granted by an update, or an empty text. By real path."""
    real = Path(os.path.realpath(place))
    shown = f"{real}/"
    if str(real) in _SYSTEM or shown.startswith(_NEVER_BELOW):
        return f"{real} belongs to the whole system"
    if Path(os.path.realpath(os.path.expanduser("~"))).is_relative_to(real):
        return f"{real} is, or holds, the home directory"
    for private in scope.private:
        if real.is_relative_to(private) or private.is_relative_to(real):
            return f"{real} is, or holds, what belongs to Teamwright itself or to other agents"
    guard = guard_of(str(real))
    return f"{real} can run something for you or widen what is allowed ({guard})" if guard else ""


def check_mode(update: Update, now: Mode) -> Mode:
    """The mode that an update sets. Raises UsageError for one that no answer may set, and while a plan is open."""
    mode = next((mode for mode in GRANTED_MODES if mode == update.mode), None)
    if mode is None:
        raise _refused(f"the mode {update.mode} is not set by an answer", f"--permission-mode {update.mode}")
    if now is Mode.PLAN and mode is not Mode.PLAN:
        raise _refused("plan mode is left when the plan was approved, not with another answer", "ExitPlanMode")
    return mode


def check_directories(update: Update, scope: Scope) -> tuple[Path, ...]:
    """The directories that an update adds, by real path. Raises UsageError for one that is out of bounds."""
    found: list[Path] = []
    for text in update.directories:
        path = Path(os.path.expanduser(text))
        why = out_of_bounds(path, scope) if path.is_absolute() else f"{_shown(text)} is not an absolute path"
        if why:
            raise _refused(why, "--add-dir")
        found.append(Path(os.path.realpath(path)))
    return tuple(found)


def check_rules(update: Update, scope: Scope, source: str, by_user: bool) -> tuple[Rule, ...]:
    """The rules that an update adds. Raises UsageError for one that reaches too far; one that forbids never does."""
    verdict = Verdict(update.behavior)
    rules = tuple(parse_rule(text, verdict, source, scope.base, by_user) for text in update.rules)
    for rule in rules if verdict is Verdict.ALLOW else ():
        why = _reaches_too_far(rule, scope)
        if why:
            raise _refused(f"{rule.text}: {why}", "permissions.allow in a settings file")
    return rules


def _reaches_too_far(rule: Rule, scope: Scope) -> str:
    pattern = rule.pattern
    if pattern is None:
        whole = rule.tool in _NARROWABLE or rule.tool in {"mcp__*", "python__*"}
        return "it would allow every call of the tool" if whole else ""
    if rule.tool == "Bash":
        first = pattern.split()[0]
        return "it would allow programs of any name" if "*" in first.removesuffix(":*") else ""
    if rule.tool in PATHS:
        guard = guard_of(pattern)
        if guard:
            return f"{guard} can run something for you or widen what is allowed"
        place = written_place(pattern, scope.base)
        return "" if place.is_relative_to(scope.base) else out_of_bounds(place, scope)
    return ""


def _shown(value: object) -> str:
    return repr(value)[:80]


def _bad(what: str) -> UsageError:
    return UsageError("usage", what, note="nothing was changed")


def _refused(what: str, instead: str) -> UsageError:
    return UsageError("usage", what, do=[f"Whoever wants it says so once: {instead}"], note="nothing was changed")
