"""The inputs of permission decisions: the context with mode, rules by tool, scope, directories and path ownership.

Rules are sorted once, so that a tool without rules costs one look-up. Path ownership names the paths that another
member owns, and the only paths that an agent may change: it applies in every mode, and no rule lifts it. Only a person
may allow such a change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from teamwright.git.repository_risks import GitEntry
from teamwright.permissions.rules import PathPattern, Rule
from teamwright.permissions.verdict import Decision, Mode, Verdict, stricter
from teamwright.storage.real_paths import is_process_link, real_path

if TYPE_CHECKING:
    from teamwright.permissions.worktree_bounds import WorktreeBounds
    from teamwright.sandbox.temporary_files import TemporaryFiles


PLAN_MODE_RULE = f"mode {Mode.PLAN}"
"""The reason of a decision by plan mode."""


class DecisionContext(Struct):
    """All inputs of a decision besides the call, with the directories as texts.

    A path is in one of them when its text and a `/` begins with it; the private ones are in lower case, because some
    file systems ignore case. `plan_file` is the real path of the agent's plan, or empty. The texts are computed from
    the scope, also in a copy with another one.
    """

    rules: RuleIndex
    scope: PermissionScope
    mode: Mode
    plan_file: str = ""
    directories: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    is_confined: bool = False
    """True for a command that the sandbox confines, so that `/tmp` may be the session's."""

    def __post_init__(self) -> None:
        self.directories = _as_texts(self.scope.directories)
        self.own = _as_texts(self.scope.own)
        self.private = tuple(text.lower() for text in _as_texts(self.scope.private))

    def locate(self, path: Path) -> tuple[str, Path]:
        """Return the name of a path for rules, and the path of the file that the call reaches."""
        temporary = self.scope.temporary
        named = os.path.normpath(path)
        if temporary is None:
            return named, path
        if self.is_confined:
            return named, Path(temporary.seen_by_command(named, map(str, self.scope.directories)))
        return temporary.name(named), path

    def is_temporary(self, real: str) -> bool:
        """Return True when a real path is one of the session's temporary files."""
        return self.scope.temporary is not None and self.scope.temporary.contains(real)

    @property
    def bypasses(self) -> bool:
        """True when every call without a deny rule is allowed."""
        return self.mode is Mode.BYPASS

    @property
    def accepts_edits(self) -> bool:
        """True when files inside the directories may be changed, also by a teammate in delegate mode."""
        return self.mode is Mode.ACCEPT_EDITS or self.mode is Mode.DELEGATE

    @property
    def is_planning(self) -> bool:
        """True when nothing may be changed yet."""
        return self.mode is Mode.PLAN


