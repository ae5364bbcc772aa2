"""The decision: a tool and what its call would touch go in, a verdict with its reason comes out. Pure but for links.

Deny before ask before allow, then the mode; the effective verdict of a narrowed policy is the stricter of its own
and its parent's, asked anew at each call. Does not ask anybody, and does not know what a tool does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from teamwright.permissions.book import Book, Ground, Scope, by_mode, by_rule, strictest
from teamwright.permissions.files import judge_path
from teamwright.permissions.rule import Rule
from teamwright.permissions.verdict import Access, Decision, Mode, Verdict, stricter
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest

_NAMED_MOST = 1_000
"""Verdicts that are remembered: a subject may be any text."""


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

    @property
    def mode(self) -> Mode:
        """The mode of this policy itself; a parent may be stricter."""
        return self._ground.mode

    @property
    def shown_mode(self) -> Mode:
        """The mode as people read it: an agent without one of its own has its caller's."""
        return self._above[0].shown_mode if self.mode is Mode.BUBBLE and self._above else self.mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._change(replace(self._ground, mode=mode))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """This policy's own rules."""
        return self._ground.book.rules

    @property
    def scope(self) -> Scope:
        """The directories and what is private in them."""
        return self._ground.scope

    @scope.setter
    def scope(self, scope: Scope) -> None:
        self._change(replace(self._ground, scope=scope))

    def add(self, *rules: Rule) -> None:
        """Rules from now on, as when somebody answers "always"."""
        self._change(replace(self._ground, book=Book((*self.rules, *rules))))

    @property
    def directories(self) -> tuple[Path, ...]:
        """The directories that may be used, by real path."""
        return self.scope.directories

    def with_mode(self, mode: Mode) -> Policy:
        """The same rules and scope under another mode; narrow it to whoever gave it."""
        return Policy(mode, self.rules, self.scope, self._above)

    def narrow(self, parent: Policy) -> Policy:
        """This policy under another one: the stricter of both decides each call, whatever becomes of the parent."""
        return Policy(self.mode, self.rules, self.scope, (*self._above, parent))

    def hides(self, tool: str) -> bool:
        """Whether the tool is forbidden as a whole, so that it need not be offered at all."""
        mine = any(rule.whole for rule in self._ground.book.of(tool).deny)
        return mine or any(policy.hides(tool) for policy in self._above)

    @property
    def hidden_tools(self) -> frozenset[str]:
        """Names, and names that end in a star, which deny rules forbid as a whole. `hides` is the exact question."""
        whole = [rule for rule in self.rules if rule.whole and rule.verdict is Verdict.DENY]
        mine = frozenset[str]().union(*(rule.speaks_of for rule in whole))
        return mine.union(*(policy.hidden_tools for policy in self._above))

    def decide(self, tool: str, access: Access) -> Decision:
        """The verdict on this call. The same call under the same rules has the same verdict everywhere."""
        if self.mode is Mode.BUBBLE and self._above and not self.rules:
            return strictest((policy.decide(tool, access) for policy in self._above), _NOTHING)
        if access.reads or access.writes or access.command is not None or access.url is not None:
            decision = self._finished(tool, access, self._judge(tool, access))
        else:
            decision = self._by_name_alone(tool, access)
        for policy in self._above:
            theirs = policy.decide(tool, access)
            decision = decision if stricter(decision.verdict, theirs.verdict) is decision.verdict else theirs
        return decision

    def _by_name_alone(self, tool: str, access: Access) -> Decision:
        """A verdict that depends on names only holds until the rules change: it is made once."""
        key = (tool, access.subject, access.harmless)
        decision = self._named.get(key)
        if decision is None:
            decision = self._finished(tool, access, self._judge(tool, access))
            if len(self._named) < _NAMED_MOST:
                self._named[key] = decision
        return decision

    def _change(self, ground: Ground) -> None:
        self._ground = ground
        self._named = {}

    def _judge(self, tool: str, access: Access) -> Decision:
        ground = self._ground
        if access.command is not None:
            # The grammar of the shell is the dearest thing to load: only who decides on a command pays for it.
            from teamwright.permissions.commands import judge_command

            return strictest([judge_command(ground, access), self._by_name(tool, access)], _NOTHING)
        deep = tool == "Grep"
        paths = [judge_path(ground, tool, path, writes=True) for path in access.writes]
        paths += [judge_path(ground, tool, path, writes=False, deep=deep) for path in access.reads]
        return strictest(paths, _NOTHING) if paths else self._by_name(tool, access)

    def _by_name(self, tool: str, access: Access) -> Decision:
        """Rules about the tool, its subject or its address, then the mode."""
        ground, rules = self._ground, self._ground.book.of(tool)
        for group in (rules.deny, () if ground.bypass else rules.ask, rules.allow):
            for rule in group:
                if _names_call(rule, access):
                    return by_rule(rule)
        if access.command is not None:
            return by_mode(ground.mode, Verdict.ALLOW, "The command decides.")
        if access.harmless:
            return by_mode(ground.mode, Verdict.ALLOW, "It touches nothing but the team's own files.")
        if ground.bypass:
            return by_mode(ground.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
        return by_mode(ground.mode, Verdict.ASK, f"Nothing allows {tool}{f' for {access.url}' if access.url else ''}.")

    def _finished(self, tool: str, access: Access, decision: Decision) -> Decision:
        """An ask gets what "always" would store; where nobody is asked it is a denial."""
        if decision.verdict is not Verdict.ASK:
            return decision
        if self.mode is Mode.DONT_ASK:
            return replace(decision, verdict=Verdict.DENY, reason=f"{decision.reason} In this mode nobody is asked.")
        return replace(decision, always=self._offered(tool, access, decision))

    def _offered(self, tool: str, access: Access, decision: Decision) -> str:
        plain = decision.rule.startswith("mode ") or decision.rule == "git manners"
        if not plain:
            return ""
        from teamwright.permissions.suggest import always

        return always(tool, access, self.scope)


_NOTHING = Decision(Verdict.ALLOW, "nothing", "There is nothing to decide.")


def _names_call(rule: Rule, access: Access) -> bool:
    if rule.whole:
        return True
    if access.command is not None:
        return False  # command patterns are matched to the commands of the line
    return rule.matches_url(access.url) if access.url is not None else rule.matches_subject(access.subject)
