"""Prompts of MCP servers as commands of a person: `/server:prompt` and `/mcp__server__prompt`.

A prompt's text comes from the server; a person calls it, so the lead receives it as the person's prompt. Depends on the
servers of the session.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from teamwright.agent.tool import ToolContext
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import LEAD, nearest
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.time_limit import time_limit
from teamwright.session.session import Session

if TYPE_CHECKING:
    from teamwright.mcp.listing_store import ServedPrompt
    from teamwright.mcp.server import McpServer

COMPLETION_S = 2.0
"""Seconds that a server may take to complete an argument."""

_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_NAMED = re.compile(r"([A-Za-z0-9_.-]+)=(.*)", re.DOTALL)


class ServerPrompt(Struct, frozen=True):
    """A prompt with its server."""

    server: McpServer
    prompt: ServedPrompt

    @property
    def name(self) -> str:
        """The name of its command, without the slash."""
        return f"{self.server.config.key}:{_word(self.prompt.name)}"

    @property
    def hint(self) -> str:
        """The arguments, optional ones in brackets."""
        return " ".join(one.name if one.required else f"[{one.name}]" for one in self.prompt.arguments)


def _word(name: str) -> str:
    return _STRANGE.sub("_", name)


def list_server_prompts(session: Session) -> list[ServerPrompt]:
    """Return the known prompts of the session's servers, by name. No server is started."""
    serving = session.agent_factory.toolset.serving
    if not serving.configs:
        return []
    found = [
        ServerPrompt(server, prompt)
        for server in serving.servers.shared
        if server.listing is not None
        for prompt in server.listing.prompts
    ]
    return sorted(found, key=lambda one: one.name)


def prompt_aliases(session: Session) -> list[str]:
    """Return the names of the known prompts in their longer form, with the slash."""
    return [f"/mcp__{one.name.replace(':', '__', 1)}" for one in list_server_prompts(session)]


def is_server_prompt(session: Session, name: str) -> bool:
    """Return True when a command's name begins with the name of a server of the session."""
    serving = session.agent_factory.toolset.serving
    key = _split(name)[0]
    return bool(key) and any(config.key == key for config in serving.configs)


async def find_server_prompt(session: Session, name: str) -> ServerPrompt:
    """Return the prompt of a command's name, after a start of its server if its prompts are unknown.

    Raises UsageError for an unknown prompt and for a server that does not start.
    """
    from teamwright.mcp.json_rpc import McpServerError

    key, prompt_name = _split(name)
    serving = session.agent_factory.toolset.serving
    server = serving.servers.find(key)
    if server is None:
        raise UsageError("usage", f"there is no MCP server {key[:60]!r}", note="nothing was sent")
    if server.listing is None:
        try:
            await server.connect()
        except McpServerError as problem:
            raise _failed(server, problem) from None
    found = [ServerPrompt(server, prompt) for prompt in (server.listing.prompts if server.listing else ())]
    for one in found:
        if prompt_name in {_word(one.prompt.name), one.prompt.name}:
            return one
    names = [one.name for one in found]
    close = nearest(f"{key}:{prompt_name}", names)
    do = [f"did you mean /{close}?"] if close else [f"/{name}" for name in names[:10]]
    raise UsageError("usage", f"the MCP server {server.name!r} has no prompt {prompt_name[:60]!r}", do=do)


def _split(name: str) -> tuple[str, str]:
    """Return server and prompt of a command's name; empty texts for other commands."""
    plain = name.removeprefix("/")
    if plain.startswith("mcp__"):
        key, _, prompt = plain.removeprefix("mcp__").partition("__")
    else:
        key, _, prompt = plain.partition(":")
    return (key, prompt) if key and prompt else ("", "")


async def prompt_blocks(session: Session, called: ServerPrompt, arguments: str) -> list[Block]:
    """Return the messages of a prompt as blocks of a user's prompt. Raises UsageError; then nothing was sent."""
    from teamwright.mcp.json_rpc import McpServerError
    from teamwright.tools.mcp_tool import to_tool_result

    values = parse_arguments(called, arguments)
    try:
        result = await called.server.get_prompt(called.prompt.name, values)
    except McpServerError as problem:
        raise _failed(called.server, problem) from None
    ctx = ToolContext(LEAD, session.lead.agent.toolbox.workplace)
    blocks: list[Block] = []
    messages = result.get("messages")
    for message in cast("list[object]", messages) if isinstance(messages, list) else []:
        fields = cast("Mapping[str, Any]", message) if isinstance(message, dict) else dict[str, Any]()
        content = fields.get("content")
        result_content = to_tool_result({"content": content if isinstance(content, list) else [content]}, ctx).content
        parts = [text_block(result_content)] if isinstance(result_content, str) else list(result_content)
        if fields.get("role") == "assistant" and parts and parts[0]["type"] == "text":
            parts[0] = text_block(f"The assistant answers:\n{parts[0]['text']}")
        blocks += [part for part in parts if part["type"] != "text" or str(part["text"]).strip()]
    if not blocks:
        what = f"the prompt {called.prompt.name!r} of the MCP server {called.server.name!r} is empty"
        raise UsageError("usage", what, note="nothing was sent")
    return blocks


def parse_arguments(called: ServerPrompt, text: str) -> dict[str, str]:
    """Return the arguments by name: `name=value`, else in their order; the last takes the rest of the line.

    Raises UsageError for a missing or an excess argument.
    """
    names = [one.name for one in called.prompt.arguments]
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    values: dict[str, str] = {}
    rest: list[str] = []
    for word in words:
        named = _NAMED.fullmatch(word)
        if named is not None and named[1] in names:
            values[named[1]] = named[2]
        else:
            rest.append(word)
    open_names = [name for name in names if name not in values]
    if len(rest) > len(open_names) and open_names:
        rest = [*rest[: len(open_names) - 1], " ".join(rest[len(open_names) - 1 :])]
    values |= dict(zip(open_names, rest, strict=False))
    missing = [one.name for one in called.prompt.arguments if one.required and one.name not in values]
    if missing or (rest and not open_names):
        why = f"needs {', '.join(missing)}" if missing else "takes no more arguments"
        raise UsageError(
            "usage", f"/{called.name} {why}", do=[f"/{called.name} {called.hint}".strip()], note="nothing was sent"
        )
    return values


async def complete_argument(session: Session, name: str, words: list[str]) -> list[str]:
    """Return values for the last of these words, an argument of that command; none when the server names none.

    Only a server that runs is asked.
    """
    from teamwright.mcp.json_rpc import McpServerError

    called = next((one for one in list_server_prompts(session) if one.name == name.removeprefix("/")), None)
    if called is None or called.server.state != "running" or not 0 < len(words) <= len(called.prompt.arguments):
        return []
    argument = called.prompt.arguments[len(words) - 1].name
    try:
        async with time_limit(COMPLETION_S):
            return await called.server.complete(called.prompt.name, argument, words[-1])
    except (McpServerError, TimeoutError):
        return []


def _failed(server: McpServer, problem: Exception) -> UsageError:
    what = server.config.mask_secrets(str(problem))
    return UsageError("usage", f'the MCP server "{server.name}" {what}', note="nothing was sent")
