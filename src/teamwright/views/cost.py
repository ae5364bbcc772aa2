"""The cost of a team or session by member with its sub-agents, by task and by model, from a log or a running session.

Each of the first three lists contains every token once. Depends on logs and usage totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from teamwright.budgets.totals_file import load_totals
from teamwright.budgets.usage_totals import Account, TaskKey, UsageTotals, usage_events_since
from teamwright.protocol.events import ModelCallEnded
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.usage import Usage
from teamwright.storage.paths import Home
from teamwright.views.log import LogView, find_log

if TYPE_CHECKING:
    from teamwright.session.session import Session


class CostRow(Struct, frozen=True):
    """One row of a cost list. Tokens: `tokens_in` contains all prompts, `cached` the part that was read from a cache.

    `failed` calls ended without an answer, after using `failed_tokens`: they are in the sums, but are no model calls.
    `usd` is None for an unknown price. `name` is a member, a sub-agent's id, a task's number (empty: no task) or a
    model; `below` are its sub-agents, whose usage is not in the row itself.
    """

    name: str
    model_calls: int = 0
    tool_calls: int = 0
    tokens_in: int = 0
    cached: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0
    subject: str = ""
    failed: int = 0
    failed_tokens: int = 0
    failed_usd: float | None = 0.0
    below: tuple[CostRow, ...] = ()

    @property
    def usage(self) -> Usage:
        """The row as a usage, for formatting."""
        return Usage(self.tokens_in - self.cached, self.tokens_out, cache_read=self.cached, usd=self.usd)


class CostView(Struct, frozen=True):
    """The whole cost. `since` in seconds since 1970, 0: from the beginning."""

    team: str = ""
    session: str = ""
    log: str = ""
    since: float = 0.0
    total: CostRow = CostRow("all")
    members: tuple[CostRow, ...] = ()
    tasks: tuple[CostRow, ...] = ()
    models: tuple[CostRow, ...] = ()
    beside: tuple[CostRow, ...] = ()
    """The part for calls beside the agents' work, by purpose: compaction, hook, side question …"""

    @property
    def empty(self) -> bool:
        """True when no model was called."""
        return not (self.total.model_calls or self.total.failed)


def cost_of(home: Home, cwd: Path, name: str | None, since: float | None = None) -> CostView:
    """Return the cost of a team's session (also an archived one), of a session, or of the newest session here.

    `since` restricts it to answers from that time on, in seconds since 1970. Raises TeamwrightError (`unknown-team`,
    `unknown-session`).
    """
    log = find_log(home, cwd, name)
    sums = load_totals(log.path)
    if since is None:
        return cost_of_totals(sums.books, sums.subjects, log)
    directory, events = usage_events_since(log.path, since)
    books = UsageTotals(list=directory)
    for event in events:
        if not isinstance(event, ModelCallEnded) or event.at >= since:
            books.add_event(event)
    return cost_of_totals(books, sums.subjects, log, since)


async def session_cost(session: Session) -> CostView:
    """Return the session's cost in this process. Raises StorageError when its tasks cannot be read."""
    books = session.agent_factory.budget_tracker.books
    subjects = {(books.list, task.id): task.subject for task in await session.task_lines()}
    return cost_of_totals(books, subjects, LogView(session.log.path, session.id, session.team.name))


def cost_of_totals(books: UsageTotals, subjects: Mapping[TaskKey, str], log: LogView, since: float = 0.0) -> CostView:
    """Return the totals as shown to people: the lead first, then members in the order of their first answer."""
    spent = {name: account for name, account in books.agents.items() if account.model_calls or account.failed.requests}
    callers = {account.caller for account in spent.values() if account.caller}
    tops = {name for name, account in spent.items() if not account.caller} | (callers - spent.keys())
    names = sorted(tops, key=lambda name: (name != LEAD, [*spent, name].index(name)))
    tasks = [
        _line(key[1], usage, subject=subjects.get(key, ""))
        for key, usage in sorted(books.tasks.items(), key=lambda one: (one[0][0], len(one[0][1]), one[0][1]))
    ]
    rest = [_line("", books.untasked)] if tasks and books.untasked.requests else []
    return CostView(
        team=log.team,
        session=log.session,
        log=str(log.path) if log.path.name else "",
        since=since,
        total=_line("all", books.total, _sum(spent), failed=books.failed),
        members=tuple(_member(name, spent) for name in names),
        tasks=(*tasks, *rest),
        models=tuple(_line(model, usage) for model, usage in books.models.items()),
        beside=tuple(_line(purpose, usage, (usage.requests, 0)) for purpose, usage in books.purposes.items()),
    )


def _member(name: str, spent: Mapping[str, Account]) -> CostRow:
    account = spent.get(name, Account())
    below = tuple(_member(id, spent) for id, one in spent.items() if one.caller == name)
    label = display_name(name)
    return _line(label, account.usage, (account.model_calls, account.tool_calls), failed=account.failed, below=below)


def _sum(spent: Mapping[str, Account]) -> tuple[int, int]:
    """Return the sums of model calls and tool calls."""
    return sum(one.model_calls for one in spent.values()), sum(one.tool_calls for one in spent.values())


def _line(
    name: str,
    usage: Usage,
    calls: tuple[int, int] = (0, 0),
    *,
    subject: str = "",
    failed: Usage | None = None,
    below: tuple[CostRow, ...] = (),
) -> CostRow:
    lost = failed or Usage()
    return CostRow(
        name=name,
        model_calls=calls[0],
        tool_calls=calls[1],
        tokens_in=usage.prompt_tokens,
        cached=usage.cache_read,
        tokens_out=usage.output_tokens,
        usd=usage.usd,
        subject=subject,
        failed=lost.requests,
        failed_tokens=lost.tokens,
        failed_usd=lost.usd,
        below=below,
    )
