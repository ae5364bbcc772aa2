"""Prefixes: built once for all agents with equal parts, stored by content hash, sent byte for byte.

A resumed conversation gets the bytes that it started with, also from a newer version of this program. Depends on
`models.model.Prefix` and `storage`. Format: docs/reference/formats/prefix.md.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from teamwright.agent.agent import Agent
from teamwright.agent.agent_type import LEAD_ONLY
from teamwright.agent.conversation import Conversation
from teamwright.agent.fork_origin import read_conversation
from teamwright.agent.tool import AnyTool
from teamwright.agent.tool_schema import tool_schema
from teamwright.agent.toolbox import offered_tools
from teamwright.agent.transcript import set_aside_lost_lines
from teamwright.models.effort import Effort
from teamwright.models.model import Model, ModelCard, Prefix
from teamwright.models.model_settings import ModelSettings
from teamwright.models.prefix_builder import SharedPrefix, build_prefix
from teamwright.protocol.errors import StorageError
from teamwright.protocol.messages import Block, encode
from teamwright.storage.atomic_write import write_new
from teamwright.storage.jsonl import Journal


def switch_prefix(agent: Agent, why: str, model: Model | None = None, other: Prefix | None = None) -> bool:
    """Switch the agent to the prefix that a new agent with that model would get. Return True when it differs.

    `other` is the prefix of an agent that has no prefix of a new agent; None: it keeps its own. `why` (`model`,
    `reload`) goes into the transcript. Raises StorageError.
    """
    compaction, conversation = agent.compaction, agent.conversation
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
    compaction.measured_context, compaction.retry_at = (0, 0), 0
    return True


def change_effort(agent: Agent, effort: Effort | None) -> None:
    """Let the agent think with this effort from its next model call on. Raises StorageError."""
    if effort != agent.effort:
        agent.effort = effort
        switch_prefix(agent, "effort")


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
        key = _key(directory, model, system, offered)
        found = self._prefixes.get(key)
        if found is not None:
            return found[0]
        shared, schemas = shared_parts(system, offered), [tool_schema(tool) for tool in offered]
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


def _key(directory: Path, birth: PrefixModel, system: Sequence[Block], tools: Sequence[AnyTool]) -> _Key:
    texts = tuple([tuple(block.items()) for block in system])
    return directory, birth.card, id(birth.settings), birth.effort, texts, tuple([_tool_key(tool) for tool in tools])


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
