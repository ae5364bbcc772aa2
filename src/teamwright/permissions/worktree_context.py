"""The rules and the scope of an agent that works in a worktree, from those of the session.

Path rules apply below the worktree as they do below the repository, so that no restriction is lost. Depends on rules
and on the context of decisions.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.decision_context import DecisionContext, PermissionScope, RuleIndex
from teamwright.permissions.rules import PATH_TOOLS, Rule, fixed_directory, parse_rule
from teamwright.permissions.verdict import Verdict
from teamwright.permissions.worktree_bounds import WorktreeBounds


def move_context(context: DecisionContext, place: WorktreeBounds) -> DecisionContext:
    """Return the context of decisions for an agent in this worktree. The context may be that of another worktree."""
    former = context.scope.worktree
    rules = RuleIndex(move_rules(context.rules.rules, place, None if former is None else former.tree))
    return replace(context, rules=rules, scope=move_scope(context.scope, place))


def replace_rules(context: DecisionContext, former: Collection[Rule], rules: Iterable[Rule]) -> DecisionContext:
    """Return the context with these rules of the checkout in the place of the former ones. All others stay."""
    gone = set(map(id, former))
    moved = set[Rule]()
    if (place := context.scope.worktree) is not None:
        moved = set(move_rules(former, place))
        rules = move_rules(rules, place)
    remaining_rules = (rule for rule in context.rules.rules if id(rule) not in gone and rule not in moved)
    return replace(context, rules=RuleIndex((*rules, *remaining_rules)))


def move_rules(rules: Iterable[Rule], place: WorktreeBounds, former: Path | None = None) -> tuple[Rule, ...]:
    """Return the rules of the checkout, or of the worktree `former`, for this worktree.

    A rule that denies or asks stays valid where it was: the agent can name the files of the checkout by their paths.
    """
    found = dict[Rule, None]()
    for rule in rules:
        found[_move_rule(rule, place, former)] = None
        if rule.verdict is not Verdict.ALLOW:
            found[rule] = None
    return tuple(found)


def move_scope(scope: PermissionScope, place: WorktreeBounds) -> PermissionScope:
    """Return the scope in this worktree: the directories that are not part of the checkout stay.

    A directory of another worktree, in which the session works, does not.
    """
    own = [place.checkout, place.tree, *([scope.worktree.tree] if scope.worktree is not None else [])]
    also = tuple(
        path
        for path in scope.directories
        if all(not path.is_relative_to(one) and not one.is_relative_to(path) for one in own)
    )
    files = frozenset(_moved(path, place) for path in scope.hook_files)
    trees = frozenset(_moved(path, place) for path in scope.hook_trees)
    return replace(
        scope,
        directories=(place.tree, *also),
        base=place.tree,
        worktree=place,
        hook_files=scope.hook_files | files,
        hook_trees=scope.hook_trees | trees,
        temporary=None if scope.temporary is None else replace(scope.temporary, checkout=str(place.checkout)),
    )


@lru_cache(maxsize=4_096)
def _move_rule(rule: Rule, place: WorktreeBounds, former: Path | None) -> Rule:
    if rule.pattern is None or rule.tool not in PATH_TOOLS:
        return rule
    text = f"{rule.tool}({_move_pattern(rule.pattern, place, former)})"
    return parse_rule(text, rule.verdict, rule.source, place.tree, rule.by_user, rule.trusted)


def _move_pattern(pattern: str, place: WorktreeBounds, former: Path | None) -> str:
    """Return an absolute pattern below the checkout or `former`, or one of the home directory, for the worktree."""
    if not pattern.startswith(("//", "~")):
        return pattern
    fixed = fixed_directory(pattern, place.tree)
    parts = pattern.split("/")
    origin = next((one for one in (place.checkout, former) if one is not None and fixed.is_relative_to(one)), None)
    if origin is None:
        return pattern
    rest = itertools.dropwhile(lambda part: not set(part) & set("*?"), parts)
    return f"/{place.tree.joinpath(fixed.relative_to(origin), *rest)}"


def _moved(path: str, place: WorktreeBounds) -> str:
    inside = path.startswith(f"{place.checkout}/")
    return str(place.tree / os.path.relpath(path, place.checkout)) if inside else path
