"""Members that another program runs: what they ask their lead for goes to the person, and the answer back by mail.

Their request is an entry in the lead's inbox, as observed; the answer counts on their side. Whoever is no member that
another program put on the roster asks nobody by such an entry. Knows the queue and the team's mail; runs nothing.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import cast

from teamwright.permissions.updates import from_wire, to_wire
from teamwright.permissions.verdict import Answer, Asker, Question, Update
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, keyed_id
from teamwright.protocol.mail import PermissionRequest, PermissionResponse
from teamwright.teams.post import send_protocol
from teamwright.teams.team import Team

MOST_OPEN = 20
"""Requests of one stranger that are open at once; what it asks beyond that is denied."""


@dataclass(slots=True)
class StrangerAsks:
    """Asks the person for members that another program runs, and tells these what came back."""

    asker: Asker
    team: Team
    _open: dict[tuple[str, str], asyncio.Task[None]] = field(
        default_factory=dict[tuple[str, str], "asyncio.Task[None]"]
    )

    def __call__(self, member: str, request: PermissionRequest) -> None:
        """A member of another program asks; the same request again changes nothing."""
        key = (member, request.request_id)
        if key in self._open:
            return
        mine = sum(1 for who, _ in self._open if who == member)
        work = self._deny(member, request) if mine >= MOST_OPEN else self._ask(member, request)
        self._open[key] = task = asyncio.create_task(work, name=f"{request.request_id} of {member}")
        task.add_done_callback(lambda _: self._open.pop(key, None))

    async def close(self) -> None:
        """Ask no longer; what is open stays unanswered, and its own deadline ends it. May be called twice."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _ask(self, member: str, request: PermissionRequest) -> None:
        given = cast("object", request.input)  # what a stranger writes may be anything
        if not isinstance(given, dict) or not all(isinstance(part, str) for part in _texts(request)):
            await self._tell(member, request, Answer(False, "policy", "the request is not understood"))
            return
        asked = json.dumps(given, indent=2, ensure_ascii=False)
        answer = await self.asker.ask(
            Question(
                member=member,
                tool=request.tool_name,
                kind="permission",
                what=f"{request.description}\n{asked}" if request.description else asked,
                rule="asked by another program, which runs this member",
                input=request.input,
                owner=member,
                tool_use_id=request.tool_use_id,
                description=request.description,
                suggestions=_understood(request.permission_suggestions),
            )
        )
        await self._tell(member, request, answer)

    async def _deny(self, member: str, request: PermissionRequest) -> None:
        await self._tell(member, request, Answer(False, "policy", f"{MOST_OPEN} requests of {member} are open already"))

    async def _tell(self, member: str, request: PermissionRequest, answer: Answer) -> None:
        """The answer, once for each request; a member that is gone is told nothing."""
        id = request.request_id
        if answer.allowed:
            given = request.input if answer.input is None else dict(answer.input)
            response = {"updated_input": given, "permission_updates": [to_wire(one) for one in answer.updates]}
            told = PermissionResponse(request_id=id, subtype="success", response=response)
        else:
            told = PermissionResponse(request_id=id, subtype="error", error=answer.text or "Permission denied")
        if not self.team.exists or member.lower() not in self.team.outside.strangers:
            return
        try:
            await send_protocol(self.team, LEAD, member, told, id=keyed_id(self.team.directory, member, id))
        except TeamwrightError as problem:
            text = f"the answer to {id} did not reach {member}: {problem.what}"
            self.team.emit(Notice(member="system", text=text, level="warning"))


def _texts(request: PermissionRequest) -> tuple[object, ...]:
    return request.request_id, request.tool_name, request.tool_use_id, request.description


def _understood(offered: object) -> tuple[Update, ...]:
    """What a stranger offers to be granted, as far as we would."""
    made: list[Update] = []
    for one in cast("list[object]", offered)[:MOST_OPEN] if isinstance(offered, list) else ():
        try:
            made.append(from_wire(one))
        except TeamwrightError:
            continue
    return tuple(made)
