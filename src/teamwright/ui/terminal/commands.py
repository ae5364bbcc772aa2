"""Commands of the terminal that show the state of the session or change it, and the keys that do the same.

`HANDLERS` has the commands that return lines; `ScreenCommands` adds those that need the screen: the viewed member, open
requests, questions with yes or no. Custom commands run beside the line (`CommandCalls`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from teamwright.agent.plan_mode import MODE_MEANINGS
from teamwright.config.add_instruction import NoteFile
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import TeamEvent, ToolCalled
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.program_log import debug_categories
from teamwright.session.control.action_table import (
    ask_agent,
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
    note_choices,
    prompt_lead,
    set_pane_hidden,
    stop_member,
    stop_task,
    store_note,
)
from teamwright.session.server_resources import find_mentions, read_mentions
from teamwright.session.session import Session
from teamwright.session.slash_command_call import call_command, list_commands
from teamwright.ui.background_choice import choose_foreground, moved_lines, waiting_lines
from teamwright.ui.display_text import cell_width, clean, exact_line, one_line, pad
from teamwright.ui.protocol_text import input_lines, output_lines
from teamwright.ui.terminal.conversation_view import ConversationView
from teamwright.ui.terminal.editor_protocol import ReadCancelled
from teamwright.ui.terminal.events import EventFormatter, display_name, hidden_lines
from teamwright.ui.terminal.history_commands import (
    PROGRAM_COMMANDS,
    add_directory,
    export,
    fork_lines,
    hooks,
    mcp,
    memory,
    program_lines,
    review_team_lines,
    session_diff_lines,
    undo_lines,
)
from teamwright.ui.terminal.interruptible_input import LineInput
from teamwright.ui.terminal.keys import HELP_COLUMN, key_lines
from teamwright.ui.terminal.line_parser import (
    COMMANDS,
    FIXED_NAMES,
    MAX_CUSTOM_COMMANDS,
    CustomCommand,
    TerminalCommand,
)
from teamwright.ui.terminal.request_lines import (
    context_lines,
    cost_lines,
    mode_meaning_lines,
    sandbox_lines,
    task_lines,
)
from teamwright.views.configuration_sources import display_path
from teamwright.views.cost import session_cost
from teamwright.views.live_status import sandbox_report
from teamwright.views.log import LogView, find_call
from teamwright.views.permission_check import parse_call


class ScreenCommands(Struct):
    """The commands of one screen. `show` prints lines, `show_folded` breaks them between words, `open_view` views an
    agent and reports an unknown name.
    """

    session: Session
    formatter: EventFormatter
    view: ConversationView
    line_input: LineInput
    show: Callable[[Sequence[str]], None]
    show_folded: Callable[[Sequence[str]], None]
    open_view: Callable[[str], None]

    async def run(self, line: TerminalCommand) -> None:
        """Run a command. Raises TeamwrightError."""
        viewed = self.view.viewed_member
        match line:
            case TerminalCommand(name="/view"):
                self.open_view(line.rest.strip().removeprefix("@") or LEAD)
            case TerminalCommand(name="/stop", rest="") if viewed:
                await self._stop_viewed(viewed)
            case TerminalCommand(name="/interrupt", rest="") if viewed:
                self.view.interrupt()
            case TerminalCommand(name="/requests"):
                questions = self.line_input.requests
                self.show([] if questions.restore_postponed() else questions.lines(self.formatter))
            case TerminalCommand(name="/diff"):
                self.show(await session_diff_lines(self.session, line.rest, self.formatter.paint))
            case TerminalCommand(name="/fork"):
                self.show_folded(await fork_lines(self.session, line.rest))
            case TerminalCommand(name="/review-team"):
                self.show(await review_team_lines(self.session, line.rest, self.formatter.paint))
            case TerminalCommand(name="/undo"):
                self.show_folded(await undo_lines(self.session, line.rest, self.show, self._agrees))
            case _:
                self.show_folded(await HANDLERS[line.name](self.session, line.rest))

    async def remember(self, note: str) -> None:
        """Store a note in the instruction file that the person chooses. Raises TeamwrightError."""
        if not note:
            self.show_folded(["  # NOTE stores the note in an instruction file, which each session reads"])
            return
        files = note_choices(self.session)
        self.show_folded(["  the file for this note, which each session reads:", *map(self._note_row, files)])
        keys = {key: file for file in files for key in (file.scope, file.scope[0])}
        reply = await self._reply(f"store in [{'/'.join(file.scope[0] for file in files)}], Enter cancels: ")
        if (file := keys.get(reply)) is None:
            self.show_folded(["  nothing was stored and nothing was sent; a blank before the # sends the line"])
            return
        store_note(self.session, file, note)
        where = display_path(file.path, self.session.agent_factory.work_directory)
        self.show_folded([f"  stored in {clean(where)}", "  the lead reads it with your next prompt"])

    def _note_row(self, file: NoteFile) -> str:
        about = {"user": "you, in every project", "project": "everyone who works here", "local": "you, in this project"}
        where = display_path(file.path, self.session.agent_factory.work_directory)
        return f"  {file.scope[0]}  {file.scope:<8} {clean(where)}: for {about[file.scope]}"

    async def _stop_viewed(self, name: str) -> None:
        """End the viewed member for good after the person confirmed."""
        if await self._agrees(f"end {clean(name)} for good? [y/n] "):
            self.show_folded(await HANDLERS["/stop"](self.session, name))
        else:
            self.show([f"  {clean(name)} stays"])

    async def _agrees(self, question: str) -> bool:
        """Ask the person a question of the terminal and return True for yes."""
        return await self._reply(question) in {"y", "yes"}

    async def _reply(self, question: str) -> str:
        """Return the answer to a question of the terminal in lower case; empty when it was withdrawn."""
        try:
            return (await self.line_input.editor.answer(question)).strip().lower()
        except (ReadCancelled, EOFError):
            return ""


class CommandCalls(Struct):
    """Custom commands that are being prepared or that a sub-agent runs."""

    session: Session
    show: Callable[[Sequence[str]], None]
    on_error: Callable[[TeamwrightError], None]
    text_lines: Callable[[str], list[str]]
    """Return the lines of a text of an agent for the present window."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def is_running(self) -> bool:
        """True while a command runs."""
        return bool(self._tasks)

    def start(self, command: CustomCommand) -> None:
        """Run the command; its result is shown when it is ready."""
        self._start(call_command(self.session, command.name, command.rest), f"/{command.name}")

    def ask(self, line: str) -> None:
        """Ask the lead, or the member after `@`, a question in passing; the answer is shown when it comes."""
        first, _, words = line.strip().partition(" ")
        named = first.startswith("@") and len(first) > 1
        self._start(self._ask(words if named else line, first[1:] if named else ""), "/btw")

    async def _ask(self, question: str, name: str) -> str:
        answer = await ask_agent(self.session, question, name)
        return f"{display_name(name or LEAD)}, in passing, about: {one_line(question, 60)}\n\n{answer}"

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
            self.show(self.text_lines(answer))
        elif self.session.lead.busy:
            self.show(["  the lead reads it before its next step"])


