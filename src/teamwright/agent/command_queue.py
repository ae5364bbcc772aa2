"""The command queue: what waits to be told to an agent, in the one order in which everything wakes.

`SOURCES` is the whole order, of mail too: who wakes an agent first, and in which mode that is taken. Every agent has
a queue of its own, drained between turns and between rounds, with or without a screen. Knows blocks; knows no agent,
no inbox and no tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import IntEnum, StrEnum

from teamwright.agent.conversation import UserMessage
from teamwright.protocol.ids import message_id
from teamwright.protocol.message_xml import RuntimeTags, escape_tags
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.values import dataclass


class CommandMode(StrEnum):
    """How a command is taken."""

    PROMPT = "prompt"
    """Words: told as they are."""

    BASH = "bash"
    """A person's own shell command: run between turns; what it printed goes along with the next words."""

    TASK_NOTIFICATION = "task-notification"
    """What the runtime has to say: a job or a sub-agent has ended."""

    ORPHANED_PERMISSION = "orphaned-permission"
    """An answer to a request that is gone: nothing is run because of it, the agent is told."""


class CommandPriority(IntEnum):
    """Who goes first."""

    NOW = 0
    NEXT = 1
    LATER = 2


@dataclass(frozen=True, slots=True)
class SourceOrder:
    """One row of the order."""

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
"""Who is heard first, now before next before later, and in this order among equals. What the runtime says (`notice`: a
job or a sub-agent has ended) never goes before words; a free `task` is looked for when nothing else waits."""

_RANK = {source: (row.priority, place) for place, (source, row) in enumerate(SOURCES.items())}


def source_rank(source: str) -> tuple[int, int]:
    """Where a source stands in the order; the lowest goes first."""
    return _RANK[source]


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """One thing that waits. `id` is what the transcript will hold: it is told once. `text` is a shell command's."""

    source: str
    id: str
    blocks: tuple[Block, ...] = ()
    text: str = ""

    @property
    def mode(self) -> CommandMode:
        """How it is taken."""
        return SOURCES[self.source].mode

    @property
    def priority(self) -> CommandPriority:
        """Before whom it goes."""
        return SOURCES[self.source].priority


@dataclass(slots=True)
class CommandQueue:
    """What waits for one agent. First in, first out among those of one source."""

    _waiting: list[QueuedCommand] = field(default_factory=list[QueuedCommand])

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, source: str, blocks: Sequence[Block], id: str) -> None:
        """Something to tell."""
        self._waiting.append(QueuedCommand(source, id, tuple(blocks)))

    def put_notice(self, tags: RuntimeTags, text: str, key: str = "") -> None:
        """The end of a job or a sub-agent; the transcript will have it as `notice:<key>`."""
        self.put("notice", (text_block(tags.notification(text)),), f"notice:{key or message_id()}")

    def put_late_answer(self, tags: RuntimeTags, text: str) -> None:
        """An answer to a request that is gone: told before notices."""
        self.put("permission", (tags.note(escape_tags(text)),), f"notice:{message_id()}")

    def put_shell_command(self, command: str) -> None:
        """A person's shell command."""
        self._waiting.append(QueuedCommand("shell", f"shell:{message_id()}", text=command))

    def texts_in_order(self) -> list[QueuedCommand]:
        """What waits to be told, in order."""
        return sorted(
            (one for one in self._waiting if one.mode is not CommandMode.BASH), key=lambda one: source_rank(one.source)
        )

    def next_shell_command(self) -> QueuedCommand | None:
        """The oldest shell command that waits."""
        return next((one for one in self._waiting if one.mode is CommandMode.BASH), None)

    def has(self, id: str) -> bool:
        """Whether something of that id waits."""
        return any(one.id == id for one in self._waiting)

    def remove(self, commands: Iterable[QueuedCommand]) -> None:
        """The transcript has these, or they were run: they wait no longer."""
        gone = {one.id for one in commands}
        self._waiting = [one for one in self._waiting if one.id not in gone]

    def withdraw(self, id: str) -> bool:
        """Take back what nobody was told yet. Whether it was there."""
        found = self.has(id)
        self._waiting = [one for one in self._waiting if one.id != id]
        return found


def to_user_message(commands: Sequence[QueuedCommand]) -> UserMessage:
    """Commands as one user line."""
    return UserMessage(tuple(block for one in commands for block in one.blocks), tuple(one.id for one in commands))
