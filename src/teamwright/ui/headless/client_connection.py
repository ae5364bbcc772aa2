"""The connection with a client program of `--input-format stream-json`: prompts and control requests on stdin.

A client sends prompts, and control requests at any time (initialize, interrupt, set_permission_mode, …). This side asks
the client: its hooks, its MCP servers, and its answer to a permission request. Depends on the package `session`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.settings.merge import lead_mode
from teamwright.hooks.hook_definitions import TIMEOUT_S, HookSpec
from teamwright.mcp.json_rpc import McpServerError, Message
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import RequestClosed, RequestOpened, TeamEvent
from teamwright.protocol.ids import is_uuid
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.time_limit import time_limit
from teamwright.session.control.action_table import set_model
from teamwright.session.control.person_actions import record_interrupt, stop_task
from teamwright.session.options import Options
from teamwright.session.result import Result
from teamwright.session.session import Session
from teamwright.ui.headless.approving_program import answer_request, request_fields
from teamwright.ui.headless.client_start import hook_refusal, initialize_answer, set_thinking, with_client_fields

MAX_LINE = 64 * 1024 * 1024
"""The maximum size of a line on stdin in bytes, images included."""


_LATE_S = 5.0
"""Seconds after a hook's timeout at which the runtime gives it up, if the connection did not."""


class ClientPrompt(Struct, frozen=True):
    """A prompt of the client. `uuid` is the client's id of it, empty without one; `origin` is returned unchanged."""

    content: list[Block]
    uuid: str = ""
    origin: Mapping[str, Any] | None = None


class ClientError(Exception):
    """The client answered with an error, or is gone."""