MODE_CYCLE = ("default", "acceptEdits", "plan")
"""The modes of Shift-Tab. Modes that ask for nothing are set only by name."""


class Shortcuts(Struct):
    """The keys of one session. `show` prints lines, broken between words."""

    session: Session
    show: Callable[[Sequence[str]], None]
    on_error: Callable[[TeamwrightError], None]
    _last_call: str = ""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def note(self, event: TeamEvent) -> None:
        """Remember the last call whose output was shown in part."""
        if isinstance(event, ToolCalled) and hidden_lines(event):
            self._last_call = event.call

    def move_to_background(self) -> None:
        """Move to the background what the lead itself waits for."""
        self._start(background_lines(self.session, LEAD_ALIAS))

    def next_mode(self) -> None:
        """Set the lead's next mode of the cycle."""
        now = str(self.session.modes.mode)
        at = MODE_CYCLE.index(now) + 1 if now in MODE_CYCLE else 0
        self._start(self._set_mode(MODE_CYCLE[at % len(MODE_CYCLE)]))

    async def _set_mode(self, mode: str) -> list[str]:
        """Set the mode. `plan` follows `default`: an approved plan does not accept edits because the keys passed by."""
        if mode == MODE_CYCLE[-1]:
            await HANDLERS["/mode"](self.session, MODE_CYCLE[0])
        return await HANDLERS["/mode"](self.session, mode)

    def show_output(self) -> None:
        """Show all output of the last call that was shown in part."""
        if self._last_call:
            self._start(HANDLERS["/log"](self.session, self._last_call))
        else:
            self.show(["  no call was shown in part; /log cN shows call N"])

    def show_keys(self) -> None:
        """Show the table of keys."""
        self.show([f"  {line}" for line in key_lines()])

    def _start(self, work: Awaitable[list[str]]) -> None:
        task = asyncio.create_task(self._run(work), name="a key")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, work: Awaitable[list[str]]) -> None:
        try:
            self.show(await work)
        except TeamwrightError as problem:
            self.on_error(problem)


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
    reasons = [f"  {backend}: auto chose it, {one_line(why)}" for backend, why in backend_reasons(session)]
    return [*lines, *reasons]


async def _status(session: Session, _rest: str) -> list[str]:
    model = session.lead.agent.model.card.name
    cost = await session_cost(session)
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
        *_debug_log(session),
    ]


def _debug_log(session: Session) -> list[str]:
    """Return the line with the session's debug log, if it keeps one."""
    home = session.agent_factory.home
    if not debug_categories(session.options.debug, session.agent_factory.toolset.env):
        return []
    return [f"  debug log {clean(str(home.debug_log(session.id)))}"]


async def _tasks(session: Session, _rest: str) -> list[str]:
    return task_lines(await session.task_lines())


async def _cost(session: Session, _rest: str) -> list[str]:
    caps = session.agent_factory.budget_tracker.budget.as_json()
    texts = (f"{cap:,.12g} {_CAP_UNITS[name]}" for name, cap in caps.items())
    return cost_lines(await session_cost(session), ", ".join(texts))


