"""The permission decision: from a tool and its access to a verdict with its reason. Only links are read from disk.

Deny rules come before ask rules and allow rules, then the mode. The verdict of a narrowed policy is the stricter of its
own and its parents', computed at each call. `judge_call` decides in one context, without those above. Questions to
approvers are in `agent`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import ref

from msgspec.structs import replace

from teamwright.permissions.call_grant import NO_PATHS, CallGrant
from teamwright.permissions.decision_context import (
    PLAN_MODE_RULE,
    DecisionContext,
    PermissionScope,
    RuleIndex,
    decide_by_mode,
    decide_by_plan,
    decide_by_rule,
    is_stricter,
    strictest,
)
from teamwright.permissions.excluded_paths import NOTHING_EXCLUDED, ExcludedPaths, Segments
from teamwright.permissions.path_verdicts import (
    PRIVATE_FILES,
    denied_below,
    is_named_by_rule,
    judge_own_file,
    judge_path,
)
from teamwright.permissions.rules import READ_TOOLS, Rule, is_local_host, url_host
from teamwright.permissions.verdict import BY_SANDBOX, Access, Decision, Mode, PermissionUpdate, Verdict, where_allowed
from teamwright.processes.program_environment import add_changeable
from teamwright.sandbox.policy import PolicyName, is_inside, narrower_policy
from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.step_limit import bounded_work, find_bounded
from teamwright.storage.real_paths import real_path

if TYPE_CHECKING:
    from teamwright.permissions.worktree_bounds import WorktreeBounds
    from teamwright.shell_lines.parsed_line import ShellCommand


_MAX_CACHED = 1_000  # verdicts: a subject may be any text

COORDINATION_TOOLS = word_set(
    "TeamCreate TeamDelete SendMessage TaskCreate TaskGet TaskList TaskUpdate TaskOutput TaskStop ListAgents"
    " AskUserQuestion EnterPlanMode ExitPlanMode ToolSearch"
)
"""The tools of a lead that only coordinates, besides an `Agent` call that starts a member."""

_PLANNERS_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "Read"})
"""Tools for an agent's plan file, which it may always read and may change in plan mode; and for its memory."""

_PLAN_REASON = "It is the plan that this agent writes."
_MEMORY_REASON = "It is what agents of this kind remember."

_DELEGATE_ADVICE = "give the work to a member: TaskCreate, or Agent with a name."
_CALLER_PLANS_REASON = (  # for agents that cannot end the planning
    "The agent that started you is still in plan mode, so change nothing. Read what you need and report what you found."
)

NOTHING_TO_DECIDE = Decision(Verdict.ALLOW, "nothing", "There is nothing to decide.")

_HARMLESS_TOOLS = READ_TOOLS | {"WebFetch", "WebSearch"}
"""Tools that change nothing with any input."""


