"""The decision: a tool and what its call would touch go in, a verdict with its reason comes out. Pure but for links.

Deny before ask before allow, then the mode; the effective verdict of a narrowed policy is the stricter of its own
and its parent's, asked anew at each call. Does not ask anybody, and does not know what a tool does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from teamwright.permissions.book import Book, Ground, Scope, by_mode, by_rule, strictest
from teamwright.permissions.commands import judge_command
from teamwright.permissions.files import judge_path
from teamwright.permissions.rule import Rule
from teamwright.permissions.suggest import always
from teamwright.permissions.verdict import Access, Decision, Mode, Verdict, stricter
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest

_PLANNED = {
    "plan": "planning without changes comes with the permissions part",
    "delegate": "a lead that only coordinates comes with the permissions part",
}


def parse_mode(text: str, source: str = "--permission-mode") -> Mode:
    """A mode from its name. Raises UsageError for an unknown one, `not-yet` for one that is planned."""
    if text in _PLANNED:
        raise UsageError(
            "not-yet",
            f"the permission mode {text} is not built yet: {_PLANNED[text]}",
            looked_at=[("from", source), ("works", ", ".join(Mode))],
            note="nothing was done",
        )
    try:
        return Mode(text)
    except ValueError:
        near = nearest(text, list(Mode))
        raise UsageError(
            "usage",
            f"{text[:60]!r} is not a permission mode",
            looked_at=[("from", source), ("modes", ", ".join(Mode))],
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
        parent: Policy | None = None,
    ) -> None:
        self._ground = Ground(Book(tuple(rules)), scope or Scope(), mode)
        self._parent = parent
        self._harmless: dict[str, Decision] = {}

    @property
    def mode(self) -> Mode:
        """The mode of this policy itself; a parent may be stricter."""
        return self._ground.mode

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

    def narrow(self, parent: Policy) -> Policy:
        """This policy under another one: the stricter of both decides each call, whatever becomes of the parent."""
        return Policy(
            self.mode, self.rules, self.scope, parent if self._parent is None else self._parent.narrow(parent)
        )

    def hides(self, tool: str) -> bool:
        """Whether the tool is forbidden as a whole, so that it need not be offered at all."""
        mine = any(rule.whole for rule in self._ground.book.of(tool).deny)
        return mine or (self._parent is not None and self._parent.hides(tool))

    @property
    def hidden_tools(self) -> frozenset[str]:
        """Names, and names that end in a star, which deny rules forbid as a whole. `hides` is the exact question."""
        mine = frozenset(rule.tool for rule in self.rules if rule.whole and rule.verdict is Verdict.DENY)
        return mine if self._parent is None else mine | self._parent.hidden_tools

    def decide(self, tool: str, access: Access) -> Decision:
        """The verdict on this call. The same call under the same rules has the same verdict everywhere."""
        if access.harmless and access.subject is None:
            decision = self._harmless.get(tool)
            if decision is None:
                decision = self._harmless[tool] = self._finished(tool, access, self._judge(tool, access))
        else:
            decision = self._finished(tool, access, self._judge(tool, access))
        if self._parent is None:
            return decision
        above = self._parent.decide(tool, access)
        return decision if stricter(decision.verdict, above.verdict) is decision.verdict else above

    def _change(self, ground: Ground) -> None:
        self._ground = ground
        self._harmless = {}

    def _judge(self, tool: str, access: Access) -> Decision:
        ground = self._ground
        if access.command is not None:
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
        return always(tool, access, self.scope) if plain else ""


_NOTHING = Decision(Verdict.ALLOW, "nothing", "There is nothing to decide.")


def _names_call(rule: Rule, access: Access) -> bool:
    if rule.whole:
        return True
    if access.command is not None:
        return False  # command patterns are matched to the commands of the line
    return rule.matches_url(access.url) if access.url is not None else rule.matches_subject(access.subject)
