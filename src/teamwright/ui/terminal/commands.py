"""Commands of the terminal that show the state of the session or change it; each returns lines.

Depends on the package `session`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD_ALIAS
from teamwright.session.control.agent_actions import (
    clear_lead,
    context_view,
    models_in_use,
    reload_session,
    request_compaction,
    set_model,
)
from teamwright.session.control.person_actions import (
    backend_reasons,
    interrupt_member,
    list_foreground,
    list_jobs,
    live_members,
    members_with_accepted_edits,
    move_to_background,
    prompt_lead,
    set_pane_hidden,
    stop_member,
    stop_task,
)
from teamwright.session.server_resources import find_mentions, read_mentions
from teamwright.session.session import Session
from teamwright.session.slash_command_call import call_command, list_commands
from teamwright.ui.display_text import clean, one_line
from teamwright.ui.foreground_choice import choose_foreground, moved_lines, waiting_lines
from teamwright.ui.protocol_text import input_lines, output_lines
from teamwright.ui.terminal.command_equivalents import MAX_CUSTOM_COMMANDS
from teamwright.ui.terminal.directory_commands import (
    PROGRAM_COMMANDS,
    add_directory,
    export,
    hooks,
    mcp,
    memory,
    program_lines,
)
from teamwright.ui.terminal.event_formatter import display_name
from teamwright.ui.terminal.keys import HELP_COLUMN, key_lines
from teamwright.ui.terminal.line_parser import COMMANDS, FIXED_NAMES, CustomCommand
from teamwright.ui.terminal.permission_commands import permissions
from teamwright.ui.terminal.report_lines import (
    context_lines,
    cost_lines,
    mode_meaning_lines,
    sandbox_lines,
    task_lines,
)
from teamwright.views.cost import session_cost
from teamwright.views.live_status import sandbox_report
from teamwright.views.log import LogView, find_call


class CommandCalls(Struct):
    """Custom commands that are being prepared or that a sub-agent runs."""

    session: Session
    show: Callable[[Sequence[str]], None]
    on_error: Callable[[TeamwrightError], None]
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def is_running(self) -> bool:
        """True while a command runs."""
        return bool(self._tasks)

    def start(self, command: CustomCommand) -> None:
        """Run the command; its result is shown when it is ready."""
        self._start(call_command(self.session, command.name, command.rest), f"/{command.name}")

    def start_prompt_with_resources(self, text: str) -> bool:
        """Send a prompt that mentions resources of MCP servers, once they are read. Return False for another prompt."""
        if not find_mentions(self.session, text):
            return False
        self._start(self._send_with_resources(text), "the prompt with resources")
        return True

    async def _send_with_resources(self, text: str) -> str:
        prompt_lead(self.session, text, await read_mentions(self.session, text))
        return ""

    def _start(self, work: Coroutine[Any, Any, str], name: str) -> None:
        task = asyncio.create_task(self._run(work), name=f"command {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def cancel(self) -> None:
        """Cancel the running commands; they have sent no message to the lead."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def interrupt(self) -> None:
        """Cancel the running commands without waiting, and report it."""
        for task in self._tasks:
            task.cancel()
            self.show([f"{task.get_name().removeprefix('command ')} was ended; the lead was not notified."])

    async def _run(self, work: Coroutine[Any, Any, str]) -> None:
        try:
            answer = await work
        except TeamwrightError as problem:
            self.on_error(problem)
            return
        if answer:
            self.show([clean(line) for line in answer.split("\n")])
        elif self.session.lead.busy:
            self.show(["  the lead reads it before its next step"])


CommandHandler: TypeAlias = Callable[[Session, str], Awaitable[list[str]]]


async def _help(session: Session, _rest: str) -> list[str]:
    return [
        *(f"  {usage:<{HELP_COLUMN}} {about}" for usage, about in COMMANDS.items()),
        *_custom_command_lines(session),
        *(f"  {line}" for line in key_lines()),
    ]


def _custom_command_lines(session: Session) -> list[str]:
    found = [one for one in list_commands(session) if one.name.lower() not in FIXED_NAMES]
    lines = [
        f"  {clean(f'{one.name} {one.hint}'.strip()):<{HELP_COLUMN}} {_shorten(one.about)} ({one.place})"
        for one in found
    ]
    left = len(lines) - MAX_CUSTOM_COMMANDS
    return [*lines[:MAX_CUSTOM_COMMANDS], *([f"  … and {left} more: Tab behind / shows them"] if left > 0 else [])]


def _shorten(text: str) -> str:
    plain = one_line(text)
    return plain if len(plain) <= 60 else f"{plain[:59]}…"


