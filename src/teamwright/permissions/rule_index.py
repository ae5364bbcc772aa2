"""What decisions are made from: the rules sorted by tool, and the ground they are made on.

Sorted once and kept, so that a tool without rules costs one look-up. Does not decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from teamwright.permissions.ownership import PathOwnership
from teamwright.permissions.rules import Rule
from teamwright.permissions.verdict import Decision, Mode, Verdict
from teamwright.processes.repository.git_entries import GitEntry
from teamwright.protocol.values import dataclass

PLAN_MODE_RULE = f"mode {Mode.PLAN}"
"""What names plan mode as the reason of a decision."""


@dataclass(frozen=True, slots=True)
class PermissionScope:
    """The ground of an agent, all by real path.

    `directories` may be used; `private` are denied to file tools (the state root), but for reading what is the
    agent's `own` in them; `trusted_git` is what a person trusted of a repository's git configuration; `base` is where
    relative rules and offered rules lie; `fence` tells what belongs to others. `run` are files that hooks run, by real
    path: they are guarded wherever they lie.
    """

    directories: tuple[Path, ...] = ()
    private: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    trusted_git: frozenset[GitEntry] = frozenset()
    base: Path = Path("/")
    ownership: PathOwnership | None = None
    settings: Path | None = None
    """The user's own settings file, whose rules answer every question: a refusal names it."""
    hook_files: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ToolRules:
    """The rules that speak about one tool."""

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()


@dataclass(slots=True)
class RuleIndex:
    """All rules, in the order given, and by tool."""

    rules: tuple[Rule, ...] = ()
    _by_tool: dict[str, ToolRules] = field(default_factory=dict[str, ToolRules])

    def rules_for(self, tool: str) -> ToolRules:
        """The rules that speak about this tool."""
        found = self._by_tool.get(tool)
        if found is None:
            mine = [rule for rule in self.rules if rule.names_tool(tool)]
            found = self._by_tool[tool] = ToolRules(
                tuple(rule for rule in mine if rule.verdict is Verdict.DENY),
                tuple(rule for rule in mine if rule.verdict is Verdict.ASK),
                tuple(rule for rule in mine if rule.verdict is Verdict.ALLOW),
            )
        return found


@dataclass(slots=True)
class DecisionContext:
    """Everything that a decision depends on besides the call, and the directories as texts, made once.

    A path lies in one of them when its text and a `/` begins with it; the private ones are in lower case, because
    some file systems know no other. `plan_file` is the real path of the plan that its agent writes, or empty.
    """

    rules: RuleIndex
    scope: PermissionScope
    mode: Mode
    plan_file: str = ""
    directories: tuple[str, ...] = field(init=False)
    private: tuple[str, ...] = field(init=False)
    own: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.directories = _as_texts(self.scope.directories)
        self.own = _as_texts(self.scope.own)
        self.private = tuple(text.lower() for text in _as_texts(self.scope.private))

    @property
    def bypasses(self) -> bool:
        """Whether everything is allowed that no deny rule names."""
        return self.mode is Mode.BYPASS

    @property
    def accepts_edits(self) -> bool:
        """Whether files inside the directories may be changed: a member that was delegated to does so too."""
        return self.mode is Mode.ACCEPT_EDITS or self.mode is Mode.DELEGATE

    @property
    def is_planning(self) -> bool:
        """Whether nothing may be changed yet."""
        return self.mode is Mode.PLAN


@lru_cache(maxsize=256)
def _as_texts(directories: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(f"{str(directory).rstrip('/')}/" for directory in directories)


def decide_by_rule(rule: Rule) -> Decision:
    """What a rule that matches says."""
    words = {Verdict.DENY: "forbids", Verdict.ASK: "asks before", Verdict.ALLOW: "allows"}
    return Decision(rule.verdict, str(rule), f"The rule {rule.text} {words[rule.verdict]} this.")


def decide_by_mode(mode: Mode, verdict: Verdict, reason: str) -> Decision:
    """What the mode says where no rule did."""
    return Decision(verdict, f"mode {mode}", reason)


def decide_by_plan(ground: DecisionContext) -> Decision:
    """What plan mode says to everything that may change something, whatever a rule allows."""
    to = f" to {ground.plan_file}" if ground.plan_file else ""
    reason = f"Nothing is changed while you plan: read what you need, write the plan{to}, then call ExitPlanMode."
    return Decision(Verdict.DENY, PLAN_MODE_RULE, reason)


def strictest(decisions: Iterable[Decision], default: Decision) -> Decision:
    """The first of the strictest decisions; `otherwise` when there is none."""
    best: Decision | None = None
    for decision in decisions:
        if decision.verdict is Verdict.DENY:
            return decision
        if best is None or (best.verdict is Verdict.ALLOW and decision.verdict is Verdict.ASK):
            best = decision
    return best or default
