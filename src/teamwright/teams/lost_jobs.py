"""Whoever started a background command or sub-agent that ended with an earlier life of the session is told, once.

The transcript is the ledger here too: what it holds is settled, all else is told again after the next kill. Knows
the lead, the members and what is noted of jobs; does not know how a job is told of in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from teamwright.agent.conversation import Conversation
from teamwright.protocol.clock import iso
from teamwright.protocol.ids import LEAD
from teamwright.teams.lead import Lead
from teamwright.teams.team import Team

Telling: TypeAlias = Callable[[str, str], None]
"""Takes the text and the key under which the transcript will hold it."""


class Ended(Protocol):
    """What a job and a run of a sub-agent have."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def owner(self) -> str:
        """Who is told."""
        ...

    @property
    def started_ms(self) -> int:
        """When it began."""
        ...


One = TypeVar("One", bound=Ended)


def _key(job: Any) -> str:
    return str(job.key)


def _stopped(job: Any) -> bool:
    # One that the session itself ended, when somebody left it, is no reason to speak up at the next start.
    return job.state == "stopped"


class Lost(Protocol[One]):
    """What is noted of earlier lives: `BackgroundJobs` and `Agents` of our session, `JobJournal` of another's."""

    def lost(self) -> list[One]:
        """Jobs that are over and not settled, oldest first."""
        ...

    def settle(self, ids: Iterable[str]) -> None:
        """Nobody needs to be told of these any more."""
        ...


def tell_lost(
    jobs: Lost[One],
    team: Team,
    lead: Lead | None,
    text: Callable[[One], str],
    key: Callable[[One], str] = _key,
    quiet: Callable[[One], bool] = _stopped,
) -> list[One]:
    """Tell each owner of the jobs that it lost; returns the jobs that are told. Call it when the members are there.

    A job whose owner's transcript has its end, or whose owner is no more, is settled instead and never told again.
    `key` names a notice, `quiet` says which wake nobody. `lead` is None for jobs of a session that was another lead's:
    its own jobs are nobody's then. Raises OSError when a transcript cannot be read.
    """
    by_owner: dict[str, list[One]] = {}
    for job in jobs.lost():
        by_owner.setdefault(job.owner, []).append(job)
    told: list[One] = []
    for owner, its in by_owner.items():
        if team.agents is not None and owner in team.agents.runs:
            continue  # a sub-agent hears of it when it goes on
        found = _listener(owner, team, lead)
        if found is None:
            jobs.settle(job.id for job in its)
            continue
        conversation, notice, aside = found
        # A member of the same name whose life began after the job's was not the one who waits.
        born = str(conversation.header.get("at", ""))
        own = {job.id: job for job in its if iso(job.started_ms) >= born}
        held = conversation.holds({f"notice:{key(job)}" for job in own.values()}) | conversation.queued.keys()
        owed = [job for job in own.values() if f"notice:{key(job)}" not in held]
        jobs.settle({job.id for job in its} - {job.id for job in owed})
        for job in owed:
            (aside if quiet(job) else notice)(text(job), key(job))
        told += owed
    return told


def _listener(owner: str, team: Team, lead: Lead | None) -> tuple[Conversation, Telling, Telling] | None:
    """Who is told: its conversation, what wakes it, and what waits until something else does (a lead has that)."""
    if owner == LEAD:
        if lead is None:
            return None
        return lead.agent.conversation, lead.notice, partial(lead.notice, wakes=False)
    mate = team.own(owner)
    return (mate.agent.conversation, mate.desk.notice, mate.desk.notice) if mate is not None else None
