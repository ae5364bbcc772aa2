"""The commands of the terminal: what each shows, and the one that ends a member, a sub-agent or a command.

Knows sessions through `app`; gives lines back and writes nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from teamwright.app.acts.asked import (
    begin_compacting,
    clear_lead,
    context_view,
    models_in_use,
    reload_session,
    set_model,
)
from teamwright.app.looking.cost import session_cost
from teamwright.app.looking.receipts import LogView, find_call
from teamwright.app.session import Session
from teamwright.app.skills.calling import command_lines
from teamwright.app.talking import (
    interrupt_member,
    live_members,
    put_out_of_sight,
    stop_member,
    stop_task,
    tasks_of,
    to_background,
)
from teamwright.ui.terminal.keys import HELP_COLUMN, key_lines
from teamwright.ui.terminal.lines import shown
from teamwright.ui.terminal.parsing import COMMANDS, NAMES, Unknown
from teamwright.ui.terminal.text import clean, one_line
from teamwright.ui.terminal.views import context_lines, cost_lines, meaning_lines, task_lines

Shown: TypeAlias = Callable[[Session, str], Awaitable[list[str]]]


HELP_WRITTEN = 40
"""Commands that people wrote, as /help lists them; the rest is counted."""


async def _help(session: Session, _rest: str) -> list[str]:
    return [
        *(f"  {usage:<{HELP_COLUMN}} {about}" for usage, about in COMMANDS.items()),
        *_written(session),
        *(f"  {line}" for line in key_lines()),
    ]


def _written(session: Session) -> list[str]:
    found = [one for one in command_lines(session) if one.name.lower() not in NAMES]
    lines = [
        f"  {clean(f'{one.name} {one.hint}'.strip()):<{HELP_COLUMN}} {_short(one.about)} ({one.place})" for one in found
    ]
    left = len(lines) - HELP_WRITTEN
    return [*lines[:HELP_WRITTEN], *([f"  … and {left} more: Tab behind / shows them"] if left > 0 else [])]


def _short(text: str) -> str:
    plain = one_line(text)
    return plain if len(plain) <= 60 else f"{plain[:59]}…"


async def _members(session: Session, _rest: str) -> list[str]:
    lines: list[str] = []
    for member in live_members(session):
        waits = f", waits for {one_line(member.waiting_on)}" if member.waiting_on else ""
        about = f"{member.mode}, {clean(member.model)}, {member.turns} turn{'' if member.turns == 1 else 's'}"
        if member.context:
            about += f", context {member.context:,} tokens"
        if member.elsewhere:
            about += f", {clean(str(member.where))}"
        lines.append(f"  {shown(member.name):<14} {member.state + waits:<12} {about}")
        if member.where.note:
            lines.append(f"    {one_line(member.where.note)}")
        lines += [f"    └ {one_line(task)}" for task in await tasks_of(session, member.name)]
    return [*lines, *_why_there(session)]


def _why_there(session: Session) -> list[str]:
    """Why members live where they do, each reason once, for those for whom `auto` chose."""
    rows = dict.fromkeys((one.where.backend, one.where.why) for one in live_members(session)[1:])
    return [f"  {backend}: auto chose it, {one_line(why)}" for backend, why in rows if why]


async def _hide(session: Session, rest: str) -> list[str]:
    return await _out_of_sight(session, rest, hidden=True)


async def _show(session: Session, rest: str) -> list[str]:
    return await _out_of_sight(session, rest, hidden=False)


async def _out_of_sight(session: Session, rest: str, *, hidden: bool) -> list[str]:
    if not rest:
        return [f"  /{'hide' if hidden else 'show'} NAME: the name is missing; /members shows the names"]
    return [f"  {clean(await put_out_of_sight(session, rest.strip().removeprefix('@'), hidden=hidden))}"]


async def _tasks(session: Session, _rest: str) -> list[str]:
    return task_lines(await session.task_lines())


async def _cost(session: Session, _rest: str) -> list[str]:
    caps = ", ".join(f"{cap:g} {name}" for name, cap in session.maker.purse.budget.as_json().items())
    return cost_lines(await session_cost(session), caps)


async def _log(session: Session, rest: str) -> list[str]:
    if not re.fullmatch(r"c?[0-9]+", rest.strip(), re.IGNORECASE):
        return ["  /log cN: N is the number of a call, as /diff and … more lines name it"]
    call = await asyncio.to_thread(find_call, LogView(session.log.path, session.id), rest)
    asked = call.input.get("command")
    lines = [f"{call.call} {shown(call.member)} {call.tool}, {call.seconds:.2f} s, {call.outcome}"]
    lines += (asked if isinstance(asked, str) else json.dumps(dict(call.input), ensure_ascii=False)).split("\n")
    lines += ["", *call.output.rstrip("\n").split("\n")]
    lines += [] if call.complete else ["… (the log holds no more of it, and no transcript has it)"]
    return [f"  {clean(line)}" for line in lines]


async def _stop(session: Session, rest: str) -> list[str]:
    if not rest:
        return ["  /stop NAME: the name is missing; /members shows the names"]
    wanted = rest.strip().removeprefix("@")
    if (what := await stop_task(session, wanted)) is not None:
        return [f"  {one_line(what)}"]
    name, tasks = await stop_member(session, wanted)
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
    """Move what is waited for to the background, and say what went."""
    moved = await to_background(session, name)
    if not moved:
        return ["  nothing runs in the foreground that could go on in the background"]
    return [f"  in the background: {one_line(what)}" for what in moved]


def _one_of(rest: str) -> tuple[str, str] | None:
    """A value and the member that it is for, each may be empty; None for more than one of either."""
    words = rest.split()
    named = [word[1:] for word in words if word.startswith("@") and len(word) > 1]
    said = [word for word in words if not word.startswith("@")]
    return None if len(named) > 1 or len(said) > 1 else ("".join(said), "".join(named))


async def _model(session: Session, rest: str) -> list[str]:
    found = _one_of(rest)
    if found is None:
        return ["  /model NAME, or /model NAME @NAME: one model, for the lead or for one member"]
    model, name = found
    if model:
        return [f"  {clean(str(await set_model(session, model, name)))}"]
    rows = await models_in_use(session)
    return [
        f"  {shown(name):<18} {clean(model)}" + (f", window {window:,} tokens" if window else "")
        for name, model, window in rows
    ]


async def _reload(session: Session, _rest: str) -> list[str]:
    made = await reload_session(session)
    if not made.changed and not made.members and not made.later:
        return ["  nothing is different"]
    lines = [f"  {one_line(line)}" for line in made.changed]
    if made.members:
        lines.append(f"  from the next model call on: {', '.join(map(shown, made.members))}")
    return [*lines, *([f"  from the next start on: {', '.join(made.later)}"] if made.later else [])]


async def _mode(session: Session, rest: str) -> list[str]:
    found = _one_of(rest)
    if found is None:
        return ["  /mode MODE, or /mode MODE @NAME: one mode, for the lead or for one member"]
    said, name = found
    if said:
        return [f"  {clean(str(await session.modes.set(said, name, source='/mode')))}"]
    return mode_lines(session)


async def _context(session: Session, rest: str) -> list[str]:
    return context_lines(await context_view(session, rest.strip().removeprefix("@")))


async def _compact(session: Session, rest: str) -> list[str]:
    first, _, words = rest.partition(" ")
    named = first.startswith("@") and len(first) > 1
    begun = begin_compacting(session, first[1:] if named else "", words if named else rest)
    return [f"  {shown(begun.member)} does it before its next model call"] if begun.waits else []


async def _clear(session: Session, rest: str) -> list[str]:
    if rest:
        return ["  /clear takes no words: it starts an empty conversation of the lead"]
    made = await clear_lead(session)
    if not made.done:
        return [f"  {made.why}: there is nothing to clear"]
    tasks = [task for task in await session.task_lines() if task.status != "completed"]
    stays = [*_members_in_words(session), *([_counted(len(tasks), "open task")] if tasks else [])]
    lines = [f"  {' and '.join(stays)} stay as they are"] if stays else []
    lines.append(
        "  the lead no longer knows what was said, and cannot be given it back; the file keeps it, and the log:"
    )
    return [*lines, f"  {clean(str(session.lead.agent.conversation.path))}", f"  teamwright log {session.id[:8]}"]


def _members_in_words(session: Session) -> list[str]:
    """How many members there are besides the lead, in words; nothing when there is none."""
    count = len(live_members(session)) - 1
    return [_counted(count, "member")] if count else []


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def mode_lines(session: Session) -> list[str]:
    """The lead's mode and its members', then all modes with their meaning."""
    modes = [
        f"  {shown(one.name):<18} {one.mode}{', its edits are not asked about' if one.edits_accepted else ''}"
        for one in live_members(session)
    ]
    return [*modes, "", *meaning_lines()]


RUN: dict[str, Shown] = {
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
}
"""The function of each command. `/quit` is not here, since it ends the session; nor are `/view`,
`/diff` and `/undo`, which need the screen."""


def unknown_lines(unknown: Unknown, written: Sequence[str] = ()) -> list[str]:
    """What to say of a command that there is not; `written` are those that people wrote."""
    close = f"; did you mean {unknown.close}?" if unknown.close else ""
    names = clean(" ".join([*NAMES, *written[:HELP_WRITTEN]]))
    return [f"  there is no {clean(unknown.name)}{close}", f"  there are  {names}"]
