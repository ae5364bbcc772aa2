"""Verdicts on reading or changing a path, for all file tools and for the files of a shell command.

Rules come first, then private and guarded paths, then the directories and the mode. The disk is only used to find the
real path.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.permissions.decision_context import (
    DecisionContext,
    ToolRules,
    decide_by_mode,
    decide_by_plan,
    decide_by_rule,
)
from teamwright.permissions.excluded_paths import Segments, compile_patterns
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Decision, Verdict
from teamwright.sandbox.guarded_files import VIRTUAL_ENVIRONMENT, guard_name
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.step_limit import JUDGED_PATH, found_once, spend_steps
from teamwright.storage.real_paths import is_process_link, real_path

if TYPE_CHECKING:
    from teamwright.shell_lines.expansion import Shape

GUARDED = "guarded files"
"""The reason of a question about a guarded file."""

HARD_LINKS = "hard links"
"""The reason of a question about a file that has another name, perhaps outside the directories."""

NETWORK = "network"
"""The reason of a question about a name by which a program connects to a host."""

REPLACES_NAMES = word_set("rm rmdir unlink mv ln link mkdir git")
"""Programs that remove or replace names, and so leave the file under its other names as it is."""


_MAX_ENTRIES = 20_000
"""The most entries below a directory that is searched."""


def judge_path(
    context: DecisionContext,
    tool: str,
    path: Path,
    *,
    writes: bool,
    deep: bool = False,
    except_denied: bool = False,
    is_pathspec: bool = False,
) -> Decision:
    """Return the verdict on one absolute path.

    `deep`: everything below it is read too; `except_denied`: except denied files. `is_pathspec`: git changes files of a
    work tree that it finds by this path.
    """
    spend_steps(JUDGED_PATH + len(str(path)) // 2)
    named, path = context.locate(path)
    real = real_path(path)
    rules = context.rules.rules_for(tool)
    denied = _matching(rules.deny, named, real) or _matching_original(context, rules.deny, path)
    if denied is not None:
        return decide_by_rule(denied)
    is_temporary = context.is_temporary(real)
    refused = _refusal_by_owner(context, path, is_pathspec) if writes and not is_temporary else None
    if refused is not None and refused.verdict is Verdict.DENY:
        return refused
    if writes and context.is_planning:
        return decide_by_plan(context)
    if is_process_link(real):
        return refused or _judge_process_link(context, tool, named, writes)
    if not is_temporary and _is_private(context, rules, named, real, writes):
        return Decision(Verdict.DENY, "private files", f"{named} belongs to Teamwright itself or to other agents.")
    if refused is not None:
        return refused
    if context.bypasses:
        return decide_by_mode(context.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
    ask_rule = _matching(rules.ask, named, real) or _matching_original(context, rules.ask, path)
    if ask_rule is not None:
        return decide_by_rule(ask_rule)
    if (decision := _judge_address(rules, named)) is not None:
        return decision
    if deep and (decision := _judge_below(context, rules, real, except_denied)) is not None:
        return decision
    if writes and (decision := _judge_guarded(context, rules, named, real)) is not None:
        return decision
    allowed = _matching(rules.allow, named, real)
    return decide_by_rule(allowed) if allowed is not None else _by_mode(context, named, real, writes)


def judge_written(context: DecisionContext, path: Path, *, program: str = "", is_pathspec: bool = False) -> Decision:
    """Return the verdict on a change of a file by a command, which writes to the file under all its names.

    A rule of the person for the path answers for its other names; a mode does not. File tools replace the file.
    """
    decision = judge_path(context, "Write", path, writes=True, is_pathspec=is_pathspec)
    plain = decision.verdict is Verdict.ALLOW and decision.rule.startswith("mode ") and not context.bypasses
    if not plain or program in REPLACES_NAMES or not has_other_names(context, path):
        return decision
    reason = f"{path} has another name (a hard link), so the change may reach a file outside the directories."
    return Decision(Verdict.ASK, HARD_LINKS, reason)


def has_other_names(context: DecisionContext, path: Path) -> bool:
    """Return True for a file with more than one name. Directories do not count."""
    try:
        found = os.stat(context.locate(path)[1])
    except OSError:
        return False
    return found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode)


def judge_other_names_below(context: DecisionContext, path: Path) -> Iterator[Decision]:
    """Yield the question before a change of everything below a directory, if a file there has another name."""
    if context.bypasses:
        return
    real = real_path(context.locate(path)[1])
    found = found_once((judge_other_names_below, real), lambda: _find_other_names(real))
    if found:
        reason = f"Below {path}, {found}, so the change may reach a file outside the directories."
        yield Decision(Verdict.ASK, HARD_LINKS, reason)


def _find_other_names(directory: str) -> str:
    left = _MAX_ENTRIES
    for place, directories, files in os.walk(directory):
        left -= len(directories) + len(files)
        if left < 0:
            return "there are too many files to look through for hard links"
        spend_steps(5 * (1 + len(directories) + len(files)))
        for name in files:
            with contextlib.suppress(OSError):
                if os.lstat(os.path.join(place, name)).st_nlink > 1:
                    return f"{name} has another name (a hard link)"
    return ""


def _refusal_by_owner(context: DecisionContext, path: Path, is_pathspec: bool) -> Decision | None:
    """Return the refusal of a change to a path that others own, or that is outside the agent's worktree."""
    owned = context.scope.ownership
    tree = context.scope.worktree
    outside = None
    if tree is not None:
        outside = tree.refusal(path, context.scope.directories, is_pathspec=is_pathspec)
    if owned is None or (outside is not None and outside.verdict is Verdict.DENY):
        return outside
    return owned.refusal(path if tree is None else tree.original(path)) or outside