_CAP_UNITS = {"usd": "USD", "tokens": "tokens", "turns": "model calls", "minutes": "min", "calls": "tool calls"}


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


async def _hide(session: Session, rest: str) -> list[str]:
    return await _set_hidden(session, rest, hidden=True)


async def _show(session: Session, rest: str) -> list[str]:
    return await _set_hidden(session, rest, hidden=False)


async def _set_hidden(session: Session, rest: str, *, hidden: bool) -> list[str]:
    if not rest:
        return [f"  /{'hide' if hidden else 'show'} NAME: the name is missing; /members shows the names"]
    return [f"  {clean(await set_pane_hidden(session, rest.strip().removeprefix('@'), hidden=hidden))}"]


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


def mode_lines(session: Session) -> list[str]:
    """Return the modes of the lead and the members, then all modes with their meaning."""
    accepted = members_with_accepted_edits(session)
    modes = [
        f"  {display_name(member.name):<18} {member.mode}"
        + (", its edits are not asked about" if member.name in accepted else "")
        for member in live_members(session)
    ]
    return [*modes, "", *mode_meaning_lines()]


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


def _split_value_and_member(rest: str) -> tuple[str, str] | None:
    """Return a value and the member it is for, each possibly empty; None for several values or members."""
    words = rest.split()
    named = [word[1:] for word in words if word.startswith("@") and len(word) > 1]
    values = [word for word in words if not word.startswith("@")]
    return None if len(named) > 1 or len(values) > 1 else ("".join(values), "".join(named))


async def _reload(session: Session, _rest: str) -> list[str]:
    result = await reload_session(session)
    if not result.changed and not result.members and not result.later:
        return ["  nothing is different"]
    lines = [f"  {one_line(line)}" for line in result.changed]
    if result.members:
        lines.append(f"  from the next model call on: {', '.join(map(display_name, result.members))}")
    return [*lines, *([f"  from the next start on: {', '.join(result.later)}"] if result.later else [])]


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
    counts = {"member": len(live_members(session)) - 1, "open task": len(tasks)}
    stays = [f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items() if count]
    lines = [f"  {' and '.join(stays)} stay as they are"] if stays else []
    lines.append(
        "  the lead no longer knows what was said, and cannot be given it back; the file keeps it, and the log:"
    )
    return [*lines, f"  {clean(str(session.lead.agent.conversation.path))}", f"  teamwright log {session.id[:8]}"]


async def _skills(session: Session, _rest: str) -> list[str]:
    return _custom_command_lines(session) or ["  no commands or skills: `teamwright check` shows where they are read"]


def _program(name: str) -> CommandHandler:
    async def run(session: Session, rest: str) -> list[str]:
        return await program_lines(session, name, rest)

    return run


async def permissions(session: Session, rest: str) -> list[str]:
    """Return the rules in force, or the verdict on the call after `check`. Raises UsageError for another word."""
    command, _, call = rest.strip().partition(" ")
    if " --" in rest:
        return await program_lines(session, "/permissions", rest)
    if not command:
        return list(_rule_lines(session))
    if command != "check" or not call.strip():
        raise UsageError(
            "usage",
            f"/permissions {rest.strip()[:80]}: it takes no word, or check and a call",
            do=["/permissions", "/permissions check Bash(git push)"],
            note="nothing was run",
        )
    return _verdict_lines(session, call.strip().strip("'\""))


def _rule_lines(session: Session) -> Iterator[str]:
    mode, policy = session.modes.mode, session.agent_factory.policy
    yield f"  mode       {mode}: {MODE_MEANINGS[mode]}"
    for directory in policy.scope.directories:
        yield f"  directory  {one_line(str(directory))}"
    rules = sorted((*policy.rules, *policy.granted), key=lambda rule: _ORDER.index(str(rule.verdict)))
    width = max((cell_width(exact_line(rule.text)) for rule in rules), default=0)
    for rule in rules:
        yield f"  {rule.verdict:<10} {pad(exact_line(rule.text), width)}  {one_line(rule.source)}"
    if not rules:
        yield "  no rule: the mode alone decides"
    yield "  /mode sets the mode, /add-dir adds a directory, /permissions check Bash(git push) shows a verdict"
    yield '  rules: "always" where a call asks, or permissions.allow, ask and deny in a settings file, then /reload'


_ORDER = ("deny", "ask", "allow")


def _verdict_lines(session: Session, call: str) -> list[str]:
    tool, access = parse_call(call, session.agent_factory.work_directory, session.agent_factory.toolset.command_path)
    decision = session.lead.agent.policy.decide(tool, access)
    always = decision.find_always()
    return [
        f"  {str(decision.verdict).upper()}  {one_line(call, 70)}",
        f"    {one_line(decision.reason)}",
        f"    decided by {exact_line(decision.rule)}, mode {session.modes.mode}",
        *([f'    "always" would store {exact_line(always)}'] if always else []),
    ]


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
