"""Permission requests of external members: the person answers, and the answer is sent back by mail.

A request is an entry in the lead's inbox, as observed in other programs; the answer takes effect on their side. Each
open request is stored among the team's requests, so that it is asked again after a kill. Requests of senders that are
not external members are ignored. The description of a call shows its whole input; no file is read for it, because the
external member may not be allowed to see the content. Depends on the request queue and the team's mail.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from teamwright.mail.message_size import is_too_long
from teamwright.permissions.permission_update_json import from_wire, to_wire
from teamwright.permissions.verdict import Approver, PermissionAnswer, PermissionUpdate, Question
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD, keyed_id
from teamwright.protocol.mail import (
    PermissionRequest,
    PermissionResponse,
    PlanApprovalRequest,
    ProtocolMessage,
    parse_protocol,
)
from teamwright.teams.external_members import ExternalMemberListener
from teamwright.teams.external_plans import bound_incarnation
from teamwright.teams.outgoing_mail import send_protocol
from teamwright.teams.team import SessionTeam

MOST_OPEN = 20
"""Maximum number of open requests of one external member; further requests are denied."""

KIND = "asked_beyond"
"""The kind of a stored request. The question to the person is a second request, of kind `permission`."""


class ExternalMemberPermissions(Struct):
    """Permission requests of external members, and the answers that are sent back to them."""

    approver: Approver
    team: SessionTeam
    _open: dict[tuple[str, str], asyncio.Task[None]] = field(
        default_factory=dict[tuple[str, str], "asyncio.Task[None]"]
    )

    def note_request(self, member: str, request: PermissionRequest | PlanApprovalRequest, /) -> None:
        """Ask the person for an external member. A repeated request changes nothing."""
        if isinstance(request, PlanApprovalRequest):
            return
        key = (member.lower(), str(request.request_id))
        if key in self._open or not self._noted(member, request):
            return
        mine = sum(1 for who, _ in self._open if who == member.lower())
        self._begin(key, self._deny(member, request) if mine >= MOST_OPEN else self._ask(member, request))

    def note_joined(self, member: str, /) -> None:
        """Ask again for requests from before this process led the team, and send answers that were not delivered."""
        team = self.team
        incarnation = bound_incarnation(team, member)
        if not team.exists:
            return
        with suppress(TeamwrightError):
            rows = [(row, None) for row in team.requests.open_requests()]
            for row, answer in [*rows, *team.requests.answered_requests()]:
                request = _asked_in(row, member, incarnation)
                key = (member.lower(), request.request_id) if request is not None else None
                if request is not None and key is not None and key not in self._open:
                    self._begin(
                        key, self._ask(member, request) if answer is None else self._send(member, request, answer)
                    )

    def note_left(self, member: str, /) -> None:
        """Stop asking for this member, because it has ended."""
        for (who, _), task in list(self._open.items()):
            if who == member.lower():
                task.cancel()
        with suppress(TeamwrightError):
            for row in self.team.requests.open_requests() if self.team.exists else ():
                if row.get("kind") == KIND and str(row.get("requester")).lower() == member.lower():
                    id = str(row["id"])
                    with suppress(TeamwrightError):
                        self.team.requests.answer(id, {"verdict": "deny", "text": "it has ended", "by": "cancelled"})
                        self.team.requests.retire(id)

    async def close(self) -> None:
        """Stop asking. The next process that leads the team asks again. May be called twice."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, key: tuple[str, str], work: Any) -> None:
        self._open[key] = task = asyncio.create_task(work, name=f"{key[1]} of {key[0]}")
        task.add_done_callback(lambda _: self._open.pop(key, None))

    # ── its row ───────────────────────────────────────────────────────────────────────────────────────────────

    def _row(self, member: str, request: PermissionRequest) -> str:
        return keyed_id(self.team.directory, member.lower(), str(request.request_id))

    def _noted(self, member: str, request: PermissionRequest) -> bool:
        """Store the request and return True when it is new. A request that cannot be stored is asked all the same."""
        box = self.team.requests
        id = self._row(member, request)
        with suppress(TeamwrightError, TypeError, ValueError):
            if box.get(id) is not None or box.get_retired(id) is not None:
                return False
            request_fields = json.loads(request.encode())
            body = {
                "kind": KIND,
                "requester": member,
                "target": "user",
                "incarnation": bound_incarnation(self.team, member),
            }
            box.open(id, {**body, "asked": request_fields})
        return True

    # ── asking ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _followed(self) -> Mapping[str, ExternalMemberListener]:
        return self.team.external.listeners

    async def _ask(self, member: str, request: PermissionRequest) -> None:
        tool_input = cast("object", request.input)  # input of another program may have any type
        if not isinstance(tool_input, dict) or not all(isinstance(part, str) for part in _texts(request)):
            await self._tell(member, request, PermissionAnswer(False, "policy", "the request is not understood"))
            return
        followed = self._followed.get(member.lower())
        if followed is not None:
            followed.note_waiting(f"permission for {request.tool_name[:60]}")
        answer = await self.approver.ask(
            Question(
                member=member,
                tool=request.tool_name,
                kind="permission",
                what=describe_call(request.tool_name, request.input, request.description),
                rule="asked by another program, which runs this member",
                input=request.input,
                owner=member,
                tool_use_id=request.tool_use_id,
                description=request.description,
                suggestions=_accepted_suggestions(request.permission_suggestions),
            )
        )
        if answer.by != "cancelled":  # cancelled because the session closes: the next process asks again
            await self._tell(member, request, answer)

    async def _deny(self, member: str, request: PermissionRequest) -> None:
        await self._tell(
            member, request, PermissionAnswer(False, "policy", f"{MOST_OPEN} requests of {member} are open already")
        )

    async def _tell(self, member: str, request: PermissionRequest, answer: PermissionAnswer) -> None:
        """Record the answer, which counts from now on, and send it to the member."""
        body: dict[str, Any] = {"verdict": "allow" if answer.allowed else "deny", "text": answer.text, "by": answer.by}
        if answer.allowed:
            updated_input = request.input if answer.input is None else dict(answer.input)
            body["response"] = {
                "updated_input": updated_input,
                "permission_updates": [to_wire(one) for one in answer.updates],
            }
        with suppress(TeamwrightError, TypeError, ValueError):
            self.team.requests.answer(self._row(member, request), body)
        await self._send(member, request, body)
        followed = self._followed.get(member.lower())
        for one in answer.updates if answer.allowed and followed is not None else ():
            if one.kind == "setMode" and followed is not None:
                followed.note_mode(one.mode)

    async def _send(self, member: str, request: PermissionRequest, answer: Mapping[str, Any]) -> None:
        """Send the answer to the member, once for each request; a member that has left receives nothing."""
        team = self.team
        id = request.request_id
        response: ProtocolMessage = PermissionResponse(
            request_id=id, subtype="error", error=answer["text"] or "Permission denied"
        )
        if answer["verdict"] == "allow":
            response = PermissionResponse(request_id=id, subtype="success", response=answer["response"])
            if is_too_long(response.encode()):  # it would be cut nowhere: the member uses the input as it is
                why = "Allowed, but the changed input is too long for a message. Ask again for a shorter call."
                response = PermissionResponse(request_id=id, subtype="error", error=why)
        if not team.exists or member.lower() not in team.external.external_names:
            return
        row = self._row(member, request)
        try:
            if not await team.mailbox(member).contains(row):
                await send_protocol(team, LEAD, member, response, id=row)
            team.requests.retire(row)
        except TeamwrightError as problem:
            text = f"the answer to {id} did not reach {member}: {problem.what}"
            team.emit(Notice(member="system", text=text, level="warning"))
        if (followed := self._followed.get(member.lower())) is not None:
            followed.note_answered()