def _judge_process_link(context: DecisionContext, tool: str, named: str, writes: bool) -> Decision:
    """Return the verdict on a path such as `/proc/self/cwd/x`: it may be any file."""
    from teamwright.shell_lines.expansion import ANY_SHAPE

    for decision in judge_unknown_path(context, tool, ANY_SHAPE, certain=True):
        return decision
    reason = f"{named} is another file in each process; write the path out."
    if context.bypasses and (writes or os.path.basename(named) not in {"cwd", "root"}):
        return Decision(Verdict.DENY, "private files", reason)
    return decide_by_mode(context.mode, Verdict.ALLOW if context.bypasses else Verdict.ASK, reason)


def judge_unknown_path(context: DecisionContext, tool: str, shape: Shape, certain: bool) -> Iterator[Decision]:
    """Yield the verdicts of rules on a file whose name only the shell knows in full (see `Rule.may_name`)."""
    rules = context.rules.rules_for(tool)
    spend_steps(10 * (len(rules.deny) + len(rules.ask)))
    for rule in (*rules.deny, *(() if context.bypasses else rules.ask)):
        if rule.may_name(shape, certain=certain):
            reason = f"The shell fills in a part of a file name, so {rule.text} cannot be excluded; write the name out."
            yield Decision(Verdict.DENY if context.bypasses else Verdict.ASK, str(rule), reason)
            return


def judge_all_below(context: DecisionContext, tool: str, path: Path, name: str) -> Iterator[Decision]:
    """Yield the denial of a change to everything below a path whose name matches, if some of it must not be changed."""
    real = real_path(path)
    for rule, patterns in denied_below(context, tool, str(path)):
        if patterns and (there := _named_below(real, compile_patterns(patterns), name)):
            yield Decision(Verdict.DENY, rule, f"It changes everything below {real}, {there}.")


def judge_copy(context: DecisionContext, source: Path, goal: Path) -> Iterator[Decision]:
    """Yield the denial of a copy of a directory that reads a denied file, or that makes a file with a denied name."""
    for tool, top in (("Read", source), ("Write", goal)):
        for rule, patterns in denied_below(context, tool, str(top)):
            if patterns and (there := _named_below(real_path(source), compile_patterns(patterns), "*")):
                yield Decision(Verdict.DENY, rule, f"It copies everything below {source} to {goal}, {there}.")


def judge_new_names(context: DecisionContext, tool: str, directory: Path, pattern: str) -> Iterator[Decision]:
    """Yield the denial of names in a directory that match a pattern of the shell, also of names that do not exist."""
    for rule, forbidden in denied_below(context, tool, str(directory)):
        if any(_may_be_first(segments, pattern) for segments in forbidden):
            yield Decision(Verdict.DENY, rule, f"{pattern} may match a file in {directory} that the rule names.")


def _may_be_first(segments: Segments, pattern: str) -> bool:
    """Return True when the first name of these segments may match the pattern of the shell."""
    name = next((segment for segment in segments if segment != "**"), "*")
    if set(name) & set("*?"):
        return True
    hidden = name.startswith(".") and not pattern.startswith(".")  # a star matches no dot at the beginning
    return not hidden and fnmatchcase(name.lower(), pattern.lower())