async def _members(session: Session, _rest: str) -> list[str]:
    lines: list[str] = []
    for member in live_members(session):
        waits = f", waits for {one_line(member.reason)}" if member.reason else ""
        about = f"{member.mode}, {clean(member.model)}, {member.turn} turn{'' if member.turn == 1 else 's'}"
        if member.context:
            about += f", context {member.context:,} tokens"
        if member.has_own_process:
            about += f", {clean(member.place)}"
        lines.append(f"  {display_name(member.name):<14} {member.state + waits:<12} {about}")
        if member.note:
            lines.append(f"    {one_line(member.note)}")
        lines += [f"    └ {one_line(task)}" for task in await list_jobs(session, member.name)]
    return [*lines, *_backend_reasons(session)]


def _backend_reasons(session: Session) -> list[str]:
    """Return each reason for the backend of a member that `auto` chose, once."""
    return [f"  {backend}: auto chose it, {one_line(why)}" for backend, why in backend_reasons(session)]


async def _hide(session: Session, rest: str) -> list[str]:
    return await _set_hidden(session, rest, hidden=True)


async def _show(session: Session, rest: str) -> list[str]:
    return await _set_hidden(session, rest, hidden=False)


async def _set_hidden(session: Session, rest: str, *, hidden: bool) -> list[str]:
    if not rest:
        return [f"  /{'hide' if hidden else 'show'} NAME: the name is missing; /members shows the names"]
    return [f"  {clean(await set_pane_hidden(session, rest.strip().removeprefix('@'), hidden=hidden))}"]


async def _status(session: Session, _rest: str) -> list[str]:
    model, cost = session.lead.agent.model.card.name, await session_cost(session)
    tasks = await session.task_lines()
    done = sum(task.status == "completed" for task in tasks)
    return [
        f"  session {session.id[:8]} in {clean(str(session.agent_factory.work_directory))}",
        f"  model {clean(model)}, mode {session.modes.mode}",
        f"  team {clean(session.team.name)}" if session.team.name else "  no team",
        *await _members(session, ""),
        f"  {done} of {len(tasks)} tasks completed" if tasks else "  no tasks",
        *cost_lines(cost)[-1:],
        *sandbox_lines(await sandbox_report(session)),
    ]


async def _skills(session: Session, _rest: str) -> list[str]:
    return _custom_command_lines(session) or ["  no commands or skills: `teamwright check` shows where they are read"]


def _program(name: str) -> CommandHandler:
    async def run(session: Session, rest: str) -> list[str]:
        return await program_lines(session, name, rest)

    return run


async def _tasks(session: Session, _rest: str) -> list[str]:
    return task_lines(await session.task_lines())


async def _cost(session: Session, _rest: str) -> list[str]:
    caps = ", ".join(f"{cap:g} {name}" for name, cap in session.agent_factory.budget_tracker.budget.as_json().items())
    return cost_lines(await session_cost(session), caps)


async def _log(session: Session, rest: str) -> list[str]:
    if not re.fullmatch(r"c?[0-9]+", rest.strip(), re.IGNORECASE):
        return ["  /log cN: N is the number of a call, as /diff and … more lines name it"]
    call = await asyncio.to_thread(find_call, LogView(session.log.path, session.id), rest)
    lines = [f"{call.call} {display_name(call.member)} {call.tool}, {call.seconds:.2f} s, {call.outcome}"]
    lines += [*input_lines(call.input), "", *output_lines(call.output)]
    lines += [] if call.complete else ["… (the log holds no more of it, and no transcript has it)"]
    return [f"  {clean(line)}" for line in lines]


async def _stop(session: Session, rest: str) -> list[str]:
    if not rest:
        return ["  /stop NAME: the name is missing; /members shows the names"]
    target = rest.strip().removeprefix("@")
    if (what := await stop_task(session, target)) is not None:
        return [f"  {one_line(what)}"]
    name, tasks = await stop_member(session, target)
    if not tasks:
        return [f"  {name} was stopped; it had no open task"]
    handed = ", ".join(f"#{task.id} {one_line(task.subject)}" for task in tasks)
    return [f"  {name} was stopped; handed back to the list: {handed}"]


async def _interrupt(session: Session, rest: str) -> list[str]:
    if not rest:
        return ["  /interrupt NAME: the name is missing; /members shows the names"]
    name = rest.removeprefix("@")
    if not interrupt_member(session, name):
        return [f"  {name} is not in a turn"]
    return [f"  {name}'s turn was ended; what it was at goes along with your next words: @{name} …"]


async def _background(session: Session, rest: str) -> list[str]:
    return await background_lines(session, rest.strip().removeprefix("@"))


async def background_lines(session: Session, name: str = "") -> list[str]:
    """Move what has that name or number to the background, and return lines that name it.

    Without a name the only one moves; of several the person chooses.
    """
    waiting = await list_foreground(session) if not name or name.isdecimal() else []
    chosen, lines = choose_foreground(waiting, name)
    if not chosen:
        return lines
    moved = await move_to_background(session, chosen)
    if not moved and name == LEAD_ALIAS and (waiting := await list_foreground(session)):
        return ["  the lead waits for nothing; others do:", *waiting_lines(waiting)]
    return moved_lines(moved)


