"""One run of a sub-agent: its owner, its state and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from teamwright.agent.agent import Agent, InputQueue, TurnEnd
from teamwright.protocol.usage import Usage

RunState = Literal["running", "completed", "failed", "killed"]

MarkBlocked = Callable[[str | None], None]
"""Marks the agent that an open request blocks; None ends the block."""


class SubagentRun(Struct, eq=False):
    """A sub-agent from its start to its end; a resume begins another generation of the same run.

    `owner` is notified of its end: the agent that started or last resumed it. `call` is the model's own id of that
    call, `key` its permanent name. `output_file` can be read at any time. `spec_fields` are the stored fields of its
    spec. `limit` is the cap that ended it, `unread_messages` counts messages that it never read, `cause` is why it was
    stopped. `result_read`: its owner read the end in a call.
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
    fork_notice: str = ""
    """The notice for a fork in a worktree about the paths in its conversation."""
    limit: str = ""
    end: TurnEnd | None = None
    usage: Usage | None = None
    error: Exception | None = None
    cause: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    task: asyncio.Task[None] | None = None
    queue: InputQueue = field(default_factory=InputQueue)
    input_arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it has new input, or one of its jobs ended."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no caller waits for it in the foreground any more: it ended, or went to the background."""
    _blocked_callbacks: list[MarkBlocked] = field(default_factory=list[MarkBlocked])

    def enter_worktree(self, path: str, cwd: Path | None, fork_notice: str) -> None:
        """Record the worktree in which it works, and the directory there that a call named, for a resume; and the
        notice that a fork gets.
        """
        fields = {key: value for key, value in self.spec_fields.items() if key != "cwd"}
        self.spec_fields = {**fields, "worktree": path} | ({} if cwd is None else {"cwd": str(cwd)})
        self.fork_notice = fork_notice

    def note_directory(self, own: Path, of_caller: Path) -> None:
        """Let a fork know its directory, when that is not its caller's."""
        if own != of_caller:
            self.fork_notice = f"{self.fork_notice} Your directory is {own}.".strip()

    def add_text(self, text: str) -> None:
        """Add a sentence of the runtime to its final text."""
        self.text = f"{self.text}\n\n{text}".strip()

    def fork_job(self, prompt: str) -> str:
        """Return the job of a fork with the notice about its paths."""
        return f"{self.fork_notice}\n\n{prompt}" if self.fork_notice else prompt

    @property
    def notice_key(self) -> str:
        """The key of its end: the owner's transcript stores the end of this generation as `notice:<key>`."""
        return f"agent-{self.id}-{self.generation}"

    @property
    def is_running(self) -> bool:
        """True while it has not ended."""
        return self.state == "running"

    @property
    def is_resuming(self) -> bool:
        """True when it has ended and is about to be resumed."""
        return not self.is_running and self.lock.locked()

    @property
    def description(self) -> str:
        """The description of 3 to 5 words, or its id."""
        return str(self.spec_fields.get("description") or self.id)

    @property
    def agent_type(self) -> str:
        return str(self.spec_fields.get("agent_type") or "general-purpose")

    def block_caller(self, mark_blocked: MarkBlocked) -> MarkBlocked:
        """Return the callback that blocks its caller while it asks, as long as the caller waits in the foreground."""

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
        """Move it to the background: its caller continues, even while it asks."""
        self.background = True
        waits, self._blocked_callbacks = self._blocked_callbacks, []
        for waiting in waits:
            waiting(None)
        self.released.set()

    def record_turn_end(self, end: TurnEnd) -> None:
        """Record the end of its turns."""
        self.state = "completed" if end.stop == "done" else "failed"
        self.text = end.text
        self.failure_reason = end.explanation
        self.limit = end.limit
        self.end = end

    def next_generation(self, answers_before: int) -> None:
        """Begin another generation, whose usage starts at zero."""
        self.generation += 1
        self.answers_before = answers_before
        self.usage = None
        self.tokens = self.tool_calls = self.duration_ms = 0

    def reset(self) -> None:
        """Reset its end, before it runs. The usage of a generation that a kill interrupted stays."""
        self.state = "running"
        self.text = ""
        self.failure_reason = ""
        self.limit = ""
        self.cause = ""
        self.unread_messages = 0
        self.result_read = False
        self.error = self.end = None
        self.ended = asyncio.Event()
        self.released = asyncio.Event()

    def set_ended(self) -> None:
        """Set its end, and replace its event by one that all ended runs share, since a session remembers many."""
        self.ended.set()
        self.released.set()
        self.ended = self.released = _ENDED_EVENT


_ENDED_EVENT = asyncio.Event()
"""An event that is always set: no task waits for it, so that it belongs to no loop."""
_ENDED_EVENT.set()


def find_run(runs: Mapping[str, SubagentRun], text: str) -> SubagentRun | None:
    """Return the run of that id, or the newest of that name, without regard to case."""
    key = text.strip().lower()
    if key in runs:
        return runs[key]
    return next((run for run in reversed(list(runs.values())) if run.name and run.name.lower() == key), None)