def _named_below(directory: str, paths: re.Pattern[str], pattern: str) -> str:
    """Return the paths below a directory that both patterns name, or the fact that there are too many entries."""
    return found_once(
        (_named_below, directory, paths.pattern, pattern), lambda: _search_below(directory, paths, pattern)
    )


def _search_below(directory: str, paths: re.Pattern[str], pattern: str) -> str:
    left = _MAX_ENTRIES
    for place, directories, files in os.walk(directory):
        spend_steps(8 * (1 + len(directories) + len(files)))
        for name in (*directories, *files):
            below = os.path.relpath(os.path.join(place, name), directory)
            if fnmatchcase(name, pattern) and paths.fullmatch(below):
                return f"also {below}"
        left -= len(directories) + len(files)
        if left < 0:
            return "and there are too many files to look through"
    return ""


def containing_directory(path: Path) -> Path:
    """Return the real path of a directory, or of the directory that contains a file."""
    real = Path(real_path(path))
    return real if real.is_dir() else real.parent


def existing_directory(path: Path) -> Path:
    """Return the real path of the nearest directory that exists: what will contain a directory that a command makes."""
    real = Path(real_path(path))
    return next(one for one in (real, *real.parents) if one.is_dir())


def judge_own_file(context: DecisionContext, tool: str, path: Path, why: str) -> Decision:
    """Return the verdict on the agent's plan or memory file: allowed unless a rule forbids it."""
    named = os.path.normpath(path)
    real = real_path(path)
    rules = context.rules.rules_for(tool)
    for group in (rules.deny, () if context.bypasses else rules.ask):
        found = _matching(group, named, real)
        if found is not None:
            return decide_by_rule(found)
    return decide_by_mode(context.mode, Verdict.ALLOW, why)


def is_named_by_rule(context: DecisionContext, path: Path) -> bool:
    """Return True when a rule denies or asks about reading this very file; rules for all files do not count."""
    named = os.path.normpath(path)
    real = real_path(path)
    rules = context.rules.rules_for("Read")
    about_files = [rule for rule in (*rules.deny, *rules.ask) if not rule.is_whole_tool]
    named_here = _matching(tuple(about_files), named, real)
    return (named_here or _matching_original(context, tuple(about_files), path)) is not None


PRIVATE_FILES = "private files"
"""The rule of paths below a directory that belong to Teamwright or to other agents."""