def _split_value_and_member(rest: str) -> tuple[str, str] | None:
    """Return a value and the member it is for, each possibly empty; None for several values or members."""
    words = rest.split()
    named = [word[1:] for word in words if word.startswith("@") and len(word) > 1]
    values = [word for word in words if not word.startswith("@")]
    return None if len(named) > 1 or len(values) > 1 else ("".join(values), "".join(named))


async def _model(session: Session, rest: str) -> list[str]:
    found = _split_value_and_member(rest)
    if found is None:
        return ["  /model NAME, or /model NAME @NAME: one model, for the lead or for one member"]
    model, name = found
    if model:
        return [f"  {clean(str(await set_model(session, model, name)))}"]
    rows = await models_in_use(session)
    return [
        f"  {display_name(name):<18} {clean(model)}" + (f", window {window:,} tokens" if window else "")
        for name, model, window in rows
    ]


async def _reload(session: Session, _rest: str) -> list[str]:
    result = await reload_session(session)
    if not result.changed and not result.members and not result.later:
        return ["  nothing is different"]
    lines = [f"  {one_line(line)}" for line in result.changed]
    if result.members:
        lines.append(f"  from the next model call on: {', '.join(map(display_name, result.members))}")
    return [*lines, *([f"  from the next start on: {', '.join(result.later)}"] if result.later else [])]


async def _mode(session: Session, rest: str) -> list[str]:
    found = _split_value_and_member(rest)
    if found is None:
        return ["  /mode MODE, or /mode MODE @NAME: one mode, for the lead or for one member"]
    mode, name = found
    if mode:
        change = await session.modes.set(mode, name, source="/mode")
        is_shown = change.changed and change.held_by is None and not name  # the line of the event says it
        return [] if is_shown else [f"  {clean(str(change))}"]
    return mode_lines(session)


async def _context(session: Session, rest: str) -> list[str]:
    return context_lines(await context_view(session, rest.strip().removeprefix("@")))


async def _compact(session: Session, rest: str) -> list[str]:
    first, _, words = rest.partition(" ")
    named = first.startswith("@") and len(first) > 1
    begun = request_compaction(session, first[1:] if named else "", words if named else rest)
    return [f"  {display_name(begun.member)} does it before its next model call"] if begun.waits else []


async def _clear(session: Session, rest: str) -> list[str]:
    if rest:
        return ["  /clear takes no words: it starts an empty conversation of the lead"]
    result = await clear_lead(session)
    if not result.done:
        return [f"  {result.why}: there is nothing to clear"]
    tasks = [task for task in await session.task_lines() if task.status != "completed"]
    stays = [*_member_count_text(session), *([_count_text(len(tasks), "open task")] if tasks else [])]
    lines = [f"  {' and '.join(stays)} stay as they are"] if stays else []
    lines.append(
        "  the lead no longer knows what was said, and cannot be given it back; the file keeps it, and the log:"
    )
    return [*lines, f"  {clean(str(session.lead.agent.conversation.path))}", f"  teamwright log {session.id[:8]}"]


def _member_count_text(session: Session) -> list[str]:
    """Return the number of teammates as a text, or nothing without teammates."""
    count = len(live_members(session)) - 1
    return [_count_text(count, "member")] if count else []


def _count_text(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def mode_lines(session: Session) -> list[str]:
    """Return the modes of the lead and the members, then all modes with their meaning."""
    accepted = members_with_accepted_edits(session)
    modes = [
        f"  {display_name(member.name):<18} {member.mode}"
        + (", its edits are not asked about" if member.name in accepted else "")
        for member in live_members(session)
    ]
    return [*modes, "", *mode_meaning_lines()]


HANDLERS: dict[str, CommandHandler] = {
    "/help": _help,
    "/members": _members,
    "/tasks": _tasks,
    "/cost": _cost,
    "/log": _log,
    "/stop": _stop,
    "/interrupt": _interrupt,
    "/hide": _hide,
    "/show": _show,
    "/bg": _background,
    "/mode": _mode,
    "/model": _model,
    "/reload": _reload,
    "/context": _context,
    "/compact": _compact,
    "/clear": _clear,
    "/status": _status,
    "/skills": _skills,
    "/hooks": hooks,
    "/memory": memory,
    "/mcp": mcp,
    "/add-dir": add_directory,
    "/export": export,
    **{name: _program(name) for name in PROGRAM_COMMANDS},
    "/permissions": permissions,
}
"""The function of each command. `/quit`, `/resume` and `/rewind` end the session, and `/view`, `/diff`, `/fork`,
`/review-team` and `/undo` need the screen: they are not here.
"""
