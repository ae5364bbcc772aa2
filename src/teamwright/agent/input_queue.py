"""The command queue: input that waits for one agent, in delivery order.

`SOURCES` defines the order of all sources, mail included, and the mode of each. Every agent has a queue, which is
drained between turns and between model calls. Depends on content blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum

from msgspec import Struct, field

from teamwright.agent.conversation import UserMessage
from teamwright.protocol.ids import message_id
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.runtime_tags import RuntimeTags, TaskEnd, escape_tags


class CommandMode(StrEnum):
    """The way in which a queued command is processed."""

    PROMPT = "prompt"
    """Text that is delivered unchanged."""

    BASH = "bash"
    """A shell command of the user. It runs between turns; its output is delivered with the next prompt."""

    TASK_NOTIFICATION = "task-notification"
    """A notice of the runtime, mostly that a command or a sub-agent has ended."""

    ORPHANED_PERMISSION = "orphaned-permission"
    """An answer to a request that no longer exists. Nothing runs because of it; the agent is notified."""


class CommandPriority(IntEnum):
    """The priority of a source."""

    NOW = 0
    NEXT = 1
    LATER = 2


class SourceOrder(Struct, frozen=True):
    """The mode and priority of one source."""

    mode: CommandMode
    priority: CommandPriority


SOURCES: Mapping[str, SourceOrder] = {
    "user": SourceOrder(CommandMode.PROMPT, CommandPriority.NOW),
    "shell": SourceOrder(CommandMode.BASH, CommandPriority.NOW),
    "shutdown": SourceOrder(CommandMode.PROMPT, CommandPriority.NOW),
    "lead": SourceOrder(CommandMode.PROMPT, CommandPriority.NEXT),
    "peer": SourceOrder(CommandMode.PROMPT, CommandPriority.NEXT),
    "permission": SourceOrder(CommandMode.ORPHANED_PERMISSION, CommandPriority.NEXT),
    "notice": SourceOrder(CommandMode.TASK_NOTIFICATION, CommandPriority.LATER),
    "task": SourceOrder(CommandMode.PROMPT, CommandPriority.LATER),
}
"""Sources in delivery order: `now` before `next` before `later`, and in this order among equal priorities.

A `notice` (a job or a sub-agent has ended) comes after texts. A free `task` is claimed when nothing else waits.
"""

_RANK = {source: (row.priority, place) for place, (source, row) in enumerate(SOURCES.items())}


def source_rank(source: str) -> tuple[int, int]:
    """Return the sort key of a source. The lowest key is delivered first."""
    return _RANK[source]


class QueuedCommand(Struct, frozen=True):
    """One queued input. The transcript stores `id`, so it is delivered once. `text` is a shell command."""

    source: str
    id: str
    blocks: tuple[Block, ...] = ()
    text: str = ""

    @property
    def mode(self) -> CommandMode:
        """The mode of its source."""
        return SOURCES[self.source].mode

    @property
    def priority(self) -> CommandPriority:
        """The priority of its source."""
        return SOURCES[self.source].priority


class InputQueue(Struct):
    """The input that waits for one agent. Entries of one source are delivered first in, first out."""

    _waiting: list[QueuedCommand] = field(default_factory=list[QueuedCommand])

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, source: str, blocks: Sequence[Block], id: str) -> None:
        """Queue a text or blocks for the agent."""
        self._waiting.append(QueuedCommand(source, id, tuple(blocks)))

    def put_notice(self, tags: RuntimeTags, notice: str | TaskEnd, key: str = "") -> None:
        """Queue the end of a command or a sub-agent, or another notice. Its id in the transcript is `notice:<key>`."""
        self.put("notice", (text_block(tags.notice(notice)),), f"notice:{key or message_id()}")

    def put_late_answer(self, tags: RuntimeTags, text: str) -> None:
        """Queue an answer to a request that no longer exists. It is delivered before notices."""
        self.put("permission", (tags.note(escape_tags(text)),), f"notice:{message_id()}")

    def put_shell_command(self, command: str) -> None:
        """Queue a shell command of the user."""
        self._waiting.append(QueuedCommand("shell", f"shell:{message_id()}", text=command))

    def texts_in_order(self) -> list[QueuedCommand]:
        """Return the queued input that is to be delivered, in order."""
        return sorted(
            (one for one in self._waiting if one.mode is not CommandMode.BASH), key=lambda one: source_rank(one.source)
        )

    def next_shell_command(self) -> QueuedCommand | None:
        """Return the oldest queued shell command."""
        return next((one for one in self._waiting if one.mode is CommandMode.BASH), None)

    def has(self, id: str) -> bool:
        """Return True when input with this id is queued."""
        return any(one.id == id for one in self._waiting)

    def remove(self, commands: Iterable[QueuedCommand]) -> None:
        """Remove commands that the transcript has, or that have run."""
        removed_ids = {one.id for one in commands}
        self._waiting = [one for one in self._waiting if one.id not in removed_ids]

    def withdraw(self, id: str) -> bool:
        """Withdraw input that is not delivered yet. Return True when it was queued."""
        found = self.has(id)
        self._waiting = [one for one in self._waiting if one.id != id]
        return found


def to_user_message(commands: Sequence[QueuedCommand]) -> UserMessage:
    """Return the commands as one user message."""
    return UserMessage(tuple(block for one in commands for block in one.blocks), tuple(one.id for one in commands))
