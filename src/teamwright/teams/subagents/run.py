"""One run of a sub-agent: whose it is, how it stands, what it gave. A value that its life fills in.

Knows the agent it holds while it lives; starts nothing and tells nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from teamwright.agent.agent import Agent, TurnEnd
from teamwright.agent.command_queue import CommandQueue
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass

RunState = Literal["running", "completed", "failed", "killed"]

MarkBlocked = Callable[[str | None], None]
"""Marks who is blocked by an open request, and with None that it no longer is."""


@dataclass(slots=True, eq=False)
class SubagentRun:
    """A sub-agent from its start to its end; going on with it begins another generation of the same run.

    `owner` is told of its end: who started it, or went on with it last. `call` is the model's own id of that call,
    `key` names it for good. `file` can be read at any time. `about` is what it was started with, as it is kept.
    `limit` is the cap that ended it, `unread` counts messages that it never read, `cause` is why it was stopped.
    `read`: its owner read the end in a call.
    """

    id: str
    owner: str
    output_file: Path
    transcript: Path
    spec_fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""
    call: str = ""
    key: str = ""
    started_ms: int = 0
    generation: int = 1
    answers_before: int = 0
    background: bool = False
    state: RunState = "running"
    text: str = ""
    failure_reason: str = ""
    tokens: int = 0
    tool_calls: int = 0
    duration_ms: int = 0
    unread_messages: int = 0
    result_read: bool = False
    agent: Agent | None = None
    limit: str = ""
    end: TurnEnd | None = None
    usage: Usage | None = None
    error: Exception | None = None
    cause: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None
    queue: CommandQueue = field(default_factory=CommandQueue)
    input_arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever something came for it, or a job of its own ended."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when nobody waits for it in the foreground any more: it ended, or went to the background."""
    _blocked_callbacks: list[MarkBlocked] = field(default_factory=list[MarkBlocked])

    @property
    def notice_key(self) -> str:
        """The transcript of its owner holds the end of this generation as `notice:<this>`."""
        return f"agent-{self.id}-{self.generation}"

    @property
    def is_running(self) -> bool:
        """Whether it has not come to its end."""
        return self.state == "running"

    @property
    def is_resuming(self) -> bool:
        """Whether it has ended, and somebody is about to go on with it."""
        return not self.is_running and self.lock.locked()

    @property
    def description(self) -> str:
        """3 to 5 words, or its id."""
        return str(self.spec_fields.get("description") or self.id)

    @property
    def agent_type(self) -> str:
        """The type of agent."""
        return str(self.spec_fields.get("agent_type") or "general-purpose")

    def block_caller(self, mark_blocked: MarkBlocked) -> MarkBlocked:
        """Who is blocked while it asks: its caller, as long as that waits for it in the foreground."""

        def now(on: str | None) -> None:
            if self.background:
                return
            if on is None:
                if mark_blocked in self._blocked_callbacks:
                    self._blocked_callbacks.remove(mark_blocked)
            else:
                self._blocked_callbacks.append(mark_blocked)
            mark_blocked(on)

        return now

    def move_to_background(self) -> None:
        """From now on it runs in the background: its caller goes on, whatever it asks."""
        self.background = True
        waits, self._blocked_callbacks = self._blocked_callbacks, []
        for waiting in waits:
            waiting(None)
        self.released.set()

    def record_turn_end(self, end: TurnEnd) -> None:
        """Its turns came to this end."""
        self.state = "completed" if end.stop == "done" else "failed"
        self.text, self.failure_reason, self.limit, self.end = end.text, end.explanation, end.limit, end

    def reset(self) -> None:
        """Another generation, or the first, begins to run."""
        self.state, self.text, self.failure_reason = "running", "", ""
        self.limit, self.cause, self.unread_messages, self.result_read = "", "", 0, False
        self.usage, self.error, self.end = None, None, None
        self.tokens = self.tool_calls = self.duration_ms = 0
        self.ended, self.released = asyncio.Event(), asyncio.Event()

    def set_ended(self) -> None:
        """Whoever waits for its end is told; a session remembers many that ended, and one event says it of all."""
        self.ended.set()
        self.released.set()
        self.ended = self.released = _ENDED_EVENT


_ENDED_EVENT = asyncio.Event()
"""Set for ever: nobody waits for it, so that it belongs to no loop."""
_ENDED_EVENT.set()


def find_run(runs: Mapping[str, SubagentRun], text: str) -> SubagentRun | None:
    """The run of that id, or the newest of that name, without regard to case."""
    wanted = text.strip().lower()
    if wanted in runs:
        return runs[wanted]
    return next((run for run in reversed(list(runs.values())) if run.name and run.name.lower() == wanted), None)
