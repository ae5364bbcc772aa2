"""The decision: a tool and what its call would touch go in, a verdict with its reason comes out. Pure but for links.

Deny before ask before allow, then the mode; the effective verdict of a narrowed policy is the stricter of its own
and its parent's, asked anew at each call. Does not ask anybody, and does not know what a tool does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from teamwright.permissions.book import PLAN_MODE, Book, Ground, Scope, by_mode, by_plan, by_rule, strictest
from teamwright.permissions.files import denied_below, judge_own_file, judge_path
from teamwright.permissions.left_out import NOTHING_LEFT_OUT, LeftOut, Segments
from teamwright.permissions.rule import READERS, Rule, host_of, is_local_host
from teamwright.permissions.table import table
from teamwright.permissions.verdict import Access, Decision, Mode, Update, Verdict, stricter, where_allowed
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest

_NAMED_MOST = 1_000
"""Verdicts that are remembered: a subject may be any text."""

COORDINATING = table(
    "TeamCreate TeamDelete SendMessage TaskCreate TaskGet TaskList TaskUpdate TaskOutput TaskStop ListAgents"
    " AskUserQuestion EnterPlanMode ExitPlanMode"
)
"""The tools of a lead that only coordinates, beside an `Agent` that starts a member."""

_PLANNERS_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "Read"})
"""Tools for the file with one's own plan, which may be read at any time and changed while one plans; and for one's
memory."""

_PLAN, _MEMORY = "It is the plan that this agent writes.", "It is what agents of this kind remember."


def parse_mode(text: str, source: str = "--permission-mode") -> Mode:
    """A mode from its name. Raises UsageError for an unknown one."""
    try:
        return Mode(text)
    except ValueError:
        near = nearest(text, list(Mode))
        raise UsageError(
            "usage",
            f"{text[:60]!r} is not a permission mode",
            looked_at=[("from", source), ("modes", ", ".join(mode for mode in Mode if mode is not Mode.BUBBLE))],
            do=[f"did you mean {near}?"] if near else [],
        ) from None


class Policy:
    """What an agent may do: a mode, rules and a scope, and the policies that it may not exceed.

    Mode and rules may change during a run (`mode`, `add`); who was narrowed to this policy follows at once.
    """

    def __init__(
        self,
        mode: Mode = Mode.DEFAULT,
        rules: Iterable[Rule] = (),
        scope: Scope | None = None,
        above: tuple[Policy, ...] = (),
    ) -> None:
        self._ground = Ground(Book(tuple(rules)), scope or Scope(), mode)
        self._above = above
        self._named: dict[tuple[str, str | None, bool], Decision] = {}
        self._followed: tuple[Ground, Ground] | None = None
        self.delegating = False
        """The agent of this policy only coordinates: other tools are denied to it, and to nobody below it."""
        self.granted: tuple[Rule, ...] = ()
        """Allow rules of this agent alone, as with an approved plan: they lift what it would be asked, and hold for
        nobody below it that was not granted them too."""
        self._memory = ""
        self.on_change: Callable[[], None] | None = None
        """Called when mode, rules or scope of this policy itself are others."""

    @property
    def mode(self) -> Mode:
        """The mode of this policy itself; a parent may be stricter."""
        return self._ground.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        # who had no mode had its caller's rules: they are its own from now on, or it would be asked more than others
        self._change(replace(self._ground if mode is Mode.BUBBLE else self._seen(), mode=mode, plan_file=self._plan))

    @property
    def lasting_mode(self) -> Mode:
        """The mode that decides, beside `delegating`: without one of its own, its caller's as it is now."""
        return self._seen().mode

    @property
    def shown_mode(self) -> Mode:
        """The mode as people read it: `delegate` for a lead that only coordinates, else the one that decides."""
        return Mode.DELEGATE if self.delegating else self.lasting_mode

    @property
    def held_to_plan(self) -> bool:
        """Whether one of those above plans: then this agent changes nothing either, and cannot end that itself."""
        return any(policy.mode is Mode.PLAN or policy.held_to_plan for policy in self._above)

    @property
    def plan_file(self) -> Path | None:
        """The file with this agent's plan, which Write and Edit may change in plan mode."""
        return Path(self._plan) if self._plan else None

    @property
    def _plan(self) -> str:
        return self._ground.plan_file

    @plan_file.setter
    def plan_file(self, path: Path | None) -> None:
        real = "" if path is None else os.path.join(os.path.realpath(path.parent), path.name)
        self._change(replace(self._ground, plan_file=real))

    @property
    def memory(self) -> Path | None:
        """The directory of what this agent's kind remembers: its own to read and to change, but for rules about it."""
        return Path(self._memory) if self._memory else None

    @memory.setter
    def memory(self, directory: Path | None) -> None:
        self._memory = "" if directory is None else str(directory)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """This policy's own rules."""
        return self._ground.book.rules

    @property
    def scope(self) -> Scope:
        """The directories and what is private in them: without a mode of its own, its caller's."""
        return self._seen().scope

    @scope.setter
    def scope(self, scope: Scope) -> None:
        self._change(replace(self._ground, scope=scope))

    def apply(self, update: Update, source: str = "granted with an answer", *, by_user: bool = False) -> None:
        """What was granted holds from the next call on, as far as the policies above allow it.

        `source` names who granted it. `by_user`: a person did, so that its rules also answer git policy. Raises
        UsageError, and changes nothing, when it reaches further than an answer may (`permissions.bounds`).
        """
        from teamwright.permissions.bounds import check_directories, check_mode, check_rules

        if update.kind == "setMode":
            self.mode = check_mode(update, self.lasting_mode)
        elif update.kind == "addDirectories":
            added = check_directories(update, self.scope)
            scope = self._ground.scope
            self.scope = replace(scope, directories=tuple(dict.fromkeys((*scope.directories, *added))))
        else:
            self.add(*check_rules(update, self.scope, source, by_user))

    def add(self, *rules: Rule) -> None:
        """Rules from now on, as when somebody answers "always"."""
        self._change(replace(self._ground, book=Book((*self.rules, *rules))))

    def exchange(self, former: Collection[Rule], rules: Iterable[Rule]) -> None:
        """These rules in the place of those former ones, as when settings are read again; all others stay."""
        gone = set(map(id, former))
        kept = (rule for rule in self.rules if id(rule) not in gone)
        self._change(replace(self._ground, book=Book((*rules, *kept))))

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories that may be used, by real path."""
        return self.scope.directories

    def with_mode(self, mode: Mode) -> Policy:
        """The same rules and scope under another mode; narrow it to whoever gave it."""
        ground = self._ground if mode is Mode.BUBBLE else self._seen()
        return Policy(mode, ground.book.rules, ground.scope, self._above)

    def narrow(self, parent: Policy) -> Policy:
        """This policy under another one: the stricter of both decides each call, whatever becomes of the parent."""
        made = Policy(self.mode, self.rules, self.scope, (*self._above, parent))
        if self._plan:
            made.plan_file = self.plan_file
        return made

    def hides(self, tool: str) -> bool:
        """Whether the tool is forbidden as a whole, so that it need not be offered at all."""
        for rule in self._ground.book.of(tool).deny:
            if rule.whole:
                return True
        return any(policy.hides(tool) for policy in self._above) if self._above else False

    @property
    def hidden_tools(self) -> frozenset[str]:
        """Names, and names that end in a star, which deny rules forbid as a whole. `hides` is the exact question."""
        whole = [rule for rule in self.rules if rule.whole and rule.verdict is Verdict.DENY]
        mine = frozenset[str]().union(*(rule.speaks_of for rule in whole))
        return mine.union(*(policy.hidden_tools for policy in self._above))

    def decide(self, tool: str, access: Access) -> Decision:
        """The verdict on this call. The same call under the same rules has the same verdict everywhere."""
        if self.delegating and not (tool in COORDINATING or (tool == "Agent" and access.named)):
            reason = f"{tool} is not for you while you coordinate: {_GIVE}"
            return Decision(Verdict.DENY, f"mode {Mode.DELEGATE}", reason)
        own = _PLAN if self._is_own_plan(tool, access) else _MEMORY if self._is_memory(tool, access) else ""
        decision = self._with_above(tool, access, own)
        if decision.rule == PLAN_MODE and decision.verdict is Verdict.DENY:
            plans = self.mode is Mode.PLAN or bool(self._plan)
            return by_plan(self._ground) if plans else replace(decision, reason=_WAITS)
        if self.granted and decision.verdict is not Verdict.ALLOW:
            return self._by_grant(tool, access) or decision
        return decision

    def _by_grant(self, tool: str, access: Access) -> Decision | None:
        """What was granted to this agent, where all those above would be allowed the call; never a denied one."""
        for policy in self._above:
            plain = policy._with_above(tool, access, "").verdict is Verdict.ALLOW
            if not plain and (not policy.granted or policy._by_grant(tool, access) is None):
                return None
        ground = self._seen()
        decision = self._judge(replace(ground, book=Book((*ground.book.rules, *self.granted))), tool, access)
        return decision if decision.verdict is Verdict.ALLOW else None

    def left_out(self, tool: str, root: Path) -> LeftOut:
        """What this tool must leave out when it shows what is below a directory: what is denied here or above."""
        found: dict[str, set[Segments]] = {}
        for ground in self._grounds():
            for said, patterns in denied_below(ground, tool, str(root)):
                if patterns:
                    found.setdefault(said, set()).update(patterns)
        if not found:
            return NOTHING_LEFT_OUT
        patterns = sorted(set[Segments]().union(*found.values()))
        return LeftOut(tuple(patterns), tuple(found), lambda path: self._forbids(tool, path))

    def _grounds(self) -> Iterator[Ground]:
        yield self._seen()
        for policy in self._above:
            yield from policy._grounds()

    def _forbids(self, tool: str, path: str) -> bool:
        judged = (judge_path(ground, tool, Path(path), writes=False) for ground in self._grounds())
        return any(decision.verdict is Verdict.DENY for decision in judged)

    def parts(self, access: Access) -> list[tuple[str, Decision]]:
        """How this policy itself judges each command of a shell line, in the line's order."""
        from teamwright.permissions.commands import explain

        return [(words, self._finished("Bash", access, decision)) for words, decision in explain(self._seen(), access)]

    def _with_above(self, tool: str, access: Access, own: str) -> Decision:
        """The stricter of this policy's own verdict and of those above. `own`: why it is a file of whoever asks."""
        if self.mode is Mode.BUBBLE and self._above and not self.rules:
            return strictest((policy._with_above(tool, access, own) for policy in self._above), _NOTHING)
        decision = self._own(tool, access, own)
        for policy in self._above:
            theirs = policy._with_above(tool, access, own)
            if stricter(decision.verdict, theirs.verdict) is not decision.verdict:
                decision = theirs
        return decision

    def _own(self, tool: str, access: Access, own: str) -> Decision:
        ground = self._seen()
        if own:
            paths = access.writes or access.reads
            decision = strictest((judge_own_file(ground, tool, path, own) for path in paths), _NOTHING)
            return self._finished(tool, access, decision)
        if access.reads or access.writes or access.command is not None or access.url is not None:
            return self._finished(tool, access, self._judge(ground, tool, access))
        return self._by_name_alone(ground, tool, access)

    def _is_own_plan(self, tool: str, access: Access) -> bool:
        """Whether the call only reads this agent's plan, or changes it while it plans."""
        mine = self._plan
        if not mine or tool not in _PLANNERS_TOOLS or access.command is not None:
            return False
        if access.writes and self.lasting_mode is not Mode.PLAN:
            return False
        paths = (*access.writes, *access.reads)
        return bool(paths) and all(os.path.realpath(path) == mine for path in paths)

    def _is_memory(self, tool: str, access: Access) -> bool:
        """Whether the call only touches what this agent's kind remembers; nobody changes that while planning."""
        if not self._memory or tool not in _PLANNERS_TOOLS or access.command is not None:
            return False
        if access.writes and (self.lasting_mode is Mode.PLAN or self.held_to_plan):
            return False
        paths = (*access.writes, *access.reads)
        return bool(paths) and all(os.path.realpath(path).startswith(f"{self._memory}/") for path in paths)

    def _seen(self) -> Ground:
        """The ground that is decided on. Without a mode of its own it is the caller's, with this policy's rules."""
        ground = self._ground
        if ground.mode is not Mode.BUBBLE:
            return ground
        above = self._above[0]._seen() if self._above else ground
        if self._followed is None or self._followed[0] is not above:
            self._named = {}
            if self._above:
                self._followed = (above, replace(above, book=Book((*above.book.rules, *ground.book.rules))))
            else:
                self._followed = (above, replace(ground, mode=Mode.DEFAULT))
        return self._followed[1]

    def _by_name_alone(self, ground: Ground, tool: str, access: Access) -> Decision:
        """A verdict that depends on names only holds until the rules change: it is made once."""
        key = (tool, access.subject, access.harmless)
        decision = self._named.get(key)
        if decision is None:
            decision = self._finished(tool, access, self._judge(ground, tool, access))
            if len(self._named) < _NAMED_MOST:
                self._named[key] = decision
        return decision

    def _change(self, ground: Ground) -> None:
        self._ground = ground
        self._followed = None
        self._named = {}
        if self.on_change is not None:
            self.on_change()

    def _judge(self, ground: Ground, tool: str, access: Access) -> Decision:
        if access.command is not None:
            # The grammar of the shell is the dearest thing to load: only who decides on a command pays for it.
            from teamwright.permissions.commands import judge_as_run

            return strictest([judge_as_run(ground, access), self._by_name(ground, tool, access)], _NOTHING)
        deep = tool == "Grep"  # which asks for what it leaves out, as Glob does: `left_out`
        paths = [judge_path(ground, tool, path, writes=True) for path in access.writes]
        paths += [judge_path(ground, tool, path, writes=False, deep=deep, spares=True) for path in access.reads]
        return strictest(paths, _NOTHING) if paths else self._by_name(ground, tool, access)

    def _by_name(self, ground: Ground, tool: str, access: Access) -> Decision:
        """Rules about the tool, its subject or its address, then the mode."""
        rules = ground.book.of(tool)
        planning = ground.plans and access.command is None and not access.harmless and tool not in _ONLY_LOOK
        for group in (rules.deny, () if ground.bypass or planning else rules.ask, () if planning else rules.allow):
            for rule in group:
                if _names_call(rule, access) and not (group is rules.allow and rule.whole and _is_local(access)):
                    return by_rule(rule)
        if access.command is not None:
            return by_mode(ground.mode, Verdict.ALLOW, "The command decides.")
        if access.harmless:
            return by_mode(ground.mode, Verdict.ALLOW, "It touches nothing but the team's own files.")
        if planning:
            return by_plan(ground)
        if ground.bypass:
            return by_mode(ground.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
        return by_mode(ground.mode, Verdict.ASK, f"Nothing allows {tool}{f' for {access.url}' if access.url else ''}.")

    def _finished(self, tool: str, access: Access, decision: Decision) -> Decision:
        """An ask gets what "always" would store; where nobody is asked it is a denial."""
        if decision.verdict is not Verdict.ASK:
            return decision
        if self._seen().mode is Mode.DONT_ASK:
            reason = f"{decision.reason} In this mode no call is asked about{where_allowed(self.scope.settings)}."
            return replace(decision, verdict=Verdict.DENY, reason=reason)
        return replace(decision, always=self._offered(tool, access, decision))

    def _offered(self, tool: str, access: Access, decision: Decision) -> str:
        plain = decision.rule.startswith("mode ") or decision.rule == "git policy"
        if not plain:
            return ""
        from teamwright.permissions.suggest import always

        return always(tool, access, self._seen())


_ONLY_LOOK = READERS | {"WebFetch", "WebSearch"}
"""Tools that change nothing, whatever they are called with."""

_GIVE = "give the work to a member: TaskCreate, or Agent with a name."
_WAITS = (
    "The agent that started you is still in plan mode, so change nothing. Read what you need and report what you found."
)
"""What is told to those who cannot end the planning: somebody above them does."""


_NOTHING = Decision(Verdict.ALLOW, "nothing", "There is nothing to decide.")


def _is_local(access: Access) -> bool:
    """Return True for a page of this machine or its network; only a rule that names the host allows it."""
    return access.url is not None and is_local_host(host_of(access.url))


def _names_call(rule: Rule, access: Access) -> bool:
    if rule.whole:
        return True
    if access.command is not None:
        return False  # command patterns are matched to the commands of the line
    return rule.matches_url(access.url) if access.url is not None else rule.matches_subject(access.subject)
