"""The rules and the scope of an agent that works in a worktree, from those of the session.

Path rules apply below the worktree as they do below the repository, so that no restriction is lost. Depends on rules
and on the context of decisions.
"""

from __future__ import annotations

import itertools
import os
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.decision_context import DecisionContext, PermissionScope, RuleIndex
from teamwright.permissions.rules import PATH_TOOLS, Rule, fixed_directory, parse_rule
from teamwright.permissions.worktree_bounds import WorktreeBounds


def move_context(context: DecisionContext, place: WorktreeBounds) -> DecisionContext:
    """Return the context of decisions for an agent in this worktree."""
    rules = RuleIndex(tuple(_move_rule(rule, place) for rule in context.rules.rules))
    return replace(context, rules=rules, scope=move_scope(context.scope, place))


def move_scope(scope: PermissionScope, place: WorktreeBounds) -> PermissionScope:
    """Return the scope in this worktree: the directories that are not part of the checkout stay."""
    here = place.tree if scope.worktree is None else scope.worktree.tree
    copies = (place.checkout, here)
    also = tuple(
        path for path in scope.directories if path != place.tree and all(_is_apart(path, copy) for copy in copies)
    )
    place = replace(place, also=tuple(path for path in also if _is_apart(path, place.tree)))
    moved = frozenset(_moved(path, place) for path in scope.hook_files)
    return replace(
        scope,
        directories=(place.tree, *place.also),
        base=place.tree,
        worktree=place,
        hook_files=scope.hook_files | moved,
    )


@lru_cache(maxsize=4_096)
def _move_rule(rule: Rule, place: WorktreeBounds) -> Rule:
    if rule.pattern is None or rule.tool not in PATH_TOOLS:
        return rule
    text = f"{rule.tool}({_move_pattern(rule.pattern, place)})"
    return parse_rule(text, rule.verdict, rule.source, place.tree, rule.by_user, rule.trusted)


def _move_pattern(pattern: str, place: WorktreeBounds) -> str:
    """Return an absolute pattern below the checkout, or one of the home directory, for the worktree."""
    if not pattern.startswith(("//", "~")):
        return pattern
    fixed, parts = fixed_directory(pattern, place.tree), pattern.split("/")
    if not fixed.is_relative_to(place.checkout):
        return pattern
    rest = itertools.dropwhile(lambda part: not set(part) & set("*?"), parts)
    return f"/{place.tree.joinpath(fixed.relative_to(place.checkout), *rest)}"


def _is_apart(one: Path, other: Path) -> bool:
    return not one.is_relative_to(other) and not other.is_relative_to(one)


def _moved(path: str, place: WorktreeBounds) -> str:
    inside = path.startswith(f"{place.checkout}/")
    return str(place.tree / os.path.relpath(path, place.checkout)) if inside else path