def _asked_in(row: Mapping[str, Any], member: str, incarnation: int | None) -> PermissionRequest | None:
    """Return the request in this row when this incarnation of the member asked it, else None."""
    if (
        row.get("kind") != KIND
        or row.get("incarnation") != incarnation
        or str(row.get("requester")).lower() != member.lower()
    ):
        return None
    request = parse_protocol(json.dumps(row.get("asked")))
    return request if isinstance(request, PermissionRequest) else None


def _texts(request: PermissionRequest) -> tuple[object, ...]:
    return request.request_id, request.tool_name, request.tool_use_id, request.description


def _accepted_suggestions(offered: object) -> tuple[PermissionUpdate, ...]:
    """Return the suggested permission updates of an external member that are valid."""
    updates: list[PermissionUpdate] = []
    for one in cast("list[object]", offered)[:MOST_OPEN] if isinstance(offered, list) else ():
        try:
            updates.append(from_wire(one))
        except TeamwrightError:
            continue
    return tuple(updates)


Input: TypeAlias = Mapping[str, Any]
Description: TypeAlias = tuple[list[str], frozenset[str]]
"""Lines of a description, and the keys of the input that the lines show completely."""


def describe_call(tool: str, tool_input: Input, description: str = "") -> str:
    """Return the description of a tool call, followed by the rest of the input as JSON."""
    shows = _SHOWS.get(tool)
    lines, described_keys = (shows(tool_input) if shows is not None else None) or ([], frozenset[str]())
    rest = {key: value for key, value in tool_input.items() if key not in described_keys}
    if rest.get("description") == description:
        rest.pop("description")
    if rest or not lines:
        lines.append(json.dumps(rest, indent=2, ensure_ascii=False))
    return "\n".join([*([description] if description else []), *lines])


def _command(tool_input: Input) -> Description | None:
    command = tool_input.get("command")
    return ([command], frozenset({"command"})) if isinstance(command, str) else None


def _whole_file(tool_input: Input) -> Description | None:
    path, content = tool_input.get("file_path"), tool_input.get("content")
    if not isinstance(path, str) or not isinstance(content, str):
        return None
    lines = content.removesuffix("\n").split("\n") if content else []
    end = [] if not content or content.endswith("\n") else ["\\ no line end here"]
    return [f"{path}: all of it", *_marked("+", lines), *end], frozenset({"file_path", "content"})


def _replacement(tool_input: Input) -> Description | None:
    path = tool_input.get("file_path")
    old = tool_input.get("old_string")
    new = tool_input.get("new_string")
    if not isinstance(path, str) or not isinstance(old, str) or not isinstance(new, str):
        return None
    keys = {"file_path", "old_string", "new_string"}
    everywhere = tool_input.get("replace_all")
    if isinstance(everywhere, bool):
        keys.add("replace_all")
    where = "at every place" if everywhere is True else "at one place"
    return [f"{path}: {where}", *_marked("-", old.split("\n")), *_marked("+", new.split("\n"))], frozenset(keys)


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return [mark + line for line in lines]


_SHOWS: Mapping[str, Callable[[Input], Description | None]] = {
    "Bash": _command,
    "Write": _whole_file,
    "Edit": _replacement,
}
"""Tools whose calls are easier to read in another form than JSON."""
