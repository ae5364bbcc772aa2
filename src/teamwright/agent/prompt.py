"""The system prompt of each agent type, the prefix that it becomes with the model and the tools, and the session note.

All agents of a type have the same prompt in all sessions, so that a service reads it once. What differs (the key of the
runtime's tags, name, date, directory, instructions, memory) is in the session note at the beginning of a conversation.
A prefix is stored by content hash and sent byte for byte: a resumed conversation gets the bytes that it started with,
also from a newer version of this program. Format: docs/reference/formats/prefix.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct, field

from teamwright.agent.agent_type import LEAD_ONLY, AgentType, load_prompt
from teamwright.agent.conversation import Conversation
from teamwright.agent.fork_origin import read_conversation
from teamwright.agent.instructions import Instruction
from teamwright.agent.tool import AnyTool, tool_schema
from teamwright.agent.toolbox import offered_tools
from teamwright.agent.transcript import set_aside_lost_lines
from teamwright.models.effort import Effort
from teamwright.models.model import Model, ModelCard, Prefix
from teamwright.models.model_settings import ModelSettings
from teamwright.models.request_prefix import SharedPrefix, build_prefix
from teamwright.protocol.errors import StorageError
from teamwright.protocol.messages import Block, encode, text_block
from teamwright.protocol.runtime_tags import escape_tags
from teamwright.storage.files import write_new
from teamwright.storage.json_lines import Journal

if TYPE_CHECKING:
    from teamwright.agent.agent import Agent


COMPACT_WINDOW = 16_384
"""The largest window in tokens for which agents get the compact prompt if no setting names one."""


def gets_compact_prompt(kind: AgentType | None, settings: ModelSettings, card: ModelCard) -> bool:
    """Return True when an agent of this type and model gets the compact prompt: by type, settings, window."""
    size = (kind.prompt_size if kind is not None else None) or settings.prompt
    return card.context_tokens <= COMPACT_WINDOW if size is None else size == "compact"


def has_compact_prompt(prefix: Prefix) -> bool:
    """Return True when the system prompt of this prefix is the compact one."""
    return encode(load_prompt("limits", compact=True))[1:-1] in prefix.head


def lead_prompt(teams: bool, appended: str = "", base: str = "", *, compact: bool = False) -> list[Block]:
    """Return the parts of all agents; then the lead's part and what the user appended.

    `base` replaces the base text.
    """
    return _compose(base, (load_prompt("lead", compact=compact) if teams else "", appended), compact=compact)


def teammate_prompt(definition: AgentType, *, compact: bool = False) -> list[Block]:
    """Return the parts of all agents; then the team part and the definition's body under its own heading."""
    body = f"# Your role: {definition.name}\n{definition.prompt}" if definition.prompt else ""
    return _compose("", (load_prompt("member", compact=compact), body), compact=compact)


def subagent_prompt(definition: AgentType, *, compact: bool = False) -> list[Block]:
    """Return the parts of all agents, with the definition's body as the base; then the sub-agent's part."""
    return _compose(definition.prompt, (load_prompt("subagent", compact=compact),), compact=compact)


NOTE_HEAD = "# This session"
"""The first line of a session note."""

_REPLACES = "This replaces the notice of the same name before."

OLD_NOTE_HEAD = b"# Where you are\\nDirectory: "
"""In the system prompt of a conversation that an earlier version began: it says what a session note says."""


class SessionNote(Struct, frozen=True):
    """The facts that an agent gets with its first message, because they differ between sessions or agents.

    `identity` says who a teammate is; `memory` is the memory of its agent type.
    """

    environment: PromptEnvironment
    instructions: Sequence[Instruction] = ()
    identity: str = ""
    memory: str = ""

    def text(self) -> str:
        """Return the note, with today's date."""
        parts = (self.environment.text(), self.memory, instructions_part(self.instructions), self.identity)
        return escape_tags("\n\n".join((NOTE_HEAD, *(part for part in parts if part))))


def teammate_identity(name: str, team: str) -> str:
    """Return the part of a session note that tells a teammate who it is."""
    return f'# You are {name}, a teammate\nYour id is {name}@{team}, your team is "{team}".'


def due_session_note(agent: Agent) -> tuple[Block, ...]:
    """Return the session note for the next message of the agent; nothing when its conversation has one.

    After a reload it is given again unless the conversation has the same text.
    """
    conversation = agent.conversation
    if not agent.lacks_session_note or not (text := agent.session_note()):
        return ()
    if not agent.is_session_note_changed:
        known = OLD_NOTE_HEAD in conversation.prefix.head or received_session_notes(agent)
        return () if known else (agent.tags.note(text),)
    same = encode(agent.tags.reminder(text))[1:-1]
    return () if any(same in item for item in conversation.items) else (agent.tags.note(f"{text}\n\n{_REPLACES}"),)