class ClientConnection:
    """The connection with one client. `write` puts a JSON object on stdout."""

    def __init__(self, write: Callable[[dict[str, Any]], object]) -> None:
        self._write = write
        self._prompts: asyncio.Queue[ClientPrompt | TeamwrightError | None] = asyncio.Queue()
        self._waiting: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._numbers = itertools.count(1)
        loop = asyncio.get_running_loop()
        self._first: asyncio.Future[Mapping[str, Any]] = loop.create_future()
        self._session: asyncio.Future[Session] = loop.create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._is_answered = False
        """True once the client's first request has its answer."""
        self._turn: asyncio.Future[Result] | None = None
        self._is_interrupted = False
        self._used_uuids: set[str] = set()
        self._start(self._read())

    # ── the start ─────────────────────────────────────────────────────────────────────────────────────────────

    async def prepare(self, options: Options, *, asks: bool) -> Options:
        """Return the options with what the client's first line says: instructions, tools, hooks, agent types.

        `asks`: the client answers permission requests. Raises UsageError for a field that cannot be used.
        """
        first = await self._first
        request: Mapping[str, Any] = first.get("request") or {}
        try:
            options = with_client_fields(options, request)
            hooks = self._hooks(request.get("hooks") or {})
        except UsageError as problem:
            self._answer(first, error=problem.what)
            raise
        on_request = self.ask if asks else options.on_request
        own_hooks = (*options.own_hooks, *hooks)
        return replace(options, own_hooks=own_hooks, on_request=on_request, client_mcp=self.exchange_mcp)

    @property
    def reads_subagent_text(self) -> bool:
        """True when the client's first request asked for the texts of sub-agents."""
        request: Mapping[str, Any] = self._first.result().get("request") or {}
        return bool(request.get("forwardSubagentText"))

    def attach(self, session: Session) -> None:
        """Answer the client's requests for this session from now on."""
        self._session.set_result(session)
        session.log.subscribe(self._note_event, live=True)
        first = self._first.result()
        if first and not self._is_answered:
            self._is_answered = True
            self._answer(first, initialize_answer(session, first.get("request") or {}))

    def detach(self) -> None:
        """Let the client's requests wait for the next session."""
        self._session = asyncio.get_running_loop().create_future()

    def _hooks(self, entries: Mapping[str, Any]) -> tuple[HookSpec, ...]:
        from teamwright.api.options import (
            Hook,
            to_hooks,  # only a client with hooks needs it
        )

        specs: list[HookSpec] = []
        for event, groups in entries.items():
            for group in cast("list[dict[str, Any]]", groups or ()):
                matcher = group.get("matcher") or ""
                timeout_s = float(group.get("timeout") or TIMEOUT_S)
                for id in group.get("hookCallbackIds") or ():
                    call = partial(self._call_hook, str(id), event, timeout_s, group.get("onFailure"))
                    [spec] = to_hooks([Hook(event, call, matcher, timeout_s)])
                    late_s = timeout_s + _LATE_S  # the client is given up first, with an answer that refuses
                    specs.append(replace(spec, command=f"the client's {id}", source="the client", timeout_s=late_s))
        return tuple(specs)

    # ── prompts and turns ─────────────────────────────────────────────────────────────────────────────────────

    async def prompts(self) -> AsyncIterator[ClientPrompt]:
        """Yield the client's prompts. Raises UsageError for a line that is not one."""
        while (found := await self._prompts.get()) is not None:
            if isinstance(found, TeamwrightError):
                raise found
            yield found

    def waiting_prompts(self) -> list[ClientPrompt]:
        """Return the prompts that were read and not carried out, and forget them."""
        found: list[ClientPrompt] = []
        while not self._prompts.empty():
            if isinstance(prompt := self._prompts.get_nowait(), ClientPrompt):
                found.append(prompt)
        return found

    async def run(self, session: Session, prompt: ClientPrompt) -> Result:
        """Carry out a prompt. An interrupt of the client ends it with a result that is `cancelled`."""
        turn = self._turn = asyncio.ensure_future(_run_prompt(session, prompt.content, self._new_uuid(prompt)))
        try:
            return await turn
        except asyncio.CancelledError:
            if not self._is_interrupted:
                raise
            record_interrupt(session)
            return await session.result("cancelled", session.lead.last_end.text)
        finally:
            self._turn = None
            self._is_interrupted = False

    def _new_uuid(self, prompt: ClientPrompt) -> str:
        """Return the client's id of the prompt for the transcript; empty for one that is no UUID or was used before."""
        if not is_uuid(prompt.uuid) or prompt.uuid in self._used_uuids:
            return ""
        self._used_uuids.add(prompt.uuid)
        return prompt.uuid

    def interrupt(self, turn: asyncio.Future[Result] | None) -> None:
        """End this turn of the lead if it is running. A turn that began later continues."""
        if turn is not None and turn is self._turn and not turn.done():
            self._is_interrupted = True
            turn.cancel()

    # ── questions to the client ───────────────────────────────────────────────────────────────────────────────

    async def request(self, id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send the client a control request and return its answer. Raises ClientError.

        When cancelled, the client is notified that no answer is needed.
        """
        if self._is_closed:
            raise ClientError("the client has closed its input")
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[id] = answer
        try:
            self._write({"type": "control_request", "request_id": id, "request": body})
            return await answer
        except asyncio.CancelledError:
            self._write({"type": "control_cancel_request", "request_id": id})
            raise
        finally:
            self._waiting.pop(id, None)

    def _next_id(self) -> str:
        return f"tw_{next(self._numbers)}"

    async def _call_hook(
        self, callback: str, event: str, timeout_s: float, on_failure: str | None, payload: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the answer of a hook of the client. Without one in time, or with an error, what it guards is refused.

        A client that said `onFailure: continue` lets the call run after an error, but not without an answer.
        """
        body = {"subtype": "hook_callback", "callback_id": callback, "input": dict(payload)}
        if payload.get("tool_use_id"):
            body["tool_use_id"] = payload["tool_use_id"]
        try:
            async with time_limit(timeout_s):
                return await self.request(self._next_id(), body)
        except TimeoutError:
            refusal = hook_refusal(event, f"the client's hook gave no answer within {timeout_s:g} s")
            if refusal is None:
                raise
        except ClientError as problem:
            refusal = hook_refusal(event, f"the client's hook failed: {problem}")
            if refusal is None or on_failure == "continue":
                raise
        return refusal

    async def exchange_mcp(self, server: str, message: Message) -> Message:
        """Send a JSON-RPC message to a server in the client and return its answer. Raises McpServerError."""
        body = {"subtype": "mcp_message", "server_name": server, "message": message}
        try:
            response = await self.request(self._next_id(), body)
        except ClientError as problem:
            raise McpServerError(f"cannot be reached through the client: {problem}", dead=True) from None
        answer = response.get("mcp_response")
        return cast("Message", answer) if isinstance(answer, dict) else {}

    async def ask(self, event: RequestOpened) -> bool:
        """Ask the client about a permission request, and give its answer."""
        fields = request_fields(event)
        body = {"subtype": "can_use_tool", **fields, "permission_suggestions": [dict(one) for one in event.suggestions]}
        try:
            answer = await self.request(event.request, body)
        except ClientError as problem:
            return await event.deny(f"the client gave no answer: {problem}")
        first = await answer_request(event, answer)
        if answer.get("behavior") == "deny" and answer.get("interrupt"):
            self.interrupt(self._turn)
        return first

    def _note_event(self, _number: int, event: TeamEvent) -> None:
        """Tell the client that a request was answered in another way."""
        if isinstance(event, RequestClosed) and (waiting := self._waiting.get(event.request)) is not None:
            self._write({"type": "control_cancel_request", "request_id": event.request})
            if not waiting.done():
                waiting.set_exception(ClientError("it was answered in another way"))

    # ── lines of the client ───────────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        try:
            async for line in _stdin_lines():
                if line.strip():
                    self._take(_parse_line(line), line)
        except TeamwrightError as problem:
            self._prompts.put_nowait(problem)
        except (OSError, ValueError) as problem:
            self._prompts.put_nowait(UsageError("usage", f"stdin cannot be read: {problem}"))
        finally:
            self._is_closed = True
            if not self._first.done():
                self._first.set_result({})
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ClientError("the client has closed its input"))
            self._prompts.put_nowait(None)

    def _take(self, body: dict[str, Any], line: bytes) -> None:
        kind = body.get("type")
        if kind == "control_response":
            self._take_answer(body.get("response") or {})
        elif kind == "control_request":
            request: Mapping[str, Any] = body.get("request") or {}
            if not self._first.done() and request.get("subtype") == "initialize":
                self._first.set_result(body)
            else:
                self._start(self._carry_out(body, self._turn))
        elif kind not in ("keep_alive", "control_cancel_request"):
            self._prompts.put_nowait(_parse_prompt(body, line))
            if not self._first.done():
                self._first.set_result({})

    def _take_answer(self, response: Mapping[str, Any]) -> None:
        waiting = self._waiting.get(str(response.get("request_id")))
        if waiting is None or waiting.done():
            return
        if response.get("subtype") == "success":
            answer = response.get("response")
            waiting.set_result(cast("dict[str, Any]", answer) if isinstance(answer, dict) else {})
        else:
            waiting.set_exception(ClientError(str(response.get("error") or "an error without a text")[:500]))

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, body: dict[str, Any], turn: asyncio.Future[Result] | None) -> None:
        """Carry out a control request of the client, and answer it. `turn` was running when the request came."""
        if not self._first.done():
            self._first.set_result({})
        session = await asyncio.shield(self._session)
        request: Mapping[str, Any] = body.get("request") or {}
        subtype = str(request.get("subtype"))
        try:
            self._answer(body, await self._carry_out_subtype(session, subtype, request, turn))
        except TeamwrightError as problem:
            self._answer(body, error=problem.what)
        except (KeyError, TypeError, ValueError) as problem:
            self._answer(body, error=f"the control request {subtype!r} is not complete: {problem}")

    async def _carry_out_subtype(
        self, session: Session, subtype: str, request: Mapping[str, Any], turn: asyncio.Future[Result] | None
    ) -> dict[str, Any]:
        match subtype:
            case "interrupt":
                self.interrupt(turn)
                return {}
            case "set_permission_mode":
                session.modes.set_lead(lead_mode(str(request["mode"]), "set_permission_mode"))
                return {"mode": session.permission_mode}
            case "set_model":
                change = await set_model(session, str(request.get("model") or session.options.model or "default"))
                return {"model": change.model}
            case "set_max_thinking_tokens":
                set_thinking(session, request.get("max_thinking_tokens"))
                return {}
            case "mcp_status":
                served = session.agent_factory.toolset.serving
                return {"mcpServers": [server_object(one) for one in served.views()]}
            case "stop_task":
                if await stop_task(session, str(request["task_id"])) is None:
                    raise UsageError("usage", f"no task {request['task_id']!r} is running")
                return {}
            case "initialize":
                raise UsageError("usage", "initialize comes first, once: the session is open")
            case _:
                raise UsageError("usage", f"the control request {subtype!r} is not supported")

    def _answer(
        self, request: Mapping[str, Any], response: Mapping[str, Any] | None = None, *, error: str = ""
    ) -> None:
        answer: dict[str, Any] = {"request_id": request.get("request_id"), "subtype": "error" if error else "success"}
        answer |= {"error": error} if error else {"response": response or {}}
        self._write({"type": "control_response", "response": answer})

    async def close(self) -> None:
        """End the reading, and the requests that are left."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _run_prompt(session: Session, content: list[Block], uuid: str) -> Result:
    if content and content[0].get("type") == "text" and str(content[0].get("text") or "").lstrip().startswith("/"):
        from teamwright.ui.headless.client_commands import run_client_command  # only for such a prompt

        if (result := await run_client_command(session, content)) is not None:
            return result
    session.lead.agent.renew_model_calls()
    return await session.run(content, uuid)


SERVER_STATUS = {"running": "connected", "failed": "failed"}
"""The states of MCP servers in the words of similar programs; all others are `pending`."""


def server_object(server: Any) -> dict[str, str]:
    """Return the name and the status of an MCP server."""
    return {"name": server.name, "status": SERVER_STATUS.get(server.state, "pending")}


async def _stdin_lines() -> AsyncIterator[bytes]:
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        for line in sys.stdin.buffer:  # a file is always readable and cannot be waited for
            yield line
        return
    reader = asyncio.StreamReader(limit=MAX_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line


def _parse_line(line: bytes) -> dict[str, Any]:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise _no_message_error(line) from problem
    if not isinstance(body, dict):
        raise _no_message_error(line)
    return cast("dict[str, Any]", body)


def _no_message_error(line: bytes) -> UsageError:
    text = line[:80].decode(errors="replace").strip()
    return UsageError(
        "usage",
        f"a line of stdin is not a user message: {text}",
        do=['send {"type":"user","message":{"role":"user","content":"…"}} on one line'],
    )


def _parse_prompt(body: dict[str, Any], line: bytes) -> ClientPrompt:
    try:
        content = body["message"]["content"]
        if body["type"] != "user" or not content:
            raise KeyError("type")
    except (KeyError, TypeError) as problem:
        raise _no_message_error(line) from problem
    blocks = [text_block(content)] if isinstance(content, str) else list(content)
    origin = cast("object", body.get("origin"))
    return ClientPrompt(
        blocks, str(body.get("uuid") or ""), cast("dict[str, Any]", origin) if isinstance(origin, dict) else None
    )
