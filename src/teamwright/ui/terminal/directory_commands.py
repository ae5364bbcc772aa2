"""Slash commands about files and directories, and those that are commands of the program too.

The former are instructions, hooks, MCP servers, more directories, an export. The latter, as `/doctor` for `teamwright
doctor`, run in a process of their own, in the session's directory and with its home. Each returns lines.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from teamwright.config.plugins import PluginSource
from teamwright.processes.own_python import own_python_argv
from teamwright.processes.program_environment import own_variables
from teamwright.protocol.errors import UsageError
from teamwright.session.control.person_actions import allow_directory
from teamwright.session.mcp_state_file import read_state
from teamwright.session.platform_check import mask_secrets
from teamwright.session.session import Session
from teamwright.storage.atomic_write import write_atomic
from teamwright.ui.display_text import clean, one_line
from teamwright.ui.terminal.conversation_view import exchanges
from teamwright.views.assets import Asset, AssetQuery, display_path
from teamwright.views.conversation import ConversationReader
from teamwright.views.directory_assets import list_assets

MAX_EXPORTED = 100_000
"""The number of messages that an export contains, the newest ones."""


async def hooks(session: Session, _rest: str) -> list[str]:
    """Return the hooks with their files and states."""
    rows = await _asset_rows(session, "hooks")
    return rows or ["  no hooks: docs/reference/hooks.md describes them"]


async def memory(session: Session, _rest: str) -> list[str]:
    """Return the instruction files that the session read."""
    rows = await _asset_rows(session, "instructions")
    return [*(rows or ["  no instruction files"]), "  #NOTE stores a note in one of them; /reload reads them again"]


async def mcp(session: Session, _rest: str) -> list[str]:
    """Return the MCP servers with their states, and entries that are not used."""
    directory = session.agent_factory.home.session(session.agent_factory.cwd, session.id)
    lines: list[str] = []
    for server in await asyncio.to_thread(read_state, directory):
        tools = "" if server.tools is None else f", {server.tools} tools"
        lines.append(f"  {clean(server.name):<20} {clean(server.state)}{tools}")
        lines += [f"    {one_line(server.problem)}"] if server.problem else []
    rest = await _asset_rows(session, "MCP servers", unused_only=bool(lines))
    return [*lines, *rest] or ["  no MCP servers: docs/reference/mcp.md describes them"]


async def add_directory(session: Session, rest: str) -> list[str]:
    """Add a directory in which all agents of the session may work. Raises UsageError when it is no directory."""
    if not rest.strip():
        raise UsageError("usage", "/add-dir PATH: the path is missing", note="nothing was changed")
    path = Path(os.path.realpath(session.agent_factory.work_directory / os.path.expanduser(rest.strip())))
    if not path.is_dir():
        raise UsageError(
            "usage", f"'{rest.strip()}' is not a directory", looked_at=[("path", str(path))], note="nothing was changed"
        )
    await allow_directory(session, path)
    return [f"  agents may also work in {clean(str(path))} until this session ends"]


async def export(session: Session, rest: str) -> list[str]:
    """Write the lead's conversation as Markdown. An existing file is not replaced. Raises UsageError, StorageError."""
    cwd = session.agent_factory.work_directory
    path = Path(os.path.normpath(cwd / os.path.expanduser(rest.strip() or f"conversation-{session.id[:8]}.md")))
    if path.exists():
        raise UsageError("usage", f"'{display_path(str(path), cwd)}' exists", do=["/export FILE with another name"])
    conversation = session.lead.agent.conversation.path
    messages = await asyncio.to_thread(ConversationReader(conversation, live=True).recent, MAX_EXPORTED)
    texts = exchanges(messages)
    parts = [f"# Session {session.id[:8]}\n", *(f"## {speaker}\n\n{words}\n" for speaker, words in texts)]
    text = mask_secrets("\n".join(parts), _environment(session))
    await asyncio.to_thread(write_atomic, path, text.encode("utf-8", "replace"))
    return [f"  {len(texts)} messages are in {clean(display_path(str(path), cwd))}"]


async def _asset_rows(session: Session, group: str, *, unused_only: bool = False) -> list[str]:
    options = session.options
    query = AssetQuery(
        session.agent_factory.home,
        session.agent_factory.cwd,
        _environment(session),
        options.settings_file,
        plugins=tuple(map(PluginSource, options.plugin_dirs)),
    )
    found = await asyncio.to_thread(list_assets, query)
    chosen = [one for one in found.assets if one.group == group and not (unused_only and one.state == "used")]
    return _rows(chosen, session.agent_factory.cwd)


def _environment(session: Session) -> Mapping[str, str]:
    return os.environ if session.options.env is None else session.options.env


def _rows(assets: Sequence[Asset], cwd: Path) -> list[str]:
    lines: list[str] = []
    for asset in assets:
        where = display_path(asset.file, cwd) if asset.file else ""
        lines.append(f"  {asset.state:<12} {one_line(asset.name)}  {clean(where)}".rstrip())
        lines += [f"    {one_line(asset.why)}"] if asset.why else []
    return lines


MAX_LINES = 200
"""The number of lines that are shown; the rest is counted."""

PROGRAM_COMMANDS = {
    "/agents": "agents",
    "/config": "config",
    "/doctor": "doctor",
    "/permissions": "permissions",
}
"""The command of the program for each slash command."""

_DEFAULTS = {"config": ("list",)}
"""The arguments of a command that was typed without any."""


def _session_flags(session: Session, words: Sequence[str]) -> list[str]:
    """Return the flags with which `doctor` examines this session: its model, and the terminal that it has."""
    model = [] if "--model" in words else ["--model", session.lead.agent.model.card.name]
    return [*model, "--at-terminal"]


async def program_lines(session: Session, name: str, rest: str) -> list[str]:
    """Run the command of the program with these arguments and return its output. Raises UsageError."""
    command = PROGRAM_COMMANDS[name]
    try:
        words = shlex.split(rest)
    except ValueError:
        raise UsageError("usage", f"{name}: a quote is not closed", note="nothing was run") from None
    home = ("--home", session.options.home) if session.options.home else ()
    if command == "doctor":
        words += _session_flags(session, words)
    argv = (*own_python_argv("teamwright"), command, *(words or _DEFAULTS.get(command, ())), *home)
    child = await asyncio.create_subprocess_exec(
        *argv,
        cwd=session.agent_factory.cwd,
        env={**own_variables(os.environ), "PAGER": "cat", "NO_COLOR": "1"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
    lines = output.decode("utf-8", "replace").rstrip("\n").split("\n")
    left = len(lines) - MAX_LINES
    more = [f"  … {left:,} more lines: teamwright {command}"] if left > 0 else []
    return [*(f"  {clean(line)}".rstrip() for line in lines[:MAX_LINES]), *more]
