"""Forks: the conversation, prefix and bounds that a fork takes over from its caller.

A fork has its caller's prefix and history, the same restrictions, and the tools that a sub-agent may run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent import Agent
from teamwright.agent.agent_type import NOT_FOR_SUBAGENTS, AgentType
from teamwright.agent.conversation import Conversation
from teamwright.agent.fork_origin import contains_fork_prompt, is_fork
from teamwright.agent.prompt_prefix import load_conversation, store_prefix
from teamwright.agent.tool import AnyTool, Workplace
from teamwright.hooks.hook_index import PERMISSION, POST_TOOL, PRE_TOOL, TOOL_FAILURE
from teamwright.models.model import Model
from teamwright.models.prefix_builder import tool_names
from teamwright.protocol.errors import CannotStart, TeamRefused, UsageError
from teamwright.protocol.messages import tool_calls
from teamwright.session.agents.policies import Inheritance
from teamwright.session.agents.toolset import Toolset
from teamwright.session.mcp_servers import is_mcp_tool_name
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.team_records.spawn_spec import SpawnSpec

_OF_CALLS = frozenset({PRE_TOOL, POST_TOOL, TOOL_FAILURE, PERMISSION})
"""Events whose hooks guard calls. The caller's hooks for starts, stops and goals do not apply to a fork."""

_CALLERS = NOT_FOR_SUBAGENTS | {"Agent"}
"""Tools that act in the name of a fork's caller, or would delegate its job, at any depth."""


def fork_definition(kind: AgentType, parent: Inheritance) -> AgentType:
    """Return the agent type of a fork: the caller's tool restrictions and hooks."""
    definition = parent.definition
    if definition is None:
        return kind
    hooks = tuple(hook for hook in definition.hooks if hook.event in _OF_CALLS)
    return replace(
        kind,
        tools=definition.tools,
        disallowed_tools=definition.disallowed_tools,
        read_only=definition.read_only,
        sandbox=definition.sandbox,
        mcp_servers=definition.mcp_servers,
        hooks=hooks,
    )


class StartingPoint(Struct, frozen=True):
    """The starting point of a sub-agent: its own conversation (`former`), or for a new fork that of `origin`.

    A new sub-agent has neither. `fork`: it is a fork, new or resumed.
    """

    fork: bool = False
    former: Conversation | None = None
    origin: Agent | None = None

    @property
    def conversation(self) -> Conversation | None:
        """The conversation from which it continues."""
        return self.former if self.origin is None else self.origin.conversation

    @property
    def is_new(self) -> bool:
        """True for a new sub-agent that continues no conversation."""
        return self.conversation is None

    @property
    def header(self) -> Mapping[str, Any] | None:
        """The first line of the transcript from which it continues."""
        return None if self.conversation is None else self.conversation.header

    async def model(self, model: Model, opened: Callable[[str], Awaitable[Model]]) -> Model:
        """Return the model: for a fork its caller's, or its earlier one, which `opened` opens by name.

        Raises TeamRefused for a new fork whose caller's model cannot be opened a second time.
        """
        talk = self.conversation
        if not self.fork or talk is None or model.card.wire == talk.prefix.model:
            return model
        name = self.origin.model.card.name if self.origin is not None else str(talk.header.get("model"))
        with suppress(CannotStart, UsageError):
            other = await opened(name)
            if other.card.wire == talk.prefix.model:
                return other
        if self.origin is None:
            return model
        what = f"a fork has the very model of its caller, and {name} cannot be opened again"
        raise TeamRefused("team-refused", what, do=["Name a subagent_type."], note="nothing was started")

    def tools(self, tools: Sequence[AnyTool], toolset: Toolset) -> list[AnyTool]:
        """Return a fork's tools, as its prefix names them; a missing tool is replaced by one that reports its
        absence.
        """
        talk = self.conversation
        if not self.fork or talk is None:
            return list(tools)
        from teamwright.tools.subagent.fork_limits import ForbiddenInFork

        named = tool_names(talk.prefix)
        have = toolset.without_subagent_skills(
            [tool for tool in tools if tool.name in named and tool.name not in _CALLERS]
        )
        known = {tool.name for tool in have}
        return [*have, *(ForbiddenInFork(name) for name in named if name not in known and not is_mcp_tool_name(name))]


_NOTHING = StartingPoint()


def start_fork(
    origin: Agent, path: Path, about: Mapping[str, Any], workplace: Workplace, prefixes: Path
) -> Conversation:
    """Start a fork's conversation where its caller's is; files that the caller has read count as read."""
    store_prefix(prefixes, origin.conversation.prefix)
    workplace.seen_files.update(origin.toolbox.workplace.seen_files)
    return origin.conversation.fork(path, about)


async def starting_point(
    spec: SpawnSpec, run: SubagentRun, caller: Agent | None, path: Path, prefixes: Path, *, is_resumed: bool
) -> StartingPoint:
    """Return the starting point of a sub-agent; `path` is its transcript. Raises StorageError, TeamRefused."""
    if is_resumed:
        former = await asyncio.to_thread(load_conversation, path, prefixes)
        return StartingPoint(spec.fork, former)
    return StartingPoint(spec.fork, origin=_origin_of_fork(caller, run)) if spec.fork else _NOTHING


def _origin_of_fork(caller: Agent | None, run: SubagentRun) -> Agent:
    """Return the agent to fork, whose call asks for the fork. Raises TeamRefused."""
    if caller is None or all(call.id != run.call for call in tool_calls(caller.conversation.last_content())):
        what, do = "a fork begins at a call of the agent that it is made of, and there is none", "Name a subagent_type."
        raise TeamRefused("team-refused", what, do=[do], note="nothing was started")
    talk = caller.conversation
    if is_fork(talk.header) or contains_fork_prompt(talk.items):
        what, do = "a fork cannot be forked", "Do the job yourself."
        raise TeamRefused("team-refused", what, do=[do], note="nothing was started")
    return caller