def restated_session_note(agent: Agent) -> list[Block]:
    """Return the session note for the first message of a compacted or cleared conversation.

    A fork repeats the one of its caller.
    """
    text = agent.session_note()
    return [agent.tags.note(text)] if text else received_session_notes(agent)


def received_session_notes(agent: Agent) -> list[Block]:
    """Return the first session note in the agent's conversation; none before its first message."""
    mark = _note_mark(agent)
    item = next((item for item in agent.conversation.items if mark in item), b'{"content":[]}')
    blocks = cast("list[Block]", json.loads(item)["content"])
    return [block for block in blocks if mark in encode(block.get("text", ""))]


def without_session_notes(agent: Agent, items: Iterable[bytes]) -> list[bytes]:
    """Return encoded messages of the agent without session notes, for a summary."""
    mark = _note_mark(agent)
    return [_without_marked(item, mark) if mark in item else item for item in items]


def _without_marked(item: bytes, mark: bytes) -> bytes:
    message = cast("dict[str, Any]", json.loads(item))
    blocks = cast("list[Block]", message["content"])
    return encode({**message, "content": [block for block in blocks if mark not in encode(block.get("text", ""))]})


def _note_mark(agent: Agent) -> bytes:
    """Return the beginning of a session note in an encoded message. No other text can know its key."""
    head, _, _ = encode(agent.tags.reminder(NOTE_HEAD)).partition(b"\\n</")
    return head[1:]


_NO_TRAILER = "Add no trailer and no advertisement to commit messages."


class PromptEnvironment(Struct, frozen=True):
    """The environment in the session note: directory, allowed directories, branch (None outside git), platform."""

    cwd: Path
    roots: tuple[Path, ...]
    branch: str | None
    platform: str
    headless: bool = False
    git_trailer: str = ""
    """The last line of each commit message, by the setting of that name; empty: commits have no trailer."""
    notice: str = ""
    """Facts about the agent's worktree; empty for an agent without one."""

    def text(self) -> str:
        """Return the environment part, with today's date."""
        return _environment_text(self, date.today())

    def text_on(self, today: date) -> str:
        """Return the environment part for that day."""
        others = ", ".join(str(root) for root in self.roots if root != self.cwd)
        git = f"a git repository, branch {self.branch}" if self.branch is not None else "not a git repository"
        lines = [
            "# Where you are",
            f"Directory: {self.cwd} ({git})",
            *([f"You may also use: {others}"] if others else []),
            f"Platform: {self.platform}. Date: {today.isoformat()}.",
        ]
        if self.branch is not None:
            line = " ".join(self.git_trailer.split())
            lines.append(f"End each commit message with this line: {line}" if line else _NO_TRAILER)
        if self.notice:
            lines.append(self.notice)
        if self.headless:
            lines.append("No user is present to answer questions.")
        return "\n".join(lines)


@lru_cache(maxsize=8)
def _environment_text(place: PromptEnvironment, today: date) -> str:
    return place.text_on(today)


def _compose(base: str, own: Sequence[str], *, compact: bool) -> list[Block]:
    """Return the system prompt as blocks: the parts that all agents have, then those of the type.

    Empty parts are left out. Services cache equal beginnings, so a role is never in the first block.
    """
    rules = (load_prompt("limits", compact=True),) if compact else (load_prompt("limits"), load_prompt("tags"))
    shared = _join_parts((base or load_prompt("base", compact=compact), *rules))
    return [text_block(text) for text in (shared, _join_parts(tuple(own))) if text]


@lru_cache(maxsize=32)
def _join_parts(parts: tuple[str, ...]) -> str:
    """Join the parts; the result is the same for all agents of a type."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def instructions_part(instructions: Sequence[Instruction]) -> str:
    """Return the project's and the user's instructions, each with its file."""
    if not instructions:
        return ""
    parts = ["# Instructions of the user and the project", "Follow them where they concern your job."]
    parts += [f"From {one.path}:\n{one.text.strip()}" for one in instructions]
    return "\n\n".join(parts)


SCHEMA = 1


MAX_CACHED = 16
"""The number of cached prefixes. An older one is built again."""


_Key: TypeAlias = tuple[Any, ...]


class PrefixModel(Struct, frozen=True):
    """The inputs of a prefix besides its texts: a model, the user's model settings, and the effort."""

    card: ModelCard
    settings: ModelSettings
    effort: Effort | None = None