def denied_below(context: DecisionContext, tool: str, root: str) -> Iterator[tuple[str, set[Segments]]]:
    """Yield the paths below a directory that must not be read: the rule, and patterns relative to the directory."""
    spend_steps(JUDGED_PATH + len(root) // 2)
    real = real_path(root)
    tree = context.scope.worktree
    original = real if tree is None else str(tree.original(Path(real)))
    for rule in context.rules.rules_for(tool).deny:
        yield rule.text, rule.names_below(root) | rule.names_below(real) | rule.names_below(original)
    above = f"{real.rstrip('/')}/".lower()
    for directory in context.private:
        if directory.startswith(above) and directory != above:
            yield PRIVATE_FILES, {tuple(directory[len(above) :].rstrip("/").split("/"))}


def question_below(context: DecisionContext, tool: str, real: str) -> Decision | None:
    """Return the question that deny rules require before a whole directory, given by its real path, is shown."""
    return _denied_by_rule(context.rules.rules_for(tool).deny, real)


def _matching(rules: tuple[Rule, ...], named: str, real: str) -> Rule | None:
    for rule in rules:
        if rule.matches_path(named, real):
            return rule
    return None


def _matching_original(context: DecisionContext, rules: tuple[Rule, ...], path: Path) -> Rule | None:
    """Return the rule that names the file in the person's checkout of which this one is the copy in a worktree."""
    tree = context.scope.worktree
    if tree is None or (original := tree.original(path)) == path:
        return None
    return _matching(rules, str(original), real_path(original))


def _is_private(context: DecisionContext, rules: ToolRules, named: str, real: str, writes: bool) -> bool:
    place = f"{real}/"
    if not place.lower().startswith(context.private):
        return False
    if not writes and place.startswith(context.own):
        return False
    if any(one.lower().startswith(context.private) and place.startswith(one) for one in context.directories):
        return False  # an agent that works inside a private directory may use the files given to it
    # A general rule does not open the private directories: only one that names them.
    lifted = (
        rule
        for rule in rules.allow
        if rule.by_user
        and not rule.is_whole_tool
        and any(directory.name in rule.text for directory in context.scope.private)
    )
    return not any(rule.matches_path(named, real) for rule in lifted)


_ADDRESSES = ("/dev/tcp/", "/dev/udp/", "/inet/", "/inet4/", "/inet6/")
"""Names by which bash, in a redirection, and gawk connect to a host: bash(1), "Redirection"; gawk(1), "Special File
Names"."""


def _judge_address(rules: ToolRules, named: str) -> Decision | None:
    """Return the verdict on a name by which a program connects to a host. A rule about files does not answer for it."""
    begin = next((begin for begin in _ADDRESSES if named.startswith(begin)), "")
    if not begin:
        return None
    allowed = (rule for rule in rules.allow if rule.by_user and begin in (rule.pattern or ""))
    rule = next((rule for rule in allowed if rule.matches_path(named, named)), None)
    if rule is not None:
        return decide_by_rule(rule)
    return Decision(Verdict.ASK, NETWORK, f"{named} is no file: a program connects to that host by it.")


def _judge_below(context: DecisionContext, rules: ToolRules, real: str, spares: bool) -> Decision | None:
    """Return the verdict on reading a whole directory: a rule about a file in it must still apply."""
    above = f"{real.rstrip('/')}/".lower()
    if any(directory.startswith(above) for directory in context.private):
        return Decision(Verdict.ASK, "private files", f"Below {real} are files of Teamwright or of other agents.")
    return _denied_by_rule((*(() if spares else rules.deny), *rules.ask), real)


def _denied_by_rule(rules: tuple[Rule, ...], real: str) -> Decision | None:
    fenced = next((rule for rule in rules if rule.may_name_below(real)), None)
    if fenced is None or not os.path.isdir(real):
        return None
    reason = f"It reads everything below {real}, and {fenced.text} may name some of it."
    return Decision(Verdict.ASK, str(fenced), reason)


def _judge_guarded(context: DecisionContext, rules: ToolRules, named: str, real: str) -> Decision | None:
    guard = _guard_inside(context, real) or (_guard_inside(context, named) if named != real else "")
    if not guard and context.scope.runs(real):
        guard = os.path.basename(real).lower()
    if not guard and named != real and context.scope.runs(_own_place(named)):
        guard = os.path.basename(named).lower()
    if not guard:
        return None
    for rule in rules.allow:
        if rule.by_user and guard in (rule.pattern or "").lower() and rule.matches_path(named, real):
            return decide_by_rule(rule)
    reason = f"{os.path.basename(named)} can run something for you or widen what is allowed ({guard})."
    return Decision(Verdict.ASK, GUARDED, reason)


def _own_place(named: str) -> str:
    """Return where a file or a link itself is, not what it leads to."""
    return os.path.join(real_path(Path(os.path.dirname(named))), os.path.basename(named))


def _guard_inside(context: DecisionContext, path: str) -> str:
    """Return the guarded name below the allowed directory; names above it do not count."""
    roots = [len(directory) for directory in context.directories if path.startswith(directory)]
    top = min(roots, default=0)
    return guard_name(path[top:]) or _virtual_environment(path, top)


def _virtual_environment(path: str, top: int) -> str:
    """Return the name of the virtual environment of Python below the first `top` characters in which a path is; empty
    for none.
    """
    place = os.path.dirname(path)
    while top and len(place) > top:
        if os.path.lexists(os.path.join(place, VIRTUAL_ENVIRONMENT)):
            return os.path.basename(place).lower()
        place = os.path.dirname(place)
    return ""


def _by_mode(context: DecisionContext, named: str, real: str, writes: bool) -> Decision:
    place = f"{real}/"
    # A link counts as the path that it leads to.
    inside = place.startswith(context.directories) or context.is_temporary(real)
    if inside and not writes:
        return decide_by_mode(context.mode, Verdict.ALLOW, "Reading inside the directories is allowed.")
    if inside and context.accepts_edits:
        return decide_by_mode(context.mode, Verdict.ALLOW, "The mode accepts changes inside the directories.")
    if not inside and not writes and place.startswith(context.own):
        return decide_by_mode(context.mode, Verdict.ALLOW, "It is this agent's own file.")
    where = "" if inside else ", which is outside the directories"
    return decide_by_mode(
        context.mode, Verdict.ASK, f"Nothing allows to {'change' if writes else 'read'} {named}{where}."
    )
