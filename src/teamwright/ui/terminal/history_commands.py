"""Slash commands about changes, files and directories, and those that are commands of the program too.

The first show and undo edits, copy the conversation into a second session, and review a team. The next list
instructions, hooks and MCP servers, add a directory, and export the conversation. The last, as `/doctor` for
`teamwright doctor`, run in a process of their own, in the session's directory and with its home. Each returns lines.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from teamwright.config.plugins import PluginSource
from teamwright.edit_history.history_location import history_of_session
from teamwright.edit_history.queries import edit_of_call, session_changes, undo_here_ahead, undo_in_session
from teamwright.edit_history.rewind import fork_session, rewind_list
from teamwright.edit_history.team_review import act_on_review, review_in_session
from teamwright.edit_history.undo import limit_of_undo
from teamwright.processes.own_python import own_python_argv
from teamwright.processes.program_environment import own_variables
from teamwright.protocol.errors import UsageError
from teamwright.session.command_start import mask_secrets
from teamwright.session.control.person_actions import allow_directory
from teamwright.session.process_state import read_servers
from teamwright.session.session import Session
from teamwright.storage.files import write_atomic
from teamwright.ui.change_text import (
    ChangeTotals,
    change_lines,
    comparison_line,
    plan_rows,
    stat_rows,
    summary_notes,
    undone_lines,
)
from teamwright.ui.display_text import clean, fold_lines, one_line, window_size
from teamwright.ui.team_review_text import key_lines, member_diff, review_lines
from teamwright.ui.terminal.conversation_view import exchanges
from teamwright.ui.terminal.styles import Paint, StyledLine, paint_lines
from teamwright.views.configuration_sources import AssetQuery, display_path
from teamwright.views.directory_configuration import list_assets
from teamwright.views.log import ConversationReader

MAX_DIFF_LINES = 1_000
"""The number of lines that /diff shows; `teamwright diff` shows all of them."""

PLAIN = Paint()

FORK_USAGE = "/fork, /fork N or /fork list"

DIFF_USAGE, UNDO_USAGE = "/diff [@NAME] [--stat] or /diff c7", "/undo [@NAME] [--except PATH] [--force]"


async def session_diff_lines(session: Session, rest: str, paint: Paint = PLAIN) -> list[str]:
    """Return the changes since the session began: all, of one member, of one call, or one line for each file."""
    arguments = _parse_arguments(rest, DIFF_USAGE, {"--stat"})
    place = history_of_session(session)
    if arguments.call:
        if arguments.member or arguments.flags:
            raise _usage_error(DIFF_USAGE)
        return _paint_lines(change_lines(edit_of_call(place, arguments.call)), paint)
    found = session_changes(place, arguments.member)
    sums = ChangeTotals()
    files = (sums.add(change) for change in found.files)
    if arguments.flags:
        lines = [f"  {clean('  '.join(part for part in row if part))}" for row in stat_rows(files)]
    else:
        every = (line for change in files for line in change_lines(change))
        lines = _paint_lines(islice(every, MAX_DIFF_LINES), paint)
        if rest_of_it := sum(1 for _ in every):
            lines.append(f"  … {rest_of_it:,} more lines: teamwright diff {session.id[:8]} | less")
    nothing = "nothing is changed" if found.against else "nothing is changed by Write, Edit or NotebookEdit"
    lines.append(f"  {clean(str(sums))}" if sums.files else f"  {nothing}")
    if found.against:
        return [f"  {clean(comparison_line(found.member, found.against))}", *lines]
    notes = [f"  {clean(line)}" for line in summary_notes(place.cwd, found.again, found.cut_off, found.damaged)]
    return [*lines, *fold_lines(notes, window_size().columns)]


AskYesNo: TypeAlias = Callable[[str], Awaitable[bool]]
"""A function that asks the person yes or no."""


async def undo_lines(session: Session, rest: str, show: Callable[[list[str]], None], ask: AskYesNo) -> list[str]:
    """Show the undo plan for the last prompt, ask for confirmation, apply it, and return one line for each file."""
    arguments = _parse_arguments(rest, UNDO_USAGE, {"--force"})
    if arguments.call:
        raise _usage_error(UNDO_USAGE)
    force = "--force" in arguments.flags
    plan = undo_here_ahead(session, arguments.member, arguments.left, force=force)
    cwd = history_of_session(session).cwd
    rows = plan_rows(plan, cwd)
    show([f"  {clean('  '.join(part for part in row if part))}" for row in rows])
    if not await ask(f"take this back? {limit_of_undo(cwd)} [y/n] "):
        return ["  nothing was changed"]
    undone = await undo_in_session(session, arguments.member, arguments.left, force=force, agreed=plan)
    return [f"  {clean(line)}" for line in undone_lines(undone, cwd)]


async def fork_lines(session: Session, rest: str) -> list[str]:
    """Copy the conversation into a new session, all of it or the part before a prompt, or list the prompts."""
    word = rest.strip()
    place = history_of_session(session)
    if word == "list":
        prompts = rewind_list(place).prompts
        return [*(f"  {one.number:>3}  {clean(one.text)}" for one in prompts), "  /fork N begins before prompt N"]
    if word and not (word.isascii() and word.isdigit()):
        raise _usage_error(FORK_USAGE)
    fork = fork_session(place, int(word) if word else None)
    before = f' before "{clean(fork.before.text)}"' if fork.before is not None else ""
    return [
        f"  session {fork.session[:8]} has this conversation{before}; files, tasks and members stay here",
        f"  go there: /resume {fork.session[:8]}",
        f"  or in another terminal: teamwright --resume {fork.session[:8]}",
    ]


async def review_team_lines(session: Session, rest: str, paint: Paint = PLAIN) -> list[str]:
    """Return the screen of the review, the diff of a member (`d NAME`), or the result of an action on its work."""
    words = rest.split(maxsplit=2)
    async with review_in_session(session) as found:
        if not words:
            keys = ["/review-team and:", *(f"  {line}" for line in key_lines()), f"  {'d NAME':<22} show the diff"]
            return [*_paint_lines(review_lines(found), paint), *(f"  {line}" for line in keys)]
        key, member, text = (*words, "", "")[:3]
        if key == "d":
            return _paint_lines(member_diff(found, member), paint)
        return [f"  {clean(await act_on_review(found, key, member, text))}"]


def _paint_lines(lines: Iterable[StyledLine], paint: Paint) -> list[str]:
    return [f"  {line}" for line in paint_lines(((style, clean(text)) for style, text in lines), paint)]


class _EditArguments(Struct, frozen=True):
    """The arguments of `/diff` or `/undo`; `left` are the paths after --except."""

    member: str = ""
    call: str = ""
    left: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()


_CALL = re.compile(r"c\d+")


def _parse_arguments(rest: str, usage: str, flags: set[str]) -> _EditArguments:
    """Return the typed arguments. Raises UsageError."""
    try:
        words = shlex.split(rest)
    except ValueError:
        raise _usage_error(usage) from None
    member = ""
    call = ""
    left = list[str]()
    found_flags = set[str]()
    while words:
        word = words.pop(0)
        if word.startswith("@") and len(word) > 1 and not member:
            member = word[1:]
        elif word in flags:
            found_flags.add(word)
        elif word == "--except" and words and usage is UNDO_USAGE:
            left.append(words.pop(0))
        elif _CALL.fullmatch(word) and not call:
            call = word
        else:
            raise _usage_error(usage)
    return _EditArguments(member, call, tuple(left), frozenset(found_flags))


def _usage_error(usage: str) -> UsageError:
    return UsageError("usage", f"it is {usage}", note="nothing was done")


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
    for server in await asyncio.to_thread(read_servers, directory):
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
    """Return the entries of a group of the directory and the person, each with its state, its file and the reason."""
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
    lines: list[str] = []
    for asset in chosen:
        where = display_path(asset.file, session.agent_factory.cwd) if asset.file else ""
        lines.append(f"  {asset.state:<12} {one_line(asset.name)}  {clean(where)}".rstrip())
        lines += [f"    {one_line(asset.why)}"] if asset.why else []
    return lines


def _environment(session: Session) -> Mapping[str, str]:
    return os.environ if session.options.env is None else session.options.env


MAX_OUTPUT_LINES = 200
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


async def program_lines(session: Session, name: str, rest: str) -> list[str]:
    """Run the command of the program with these arguments and return its output. Raises UsageError."""
    command = PROGRAM_COMMANDS[name]
    try:
        words = shlex.split(rest)
    except ValueError:
        raise UsageError("usage", f"{name}: a quote is not closed", note="nothing was run") from None
    home = ("--home", session.options.home) if session.options.home else ()
    if command == "doctor":  # it examines the model of this session, and the terminal that the session has
        model = [] if "--model" in words else ["--model", session.lead.agent.model.card.name]
        words += [*model, "--at-terminal"]
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
    left = len(lines) - MAX_OUTPUT_LINES
    more = [f"  … {left:,} more lines: teamwright {command}"] if left > 0 else []
    return [*(f"  {clean(line)}".rstrip() for line in lines[:MAX_OUTPUT_LINES]), *more]
