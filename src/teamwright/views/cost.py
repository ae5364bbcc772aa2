"""What a team or a session cost: by member with its sub-agents, by task, by model; from its log, or from a live purse.

Every token is in each of the three lists once. Reads only; knows logs and books, prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from teamwright.budgets.totals_file import load_totals
from teamwright.budgets.usage_events import usage_events_since
from teamwright.budgets.usage_totals import Account, TaskKey, UsageTotals
from teamwright.protocol.events import ModelCallEnded
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass
from teamwright.session.session import Session
from teamwright.storage.paths import Home
from teamwright.views.log import LogView, find_log


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one of a list used. Tokens: `tokens_in` holds all of the prompts, `cached` those read from a cache.

    `failed` calls broke before they were answered, and had used `failed_tokens` then: in the sums, but no rounds.
    `usd` is None when a price is not known. `name` is a member, a sub-agent's id, a task's number (empty: no task) or a
    model; `below` are its sub-agents, with theirs below them, whose use is not in its own line.
    """

    name: str
    rounds: int = 0
    calls: int = 0
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
        """The same as a usage, for its words."""
        return Usage(self.tokens_in - self.cached, self.tokens_out, cache_read=self.cached, usd=self.usd)


@dataclass(frozen=True, slots=True)
class CostView:
    """The whole. `since` in seconds since 1970, 0: from the beginning."""

    team: str = ""
    session: str = ""
    log: str = ""
    since: float = 0.0
    total: CostRow = CostRow("all")
    members: tuple[CostRow, ...] = ()
    tasks: tuple[CostRow, ...] = ()
    models: tuple[CostRow, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether no model was called."""
        return not (self.total.rounds or self.total.failed)


def cost_of(home: Home, cwd: Path, name: str | None, since: float | None = None) -> CostView:
    """The cost of a team's session (also of an archived one), of a session, or of the newest session here.

    `since`: only of what was answered from then on, in seconds since 1970. Raises TeamwrightError (`unknown-team`,
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
    """What the session used in this process, from its purse. Raises StorageError when its tasks cannot be read."""
    books = session.maker.purse.books
    subjects = {(books.list, task.id): task.subject for task in await session.task_lines()}
    return cost_of_totals(books, subjects, LogView(session.log.path, session.id, session.team.name))


def cost_of_totals(books: UsageTotals, subjects: Mapping[TaskKey, str], log: LogView, since: float = 0.0) -> CostView:
    """The books as people read them: the lead first, members in the order of their first answer."""
    spent = {name: account for name, account in books.agents.items() if account.rounds or account.failed.requests}
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
    )


def _member(name: str, spent: Mapping[str, Account]) -> CostRow:
    account = spent.get(name, Account())
    below = tuple(_member(id, spent) for id, one in spent.items() if one.caller == name)
    shown = LEAD_ALIAS if name == LEAD else name
    return _line(shown, account.usage, (account.rounds, account.calls), failed=account.failed, below=below)


def _sum(spent: Mapping[str, Account]) -> tuple[int, int]:
    """Rounds and tool calls of all."""
    return sum(one.rounds for one in spent.values()), sum(one.calls for one in spent.values())


def _line(
    name: str,
    usage: Usage,
    made: tuple[int, int] = (0, 0),
    *,
    subject: str = "",
    failed: Usage | None = None,
    below: tuple[CostRow, ...] = (),
) -> CostRow:
    lost = failed or Usage()
    return CostRow(
        name=name,
        rounds=made[0],
        calls=made[1],
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