class Policy:
    """The permissions of an agent: a mode, rules and a scope, and the policies that it may not exceed.

    Mode and rules may change during a run (`change_mode`, `add_rules`); policies narrowed to this one follow at once.
    `is_delegating`: the agent of this policy only coordinates. Other tools are denied to it, but not to agents below
    it. `bounds_writes`: it only decides on path ownership, and on nothing while its scope has none.
    """

    def __init__(
        self,
        mode: Mode = Mode.DEFAULT,
        rules: Iterable[Rule] = (),
        scope: PermissionScope | None = None,
        parents: tuple[Policy, ...] = (),
        *,
        is_delegating: bool = False,
        bounds_writes: bool = False,
    ) -> None:
        self._context = DecisionContext(RuleIndex(tuple(rules)), scope or PermissionScope(), mode)
        self._parents = parents
        self._decided_by_name: dict[tuple[str, str | None, bool], Decision] = {}
        self._with_caller: tuple[DecisionContext, DecisionContext] | None = None
        self.is_delegating = is_delegating
        self._bounds_writes = bounds_writes
        self._bounded: Policy | None = None
        self._granted: tuple[Rule, ...] = ()
        self._memory = ""
        self._followers: tuple[Callable[[], None], ...] = ()

    def follow(self, follower: Callable[[], None]) -> None:
        """Call `follower` when the mode, rules or scope of this policy have changed."""
        self._followers = (*self._followers, follower)

    @property
    def mode(self) -> Mode:
        """The mode of this policy. A parent may be stricter."""
        return self._context.mode

    def change_mode(self, mode: Mode) -> None:
        """Change the mode, from the next call on."""
        # A policy without a mode used its caller's rules and keeps them: else it would ask more often than others.
        self._set_context(
            replace(self._context if mode is Mode.BUBBLE else self._current_context(), mode=mode, plan_file=self._plan)
        )

    @property
    def effective_mode(self) -> Mode:
        """The mode that decides, without delegation: the caller's current mode when this policy has none."""
        return self._current_context().mode

    @property
    def display_mode(self) -> Mode:
        """The mode for display: `delegate` for a lead that only coordinates, else the one that decides."""
        return Mode.DELEGATE if self.is_delegating else self.effective_mode

    @property
    def is_caller_planning(self) -> bool:
        """True when an agent above is in plan mode: this agent changes nothing either, and cannot leave that mode."""
        return any(policy.mode is Mode.PLAN or policy.is_caller_planning for policy in self._parents)

    @property
    def plan_file(self) -> Path | None:
        """The path of this agent's plan, which Write and Edit may change in plan mode."""
        return Path(self._plan) if self._plan else None

    @property
    def _plan(self) -> str:
        return self._context.plan_file

    def allow_plan(self, path: Path | None) -> None:
        """Let this agent change this file in plan mode, in the place of an earlier one."""
        real = "" if path is None else os.path.join(real_path(path.parent), path.name)
        self._set_context(replace(self._context, plan_file=real))

    @property
    def memory_directory(self) -> Path | None:
        """The memory directory of this agent's type, which it may read and change unless a rule decides otherwise."""
        return Path(self._memory) if self._memory else None

    def allow_memory(self, directory: Path | None) -> None:
        """Let this agent read and change this directory, in the place of an earlier one."""
        self._memory = "" if directory is None else str(directory)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of this policy, without its parents'."""
        return self._context.rules.rules

    @property
    def scope(self) -> PermissionScope:
        """The directories and private paths: the caller's when this policy has no mode."""
        return self._current_context().scope

    def change_scope(self, scope: PermissionScope) -> None:
        """Change the directories and private paths, from the next call on."""
        add_changeable(scope.directories)
        self._set_context(replace(self._context, scope=scope))

    def apply_update(
        self, update: PermissionUpdate, source: str = "granted with an answer", *, by_user: bool = False
    ) -> None:
        """Apply a grant from the next call on, as far as the parents allow it.

        `source` names the person or program that granted it. `by_user`: a person did, so that its rules also answer the
        git policy. Raises UsageError, and changes nothing, when it exceeds the bounds of `permissions.grant_bounds`.
        """
        from teamwright.permissions.grant_bounds import check_directories, check_mode, check_rules

        if update.kind == "setMode":
            self.change_mode(check_mode(update, self.effective_mode))
        elif update.kind == "addDirectories":
            added = check_directories(update, self.scope)
            scope = self._context.scope
            self.change_scope(replace(scope, directories=tuple(dict.fromkeys((*scope.directories, *added)))))
        else:
            self.add_rules(*check_rules(update, self.scope, source, by_user))

    @property
    def granted(self) -> tuple[Rule, ...]:
        """Allow rules of this agent only, as with an approved plan.

        They answer questions, and an agent below needs the same grant.
        """
        return self._granted

    def grant(self, rules: Iterable[Rule]) -> None:
        """Add allow rules of this agent only."""
        self._granted = (*self._granted, *rules)

    def revoke(self, rules: Iterable[Rule]) -> None:
        """Remove these very rules from those that were granted."""
        gone = {id(rule) for rule in rules}
        self._granted = tuple(rule for rule in self._granted if id(rule) not in gone)

    def change_delegation(self, is_delegating: bool) -> None:
        """Restrict the agent of this policy to coordination, or end that."""
        self.is_delegating = is_delegating

    def add_rules(self, *rules: Rule) -> None:
        """Add rules, as after an "always" answer."""
        self._set_context(replace(self._context, rules=RuleIndex((*self.rules, *rules))))

    def replace_rules(self, former: Collection[Rule], rules: Iterable[Rule]) -> None:
        """Replace the former rules of the checkout by these, as when settings are read again. All others stay."""
        from teamwright.permissions.worktree_context import replace_rules

        self._set_context(replace_rules(self._context, former, rules))

    @property
    def directories(self) -> tuple[Path, ...]:
        """The allowed directories, by real path: those of this policy that each policy above it has too."""
        found = self.scope.directories
        for policy in self._parents:
            if not policy._bounds_writes and (above := policy.directories) != found:
                found = _common_directories(found, above)
        return found

    def grant_for(self, access: Access, decision: Decision, *, is_approved: bool = False) -> CallGrant:
        """Return what a call gets if it runs after this decision, or after an approval of its question.

        Only commands are confined, and need directories. `is_approved`: an approver allowed this very call, also if a
        rule allows it by now.
        """
        if access.command is None:
            return CallGrant(decision.confinement)
        directories = self.directories
        is_by_sandbox = decision.verdict is Verdict.ALLOW and decision.rule == BY_SANDBOX
        if decision.confinement is not PolicyName.WORK or is_by_sandbox:
            return CallGrant(decision.confinement, directories)
        from teamwright.permissions.opened_paths import find_named_paths  # only a command pays for this import

        scope = self.scope
        tops = tuple(map(str, directories))

        def is_open(real: str) -> bool:
            if any(is_inside(real, top) for top in tops):
                return True
            temporary = scope.temporary
            return temporary is not None and temporary.contains(temporary.seen_by_command(real, tops))

        def is_forbidden(tool: str, path: str) -> bool:
            if self._forbids(tool, path):
                return True
            # A program could reach what a rule forbids in the directory: the line does not open that as a whole.
            return tool == "Write" and os.path.isdir(path) and self._forbids_below(path)

        is_seen = is_approved or decision.verdict is not Verdict.ALLOW or self._allows_every_line
        covers = None if is_seen else self._covers_change
        # A line that is too large to judge opens nothing.
        named = find_bounded(
            lambda: find_named_paths(access, scope.base, is_open, is_forbidden, covers), otherwise=NO_PATHS
        )
        return CallGrant(decision.confinement, directories, named)

    @property
    def _allows_every_line(self) -> bool:
        """True when the mode or a rule allows every line, here and above."""
        mine = self._current_context().bypasses or any(rule.is_whole_tool for rule in self._command_rules)
        return mine and all(policy._allows_every_line for policy in self._agents_above())

    def _covers_change(self, command: ShellCommand, path: str) -> bool:
        """Return True when what allows this command, here and above, covers a change of the path."""
        from teamwright.permissions.allow_rule_limits import covers_change

        return covers_change(self._current_context(), self._command_rules, command, path) and all(
            policy._covers_change(command, path) for policy in self._agents_above()
        )

    def _agents_above(self) -> Iterator[Policy]:
        """Yield the policies above whose rules decide too; a policy that bounds the same agent's is none of them."""
        for policy in self._parents:
            if policy is self._bounded:
                yield from policy._agents_above()
            elif not policy._bounds_writes:
                yield policy

    @property
    def _command_rules(self) -> tuple[Rule, ...]:
        """The rules that allow commands, with those granted to this agent only."""
        rules = RuleIndex((*self._current_context().rules.rules, *self._granted)) if self._granted else None
        return (rules or self._current_context().rules).rules_for("Bash").allow

    def _forbids_below(self, directory: str) -> bool:
        """Return True when a rule forbids to edit a file that is below this directory."""
        for context in self._contexts():
            for rule, patterns in denied_below(context, "Edit", directory):
                if rule != PRIVATE_FILES and ExcludedPaths(tuple(patterns), (rule,)).note(directory):
                    return True
        return False

    def _forbids(self, tool: str, path: str) -> bool:
        judged = (judge_path(context, tool, Path(path), writes=tool == "Write") for context in self._contexts())
        return any(decision.verdict is Verdict.DENY for decision in judged)

    def with_mode(self, mode: Mode) -> Policy:
        """Return a policy with the same rules and scope and another mode. Narrow it to the policy that it came from."""
        context = self._context if mode is Mode.BUBBLE else self._current_context()
        return Policy(mode, context.rules.rules, context.scope, self._parents)

    def narrow_to(self, parent: Policy) -> Policy:
        """Return this policy with another parent: each call then has the stricter of both verdicts."""
        policy = Policy(self.mode, self.rules, self.scope, (*self._parents, parent))
        if self._plan:
            policy.allow_plan(self.plan_file)
        return policy

    def bounded_by(self, *bounds: Policy) -> Policy:
        """Return a policy of the same agent, which these policies bound too. It has the present delegation."""
        policy = Policy(Mode.BUBBLE, parents=(self, *bounds), is_delegating=self.is_delegating)
        policy._bounded = self
        return policy

    def in_worktree(self, place: WorktreeBounds) -> Policy:
        """Return this policy for an agent that works in that worktree. It follows the changes of this one."""
        parents = tuple(parent.in_worktree(place) for parent in self._parents)
        moved = Policy(self.mode, parents=parents, bounds_writes=self._bounds_writes)
        target = ref(moved)

        def follow() -> None:
            if (policy := target()) is not None:
                policy.enter_worktree(place, self)

        follow()
        self.follow(follow)
        return moved

    def enter_worktree(self, place: WorktreeBounds, origin: Policy | None = None) -> None:
        """Let the agent work in that worktree from now on, under the rules of `origin`, by default its own."""
        from teamwright.permissions.worktree_context import move_context

        self._set_context(move_context((origin or self)._context, place))

    def hides(self, tool: str) -> bool:
        """Return True when the tool is forbidden as a whole, so that it need not be offered."""
        if any(rule.is_whole_tool for rule in self._context.rules.rules_for(tool).deny):
            return True
        return any(policy.hides(tool) for policy in self._parents) if self._parents else False

    @property
    def hidden_tools(self) -> frozenset[str]:
        """Names, and names that end in a star, that deny rules forbid as a whole. `hides` is exact."""
        whole = [rule for rule in self.rules if rule.is_whole_tool and rule.verdict is Verdict.DENY]
        mine = frozenset[str]().union(*(rule.tools for rule in whole))
        return mine.union(*(policy.hidden_tools for policy in self._parents))

    def decide(self, tool: str, access: Access) -> Decision:
        """Return the verdict on this call."""
        with bounded_work():
            return self._decide(tool, access)

    def _decide(self, tool: str, access: Access) -> Decision:
        if self.is_delegating and not (tool in COORDINATION_TOOLS or (tool == "Agent" and access.starts_teammate)):
            reason = f"{tool} is not for you while you coordinate: {_DELEGATE_ADVICE}"
            return Decision(Verdict.DENY, f"mode {Mode.DELEGATE}", reason)
        if PolicyName.WORK in access.sandbox and any(one.scope.ownership is not None for one in self._contexts()):
            # The sandbox lets a program change files of other owners, so it does not answer the question about it.
            access = replace(access, sandbox=access.sandbox - {PolicyName.WORK})
        own = (
            _PLAN_REASON if self._is_own_plan(tool, access) else _MEMORY_REASON if self._is_memory(tool, access) else ""
        )
        decision = self._decide_with_parents(tool, access, own)
        if decision.needs_person and any(context.mode is Mode.DONT_ASK for context in self._contexts()):
            decision = deny_question(self._current_context(), decision)
        if decision.rule == PLAN_MODE_RULE and decision.verdict is Verdict.DENY:
            plans = self.mode is Mode.PLAN or bool(self._plan)
            return decide_by_plan(self._context) if plans else replace(decision, reason=_CALLER_PLANS_REASON)
        if self._granted and decision.verdict is not Verdict.ALLOW:
            return self._decide_by_grant(tool, access) or decision
        return decision

    def _decide_by_grant(self, tool: str, access: Access) -> Decision | None:
        """Allow a call by a grant to this agent if all parents would allow it. A denied call stays denied."""
        for policy in self._deciding_parents:
            if policy is self._bounded:
                continue  # the same agent, whose own verdict is below
            plain = policy._decide_with_parents(tool, access, "").verdict is Verdict.ALLOW
            if not plain and (not policy._granted or policy._decide_by_grant(tool, access) is None):
                return None
        context = self._current_context()
        decision = judge_call(replace(context, rules=RuleIndex((*context.rules.rules, *self._granted))), tool, access)
        return decision if decision.verdict is Verdict.ALLOW else None

    def excluded_paths(self, tool: str, root: Path) -> ExcludedPaths:
        """Return the paths that this tool leaves out of a listing of a directory: those denied here or by a parent."""
        found: dict[str, set[Segments]] = {}
        for context in self._contexts():
            for rule, patterns in denied_below(context, tool, str(root)):
                if patterns:
                    found.setdefault(rule, set()).update(patterns)
        if not found:
            return NOTHING_EXCLUDED
        patterns = sorted(set[Segments]().union(*found.values()))
        return ExcludedPaths(tuple(patterns), tuple(found), lambda path: self._forbids(tool, path))

    def withholds(self, file: Path) -> bool:
        """Return True for a file whose text the runtime must not give to this agent: a rule denies or asks about it."""
        return any(is_named_by_rule(context, file) for context in self._contexts())

    def _contexts(self) -> Iterator[DecisionContext]:
        yield self._current_context()
        for policy in self._parents:
            yield from policy._contexts()

    def explain_command(self, access: Access) -> list[tuple[str, Decision]]:
        """Return the verdicts of this policy, without parents, on each command of a shell line, in the line's order."""
        from teamwright.permissions.shell_verdict import explain

        context = self._current_context()
        return [
            (words, complete_decision(context, "Bash", access, decision))
            for words, decision in explain(context, access)
        ]

    def _decide_with_parents(self, tool: str, access: Access, own: str) -> Decision:
        """Return the stricter verdict of this policy and its parents. `own`: the reason why the file is the agent's."""
        above = ((policy, policy._decide_with_parents(tool, access, own)) for policy in self._deciding_parents)
        if self.mode is Mode.BUBBLE and self._parents and not self.rules:
            return strictest((decision for _, decision in above), NOTHING_TO_DECIDE)
        decision = self._decide_own(tool, access, own)
        for policy, theirs in above:
            confinement = decision.confinement if policy._bounds_writes else theirs.confinement
            if is_stricter(theirs, decision):
                # An approval is not held to reading because one of the two would only read.
                mine = PolicyName.WORK if decision.confinement is PolicyName.READ else decision.confinement
                decision = replace(theirs, confinement=narrower_policy(mine, confinement))
            elif narrower_policy(decision.confinement, confinement) is not decision.confinement:
                decision = replace(decision, confinement=confinement)
        return decision

    @property
    def _deciding_parents(self) -> Iterator[Policy]:
        return (policy for policy in self._parents if not policy._decides_nothing)

    @property
    def _decides_nothing(self) -> bool:
        return self._bounds_writes and self._context.scope.ownership is None

    def _decide_own(self, tool: str, access: Access, own: str) -> Decision:
        context = self._current_context()
        if own:
            paths = access.writes or access.reads
            decision = strictest((judge_own_file(context, tool, path, own) for path in paths), NOTHING_TO_DECIDE)
            return complete_decision(context, tool, access, decision)
        if access.reads or access.writes or access.command is not None or access.url is not None:
            return complete_decision(context, tool, access, judge_call(context, tool, access))
        return self._decide_by_name_cached(context, tool, access)

    def _is_own_plan(self, tool: str, access: Access) -> bool:
        """Return True when the call only reads this agent's plan, or changes it in plan mode."""
        mine = self._plan
        if not mine or tool not in _PLANNERS_TOOLS or access.command is not None:
            return False
        if access.writes and self.effective_mode is not Mode.PLAN:
            return False
        paths = (*access.writes, *access.reads)
        return bool(paths) and all(real_path(path) == mine for path in paths)

    def _is_memory(self, tool: str, access: Access) -> bool:
        """Return True when the call only touches the memory of this agent's type. In plan mode changes do not count."""
        if not self._memory or tool not in _PLANNERS_TOOLS or access.command is not None:
            return False
        if access.writes and (self.effective_mode is Mode.PLAN or self.is_caller_planning):
            return False
        paths = (*access.writes, *access.reads)
        return bool(paths) and all(real_path(path).startswith(f"{self._memory}/") for path in paths)

    def _current_context(self) -> DecisionContext:
        """Return the context of decisions: the caller's with this policy's rules, when it has no mode."""
        context = self._context
        if context.mode is not Mode.BUBBLE:
            return context
        above = self._parents[0]._current_context() if self._parents else context
        if self._with_caller is None or self._with_caller[0] is not above:
            self._decided_by_name = {}
            if self._parents:
                self._with_caller = (above, replace(above, rules=RuleIndex((*above.rules.rules, *context.rules.rules))))
            else:
                self._with_caller = (above, replace(context, mode=Mode.DEFAULT))
        return self._with_caller[1]

    def _decide_by_name_cached(self, context: DecisionContext, tool: str, access: Access) -> Decision:
        """Return a verdict that depends on names only. It is cached until the rules change."""
        key = (tool, access.subject, access.harmless)
        decision = self._decided_by_name.get(key)
        if decision is None:
            decision = complete_decision(context, tool, access, judge_call(context, tool, access))
            if len(self._decided_by_name) < _MAX_CACHED:
                self._decided_by_name[key] = decision
        return decision

    def _set_context(self, context: DecisionContext) -> None:
        self._context = context
        self._with_caller = None
        self._decided_by_name = {}
        for follower in self._followers:
            follower()


