"""Who used what: by agent, task and model, each adding up to the total. One fold for a run and for a log.

A sub-agent is booked under its own id, with its caller named beside it: it counts once. Knows events and usage;
knows no caps, no prices and no files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

from teamwright.protocol.events import FAILED, MemberChanged, RoundEnded, TeamChanged, TeamEvent
from teamwright.protocol.usage import UNUSED, Usage
from teamwright.protocol.values import dataclass

TaskKey: TypeAlias = tuple[str, str]
"""A task for good: the directory of the team whose list it is on (empty: the session's own), and its number."""


@dataclass(slots=True)
class Account:
    """What one agent used: all of it, and since its present life began. `caller` is set for a sub-agent.

    `failed` is the part of it that tries had used which broke.
    """

    usage: Usage = UNUSED
    rounds: int = 0
    calls: int = 0
    caller: str = ""
    life: int = 0
    life_usage: Usage = UNUSED
    life_calls: int = 0
    failed: Usage = UNUSED


@dataclass(slots=True)
class Ledger:
    """The books of a session, or of a part of it. `list` is where tasks are looked for now, `untasked` the rest.

    `failed` is the part of the total that tries had used which broke.
    """

    total: Usage = UNUSED
    untasked: Usage = UNUSED
    failed: Usage = UNUSED
    agents: dict[str, Account] = field(default_factory=dict[str, Account])
    tasks: dict[TaskKey, Usage] = field(default_factory=dict[TaskKey, Usage])
    models: dict[str, Usage] = field(default_factory=dict[str, Usage])
    list: str = ""

    @classmethod
    def of(cls, events: Iterable[TeamEvent]) -> Ledger:
        """The books of these events."""
        made = cls()
        for event in events:
            made.note(event)
        return made

    def note(self, event: TeamEvent) -> None:
        """Take an event in; what costs nothing and moves nothing is passed over."""
        match event:
            case RoundEnded():
                self.book(event)
            case TeamChanged(change=change, directory=directory):
                self.list = "" if change == "deleted" else directory
            case MemberChanged(member=member, life=life) if life:
                self._lives(self.account(member), life)
            case _:
                pass

    def account(self, agent: str, caller: str = "") -> Account:
        """The account of an agent; a new one when it has none."""
        if agent not in self.agents:
            self.agents[agent] = Account(caller=caller)
        return self.agents[agent]

    def book(self, spent: RoundEnded) -> None:
        """One model call and the tool calls it asked for."""
        usage, account = spent.usage, self.account(spent.member, spent.caller)
        account.usage += usage
        account.life_usage += usage
        if spent.aside == FAILED:
            account.failed += usage
            self.failed += usage
        else:
            account.rounds += 1
        account.calls += spent.tools
        account.life_calls += spent.tools
        above = account
        while above.caller and (caller := self.agents.get(above.caller)) is not None:
            caller.life_usage += usage
            caller.life_calls += spent.tools
            above = caller
        self.total += usage
        self.models[spent.model] = self.models.get(spent.model, UNUSED) + usage
        if spent.task:
            key = (self.list, spent.task)
            self.tasks[key] = self.tasks.get(key, UNUSED) + usage
        else:
            self.untasked += usage

    def _lives(self, account: Account, life: int) -> None:
        if life > account.life:
            account.life, account.life_usage, account.life_calls = life, UNUSED, 0