class PrefixCache(Struct):
    """The prefixes of a session's agents."""

    _prefixes: dict[_Key, tuple[Prefix, tuple[object, ...]]] = field(
        default_factory=dict["_Key", "tuple[Prefix, tuple[object, ...]]"]
    )

    def prefix(self, directory: Path, model: PrefixModel, system: Sequence[Block], tools: Sequence[AnyTool]) -> Prefix:
        """Return the prefix of an agent with this system prompt and these tools, stored in the directory.

        Raises StorageError.
        """
        offered = offered_tools(tools)
        texts = tuple([tuple(block.items()) for block in system])
        key = (
            directory,
            model.card,
            id(model.settings),
            model.effort,
            texts,
            tuple([_tool_key(tool) for tool in offered]),
        )
        found = self._prefixes.get(key)
        if found is not None:
            return found[0]
        shared = shared_parts(system, offered)
        schemas = [tool_schema(tool) for tool in offered]
        prefix = build_prefix(model.card, model.settings, system, schemas, effort=model.effort, shared=shared)
        store_prefix(directory, prefix)
        if len(self._prefixes) >= MAX_CACHED:
            del self._prefixes[next(iter(self._prefixes))]
        # The key has identities, so these objects must stay alive; another object could get the same identity.
        self._prefixes[key] = prefix, (model, *(tool.schema for tool in tools))
        return prefix


def shared_parts(system: Sequence[Block], offered: Sequence[AnyTool]) -> SharedPrefix:
    """Return the parts of a prefix that other agents share: the first system block, and the tools of all agents."""
    names = [tool.name for tool in offered]
    return SharedPrefix(
        min(1, len(system)) or None, next((n for n, name in enumerate(names) if name in LEAD_ONLY), None)
    )


def _tool_key(tool: AnyTool) -> _Key:
    schema = tool.input_type if tool.schema is None else id(tool.schema)
    return tool.name, tool.description, schema, tuple(tool.hidden_parameters)


def store_prefix(directory: Path, prefix: Prefix) -> None:
    """Store the prefix as `<digest>.json` in the directory. An existing file is kept."""
    body = {"v": SCHEMA, "model": prefix.model, "betas": list(prefix.betas), "head": prefix.head.decode()}
    path = directory / f"{prefix.digest}.json"
    if not path.exists():
        write_new(path, encode(body))


def load_conversation(path: Path, prefixes: Path) -> Conversation:
    """Load the conversation in this transcript, with the prefix of its first line or its last compaction.

    Damaged lines are set aside first and named by `lost_lines`. Raises StorageError.
    """
    lost = set_aside_lost_lines(path)
    history = read_conversation(path)
    prefix = load_prefix(prefixes, history.prefix)
    conversation = Conversation.from_history(path, prefix, Journal.open(path), history)
    conversation.lost_lines = lost
    return conversation


def load_prefix(directory: Path, digest: str) -> Prefix:
    """Load the prefix with that digest. Raises StorageError when it is gone, damaged, or has another digest."""
    path = directory / f"{digest}.json"
    try:
        body = cast("dict[str, Any]", json.loads(path.read_bytes()))
        prefix = Prefix.from_bytes(body["model"], body["head"].encode(), body["betas"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise StorageError("damaged-file", f"the prefix {path} cannot be read") from problem
    if prefix.digest != digest:
        raise StorageError("damaged-file", f"the prefix {path} is not what its name says")
    return prefix


def switch_prefix(agent: Agent, why: str, model: Model | None = None, other: Prefix | None = None) -> bool:
    """Switch the agent to the prefix that a new agent with that model would get. Return True when it differs.

    `other` is the prefix of an agent that has no prefix of a new agent; None: it keeps its own. `why` (`model`,
    `reload`) goes into the transcript. Raises StorageError.
    """
    compaction = agent.compaction
    conversation = agent.conversation
    before = agent.model
    if model is not None:
        agent.model = model
        agent.toolbox.workplace.accepts_images = model.card.images
    try:
        current = other or conversation.prefix
        prefix = current if compaction.make_prefix is None else compaction.make_prefix(agent)
        if prefix.digest == conversation.prefix.digest:
            return False
        conversation.switch_prefix(prefix, {"why": why, "model": agent.model.card.name})
    except BaseException:
        agent.model = before
        raise
    compaction.measured_context = (0, 0)
    compaction.retry_at = 0
    return True


def change_effort(agent: Agent, effort: Effort | None) -> None:
    """Let the agent think with this effort from its next model call on. Raises StorageError."""
    if effort != agent.effort:
        agent.effort = effort
        switch_prefix(agent, "effort")