def _common_directories(mine: tuple[Path, ...], others: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the directories that are inside one of each."""
    found = [one for one in mine if any(one.is_relative_to(top) for top in others)]
    found += [one for one in others if any(one.is_relative_to(top) for top in mine)]
    return tuple(dict.fromkeys(found))


def judge_call(context: DecisionContext, tool: str, access: Access) -> Decision:
    """Return the verdict on a call in one context, without those above."""
    if access.command is not None:
        # The grammar of the shell is slow to load, so only a decision on a command pays for it.
        from teamwright.permissions.shell_verdict import judge_with_aliases

        return strictest(
            [judge_with_aliases(context, access), _decide_by_name(context, tool, access)], NOTHING_TO_DECIDE
        )
    if access.subject is not None and access.reads:  # an agent that starts in a directory: both are judged
        start = [judge_path(context, "Read", path, writes=False) for path in access.reads]
        return strictest([*start, _decide_by_name(context, tool, access)], NOTHING_TO_DECIDE)
    deep = tool == "Grep"  # which asks for what it leaves out, as Glob does: `left_out`
    paths = [judge_path(context, tool, path, writes=True) for path in access.writes]
    paths += [judge_path(context, tool, path, writes=False, deep=deep, except_denied=True) for path in access.reads]
    return strictest(paths, NOTHING_TO_DECIDE) if paths else _decide_by_name(context, tool, access)


def _decide_by_name(context: DecisionContext, tool: str, access: Access) -> Decision:
    """Decide by rules about the tool, its subject or its address, then by the mode."""
    rules = context.rules.rules_for(tool)
    planning = context.is_planning and access.command is None and not access.harmless and tool not in _HARMLESS_TOOLS
    for group in (rules.deny, () if context.bypasses or planning else rules.ask, () if planning else rules.allow):
        for rule in group:
            if _names_call(rule, access) and not (group is rules.allow and _is_too_wide(rule, access)):
                return decide_by_rule(rule)
    if access.command is not None:
        return decide_by_mode(context.mode, Verdict.ALLOW, "The command decides.")
    if access.harmless:
        return decide_by_mode(context.mode, Verdict.ALLOW, "It touches nothing but the team's own files.")
    if access.is_named:
        return decide_by_mode(context.mode, Verdict.ALLOW, "An allowed command names this host.")
    if planning:
        return decide_by_plan(context)
    if context.bypasses:
        return decide_by_mode(context.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
    return decide_by_mode(
        context.mode, Verdict.ASK, f"Nothing allows {tool}{f' for {access.url}' if access.url else ''}."
    )


def complete_decision(context: DecisionContext, tool: str, access: Access, decision: Decision) -> Decision:
    """Return the decision with what finds the rule that "always" stores. Where no person can answer, a question is a
    denial.
    """
    if decision.verdict is not Verdict.ASK:
        return decision
    if context.mode is Mode.DONT_ASK:
        return deny_question(context, decision)
    if not decision.is_by_mode:
        return decision  # a rule would not answer the question

    def find_always() -> str:
        from teamwright.permissions.always_rule import suggest_rule  # only a question pays for this import

        return find_bounded(lambda: suggest_rule(tool, access, context), otherwise="")

    return replace(decision, find_always=find_always)


def deny_question(context: DecisionContext, decision: Decision) -> Decision:
    """Return the denial of a call that would ask, in the mode without questions."""
    allowed = "" if decision.needs_person else where_allowed(context.scope.settings)
    reason = f"{decision.reason} In this mode no call is asked about{allowed}."
    return replace(decision, verdict=Verdict.DENY, reason=reason)


def _is_too_wide(rule: Rule, access: Access) -> bool:
    """Return True for an allow rule that does not name the host of a page of this machine or its network, or the port
    for a connection that needs it.
    """
    if access.needs_port:
        return not rule.names_port
    return rule.is_whole_tool and access.url is not None and is_local_host(url_host(access.url))


def _names_call(rule: Rule, access: Access) -> bool:
    if rule.is_whole_tool:
        return True
    if access.command is not None:
        return False  # command patterns are matched against the commands of the line
    return rule.matches_url(access.url) if access.url is not None else rule.matches_subject(access.subject)