@lru_cache(maxsize=256)
def _as_texts(directories: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(f"{str(directory).rstrip('/')}/" for directory in directories)


class PermissionScope(Struct, frozen=True):
    """The directories and private paths of an agent, all by real path.

    `directories` are allowed; `private` are denied to file tools (the state root), except reading the agent's `own`
    files in them; `trusted_git` is the git configuration of a repository that a person trusts; `base` is the directory
    for relative rules and offered rules; `ownership` has the paths of others. `hook_files` and everything below
    `hook_trees` are what hooks, servers and checks run: they are always guarded.
    """

    directories: tuple[Path, ...] = ()
    private: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    trusted_git: frozenset[GitEntry] = frozenset()
    base: Path = Path("/")
    ownership: PathOwnership | None = None
    worktree: WorktreeBounds | None = None
    """The worktree in which the agent works; None for one in the session's directory."""
    settings: Path | None = None
    """The user's settings file, whose rules answer every question. Denials name it."""
    hook_files: frozenset[str] = frozenset()
    hook_trees: frozenset[str] = frozenset()
    temporary: TemporaryFiles | None = None
    """The session's temporary files, which count as inside the directories; None without a sandbox."""

    def runs(self, real: str) -> bool:
        """Return True when a hook, a server or a check runs the file at this real path."""
        if real in self.hook_files:
            return True
        return any(f"{real}/".startswith(f"{tree}/") for tree in self.hook_trees)


class ToolRules(Struct, frozen=True):
    """The rules for one tool."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()


class RuleIndex(Struct):
    """All rules, in the order given, and by tool."""

    rules: tuple[Rule, ...] = ()
    _by_tool: dict[str, ToolRules] = field(default_factory=dict[str, ToolRules])

    def rules_for(self, tool: str) -> ToolRules:
        """Return the rules for this tool."""
        found = self._by_tool.get(tool)
        if found is None:
            mine = [rule for rule in self.rules if rule.names_tool(tool)]
            found = self._by_tool[tool] = ToolRules(
                tuple(rule for rule in mine if rule.verdict is Verdict.DENY),
                tuple(rule for rule in mine if rule.verdict is Verdict.ASK),
                tuple(rule for rule in mine if rule.verdict is Verdict.ALLOW),
            )
        return found


def decide_by_rule(rule: Rule) -> Decision:
    """Return the decision of a matching rule."""
    words = {Verdict.DENY: "forbids", Verdict.ASK: "asks before", Verdict.ALLOW: "allows"}
    return Decision(rule.verdict, str(rule), f"The rule {rule.text} {words[rule.verdict]} this.")


def decide_by_mode(mode: Mode, verdict: Verdict, reason: str) -> Decision:
    """Return the decision of the mode, for a call without a matching rule."""
    return Decision(verdict, f"mode {mode}", reason)


def decide_by_plan(context: DecisionContext) -> Decision:
    """Return the decision of plan mode on each call that may change something, despite allow rules."""
    to = f" to {context.plan_file}" if context.plan_file else ""
    reason = f"Nothing is changed while you plan: read what you need, write the plan{to}, then call ExitPlanMode."
    return Decision(Verdict.DENY, PLAN_MODE_RULE, reason)


def strictest(decisions: Iterable[Decision], default: Decision) -> Decision:
    """Return the first of the strictest decisions, or `default` when there is none."""
    best: Decision | None = None
    for decision in decisions:
        if decision.verdict is Verdict.DENY:
            return decision
        if best is None or is_stricter(decision, best):
            best = decision
    return best or default


def is_stricter(one: Decision, other: Decision) -> bool:
    """Return True when `one` is stricter. Of two questions, the one that only a person answers is."""
    if one.verdict is other.verdict:
        return one.verdict is Verdict.ASK and one.needs_person and not other.needs_person
    return stricter(one.verdict, other.verdict) is one.verdict


class PathOwnership(Struct, frozen=True):
    """The paths that one agent may not change: those `owned_by_others` and, with `allowed_only`, all others except
    these. `role` is the role or task that is limited, and `source` the file and line of it.

    `strict`: such a change is denied, and no person is asked.
    """

    owned_by_others: tuple[OwnedPaths, ...] = ()
    allowed_only: tuple[PathPattern, ...] | None = None
    role: str = ""
    source: str = ""
    strict: bool = False

    def refusal(self, path: Path, *, deep: bool = False) -> Decision | None:
        """Return the refusal of a change to this path, by its name and its real path; None when the change is allowed.

        `deep`: everything below it changes too.
        """
        named = os.path.normpath(path)
        real = real_path(path)
        if is_process_link(real):
            return self.refuse_unknown()
        for one in self.owned_by_others:
            if one.contains(named, real, deep):
                file = os.path.basename(named)
                reason = f"{file} belongs to the role {one.owner}: a member of it makes the change; send it a message."
                return self._refuse(f"{one.pattern} owned by {one.owner} [{one.source}]", reason)
        if self.allowed_only is None or any(
            one.matches_name(named) and one.matches_real(real) for one in self.allowed_only
        ):
            return None
        reason = f"{self.role} changes only its own files, and {os.path.basename(named)} is none of them."
        return self._refuse(f"writes of {self.role} [{self.source}]", reason)

    def _refuse(self, rule: str, reason: str) -> Decision:
        return Decision(Verdict.DENY if self.strict else Verdict.ASK, rule, reason, needs_person=True)

    def refuse_unknown(self) -> Decision:
        """Return the question about a change to a file whose name only the shell knows."""
        source = self.owned_by_others[0].source if self.owned_by_others else self.source
        reason = "It changes a file that only the shell will know, and some files belong to others."
        return Decision(Verdict.ASK, f"owners of paths [{source}]", reason, needs_person=True)


class OwnedPaths(Struct, frozen=True):
    """Paths with an owner. `pattern` is as written, `source` the file and line of it.

    `root` is the real path of the part without wildcards: removing a directory above it removes all of them.
    """

    owner: str
    pattern: str
    source: str
    match: PathPattern
    root: str

    @classmethod
    def parse(cls, owner: str, pattern: str, source: str, base: Path) -> OwnedPaths:
        """Return the paths of this pattern below `base`."""
        parts = pattern.removeprefix("./").split("/")
        fixed = next((at for at, part in enumerate(parts) if set(part) & set("*?")), len(parts))
        root = real_path(base.joinpath(*parts[:fixed]))
        return cls(owner, pattern, source, PathPattern.parse(pattern, base, strict=True), root)

    def contains(self, named: str, real: str, deep: bool) -> bool:
        """Return True when the path is one of these; with `deep` also when one of these is below it."""
        if self.match.matches_name(named) or self.match.matches_real(real) or self.match.matches_name(real):
            return True
        return deep and f"{self.root}/".lower().startswith(f"{real.rstrip('/')}/".lower())
