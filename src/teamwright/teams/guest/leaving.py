"""Leaving a team that another program leads: each step once, also when a kill comes between.

The lead hears of it first, for its program may close the pane at once; then the own entry goes, which that lead takes
off for nobody that it does not know; then tasks go back that the lead has not seen to. Knows the team; ends no process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from teamwright.protocol.clock import iso
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import Entry, ShutdownApproved
from teamwright.protocol.task import TaskStatus
from teamwright.protocol.values import dataclass
from teamwright.teams.guest.inbox import GuestInbox
from teamwright.teams.guest.place import RosterPlace
from teamwright.teams.guest.record import Farewell
from teamwright.teams.mailing.post import summary_of
from teamwright.teams.plans.rows import close_plans
from teamwright.teams.team import Team

COMES_BACK = frozenset({"suspended"})
"""Ends after which a new start with the same flags goes on with the life; its tasks stay with it."""


@dataclass(frozen=True, slots=True)
class Leaver:
    """Who leaves: its life, its place, and the pane that its lead started it in, empty: none that is sure to be it.

    `known`: its lead's program had put it on the roster; `deserted`: there is no lead any more. `tasks_changed` is set
    with each change of the list.
    """

    name: str
    incarnation: int
    place: RosterPlace
    pane: str
    known: bool
    tasks_changed: asyncio.Event
    deserted: bool = False


async def leave(team: Team, who: Leaver, farewell: Farewell, say: Callable[[str, str], None]) -> None:
    """See it out. A step that fails is told, and the next one is tried."""
    if not who.deserted:
        await _tried("the lead could not be told", _tell(team, who, farewell), say)
    await who.place.rest()
    await _tried("its entry is still on the roster", who.place.give_up(), say)
    if farewell.how not in COMES_BACK:
        await _tried("its requests stay open", _close(team, who, farewell), say)
        await _tried("its tasks could not be handed back", _hand_back(team, who), say)


async def _tried(failing: str, step: Awaitable[None], say: Callable[[str, str], None]) -> None:
    try:
        await step
    except TeamwrightError as problem:
        say(f"{failing}: {problem.what}", "warning")


async def _tell(team: Team, who: Leaver, farewell: Farewell) -> None:
    inbox = team.inbox(LEAD)
    if not await inbox.has(farewell.told):
        entry = team.outside.entries.get(who.name)
        color = entry.color if entry is not None else None
        text, summary = _words(who, farewell)
        letter = Entry(who.name, text, summary, iso(), color, farewell.told)
        await inbox.send(letter, runtime=True)
    if isinstance(inbox, GuestInbox) and (left := await inbox.carried(team.settings.goodbye_s)):
        raise TeamwrightError("lock-timeout", f"{left} messages to {LEAD} could not be written")


def _words(who: Leaver, farewell: Farewell) -> tuple[str, str | None]:
    if farewell.agreed_to:
        told = ShutdownApproved(
            request_id=farewell.agreed_to,
            sender=who.name,
            timestamp=iso(),
            pane_id=who.pane or None,
            backend_type="tmux" if who.pane else None,
        )
        return told.encode(), None
    text = f"{who.name} has ended: {farewell.cause}."
    if farewell.how in COMES_BACK:
        text += " When it is started again with the same flags, it continues."
    return text, summary_of(text)


async def _close(team: Team, who: Leaver, farewell: Farewell) -> None:
    close_plans(team.requests, who.name, who.incarnation, farewell.cause)
    for request in team.requests.open_requests():
        mine = str(request.get("target", "")).lower() == who.name.lower()
        if request.get("kind") == "shutdown" and mine and request.get("incarnation") == who.incarnation:
            body = {"approve": True, "reason": farewell.cause, "by": "system"}
            team.requests.answer(str(request["id"]), body)


async def _hand_back(team: Team, who: Leaver) -> None:
    """A lead that knows the member hands its tasks back itself, and tells its model: it is given the time for that."""
    if who.known and not who.deserted:
        with suppress(TimeoutError):
            await asyncio.wait_for(_until_free(team, who), team.settings.cancel_grace_s)
    await team.tasks.release(who.name, by=who.name)


async def _until_free(team: Team, who: Leaver) -> None:
    while await _holds(team, who.name):
        await who.tasks_changed.wait()
        who.tasks_changed.clear()


async def _holds(team: Team, name: str) -> bool:
    tasks = await team.tasks.all()
    return any((t.owner or "").lower() == name.lower() and t.status is not TaskStatus.COMPLETED for t in tasks)
