"""Usage totals by agent, task and model, each adding up to the total, for a run and for a log.

A sub-agent has an account under its own id that names its caller, so its usage counts once. Relevant lines of a log are
selected by their kind before they are parsed. Depends on events, usage and the format of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from teamwright.protocol.events import FAILED_ATTEMPTS, MemberChanged, ModelCallEnded, TeamChanged, TeamEvent
from teamwright.protocol.usage import NO_USAGE, Usage
from teamwright.storage.event_log import find_event_end, parse_event, parse_number, parse_snapshot, parse_snapshot_time
from teamwright.storage.json_lines import read_backward, read_lines

TaskKey: TypeAlias = tuple[str, str]
"""A unique key of a task: the directory of its team (empty: the session's own list), and its number."""


class Account(Struct):
    """The usage of one agent: in total, and of its present incarnation. `caller` is set for a sub-agent.

    `failed` is the part of failed attempts.
    """

    usage: Usage = NO_USAGE
    model_calls: int = 0
    tool_calls: int = 0
    caller: str = ""
    incarnation: int = 0
    incarnation_usage: Usage = NO_USAGE
    incarnation_calls: int = 0
    failed: Usage = NO_USAGE


class UsageTotals(Struct):
    """The usage totals of a session, or of a part of it. `list` is the current task list, `untasked` usage without a
    task.

    `failed` is the part of failed attempts.
    """

    total: Usage = NO_USAGE
    untasked: Usage = NO_USAGE
    failed: Usage = NO_USAGE
    agents: dict[str, Account] = field(default_factory=dict[str, Account])
    tasks: dict[TaskKey, Usage] = field(default_factory=dict[TaskKey, Usage])
    models: dict[str, Usage] = field(default_factory=dict[str, Usage])
    purposes: dict[str, Usage] = field(default_factory=dict[str, Usage])
    """The part of calls beside the agents' work, by purpose: `compaction`, `hook`, `side question` …"""
    list: str = ""

    @classmethod
    def from_events(cls, events: Iterable[TeamEvent]) -> UsageTotals:
        """Return the totals of these events."""
        totals = cls()
        for event in events:
            totals.add_event(event)
        return totals

    def add_event(self, event: TeamEvent) -> None:
        """Add an event. Events without usage or change of team, owner or task are ignored."""
        match event:
            case ModelCallEnded():
                failed = event.aside == FAILED_ATTEMPTS
                who = event.member
                self.add_call(
                    who,
                    event.usage,
                    event.model,
                    caller=event.caller,
                    task=event.task,
                    failed=failed,
                    purpose=event.aside,
                )
                if event.tools:
                    self._add_tool_calls(self.account(who), event.tools)
            case TeamChanged(change=change, directory=directory):
                self.list = "" if change == "deleted" else directory
            case MemberChanged(member=member, incarnation=number) if number:
                self._begin_incarnation(self.account(member), number)
            case _:
                pass

    def account(self, agent: str, caller: str = "") -> Account:
        """Return the account of an agent, which is created when missing."""
        if agent not in self.agents:
            self.agents[agent] = Account(caller=caller)
        return self.agents[agent]

    def add_call(
        self,
        agent: str,
        usage: Usage,
        model: str,
        *,
        caller: str = "",
        task: str = "",
        failed: bool = False,
        purpose: str = "",
    ) -> None:
        """Add one model call and the tool calls of its answer. With `failed` it is the usage of failed attempts.

        `purpose` names a call beside the agent's work.
        """
        if failed and not usage.requests:
            return  # a call that failed without any usage
        account = self.account(agent, caller)
        account.usage += usage
        account.incarnation_usage += usage
        if failed:
            account.failed += usage
            self.failed += usage
        else:
            account.model_calls += 1
            if purpose:
                self.purposes[purpose] = self.purposes.get(purpose, NO_USAGE) + usage
        for above in self._callers(account):
            above.incarnation_usage += usage
        self.total += usage
        self.models[model] = self.models.get(model, NO_USAGE) + usage
        if task:
            key = (self.list, task)
            self.tasks[key] = self.tasks.get(key, NO_USAGE) + usage
        else:
            self.untasked += usage

    def _add_tool_calls(self, account: Account, count: int) -> None:
        account.tool_calls += count
        for one in (account, *self._callers(account)):
            one.incarnation_calls += count

    def _callers(self, account: Account) -> Iterator[Account]:
        """Yield the accounts of the agents above a sub-agent, its caller first."""
        while account.caller and (above := self.agents.get(account.caller)) is not None:
            yield above
            account = above

    def _begin_incarnation(self, account: Account, number: int) -> None:
        if number > account.incarnation:
            account.incarnation = number
            account.incarnation_usage = NO_USAGE
            account.incarnation_calls = 0


_KINDS = (b'"model_call_ended"', b'"round_ended"', b'"team_changed"', b'"member_changed"', b'"task_changed"')
_HEAD_BYTES = 60
"""Length of a line's beginning, in bytes, that contains its kind."""


def usage_events(path: Path, last: int | None = None, after: int = 0) -> Iterator[TeamEvent]:
    """Yield model calls, and the events that attribute them, oldest first, after event number `after` and up to
    `last`.
    """
    for line in read_lines(path, find_event_end(path, after)):
        number = parse_number(line)
        if last is not None and number > last:
            return
        if number > after and _is_usage_line(line) and (event := parse_event(line)) is not None:
            yield event


def usage_events_since(path: Path, since: float) -> tuple[str, list[TeamEvent]]:
    """Return the usage events since a time, read from the end of the log, and the directory of the team led before
    it.
    """
    events: list[TeamEvent] = []
    for line in read_backward(path):
        if (at := parse_snapshot_time(line)) is not None and at < since:
            snapshot = parse_snapshot(line)
            return str(snapshot.state.get("directory") or "") if snapshot is not None else "", events[::-1]
        if _is_usage_line(line) and (event := parse_event(line)) is not None:
            events.append(event)
    return "", events[::-1]


def _is_usage_line(line: bytes) -> bool:
    return any(kind in line[:_HEAD_BYTES] for kind in _KINDS)
