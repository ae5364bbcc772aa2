"""Leaving a session at the terminal: for another one, for its own state before an earlier prompt, or for good.

`/resume` and `/rewind` choose and check the session, or the prompt and the plan, before anything ends. The caller ends
and opens the sessions, and applies the choice of a person who leaves while members work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.edit_history.edit_journal_reader import PromptEntry, Scope
from teamwright.edit_history.history_location import HistoryLocation, find_history, history_of_session
from teamwright.edit_history.rewind import preview_rewind, rewind_list, rewind_on_disk
from teamwright.edit_history.undo import UndoPlan, limit_of_undo
from teamwright.protocol.errors import CannotStart, TeamwrightError, UsageError
from teamwright.protocol.usage import Budget
from teamwright.saved.session_list import ListedSession, listed_sessions
from teamwright.saved.sessions import SessionView
from teamwright.saved.teams import find_session_to_resume
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.storage.paths import find_home
from teamwright.ui.change_text import TAKEN_BACK, plan_rows, rewound_lines
from teamwright.ui.display_text import clean, one_line
from teamwright.ui.terminal.editor_protocol import Editor, ReadCancelled
from teamwright.ui.terminal.keys import LEAVE_WINDOW_S
from teamwright.ui.terminal.session_picker import session_rows

ShowLines = Callable[[Sequence[str]], None]

MIN_USD = 1e-6

_NOTHING_ENDED = "nothing was ended"


class NextSession(Struct, frozen=True):
    """The session to open after this one. `rewind` is the confirmed plan that takes it back first."""

    id: str
    cwd: Path
    rewind: UndoPlan | None = None


async def choose_next_session(
    session: Session, word: str, editor: Editor, show: ShowLines, width: int
) -> NextSession | None:
    """Return the session of that id or team, else the one that the person picks; None when they stay.

    Raises TeamwrightError for a session that cannot be resumed; nothing has ended then. EOFError means that they stay.
    """
    home, cwd = session.agent_factory.home, session.agent_factory.cwd
    if word:
        view = find_session_to_resume(home, cwd, word)
    else:
        rows = [row for row in listed_sessions(home, cwd) if row.view.id != session.id]
        if not rows:
            show(["  there is no other session of this directory; teamwright sessions --all lists those of others"])
            return None
        picked = await _ask_for_session(rows, editor, show, width)
        if picked is None:
            show(["  you stay in this session"])
            return None
        view = picked.view
    return _require_free(session, view)


def options_for(session: Session, to: NextSession) -> Options:
    """Return the options for the next session: those of this start, without those that belong to a session.

    Model, effort, mode and task list belong to a session. Options that widen permissions apply only in the same
    directory. A cap on the run is reduced by the usage of this session.
    """
    options = session.options
    same = to.cwd == session.agent_factory.cwd
    return replace(
        options,
        cwd=to.cwd,
        resume=to.id,
        fork=False,
        session_id=None,
        adopt=None,
        worktree=None,
        model=None if isinstance(options.model, str) else options.model,
        effort=None,
        permission_mode=None,
        task_list=None,
        trust=options.trust and same,
        allowed_tools=options.allowed_tools if same else (),
        add_dirs=options.add_dirs if same else (),
        budget=_remaining_budget(session),
    )


def options_to_return(session: Session) -> Options:
    """Return the options that open the present session again, for the case that the next one does not open."""
    return options_for(session, NextSession(session.id, session.agent_factory.cwd))


async def _ask_for_session(
    rows: Sequence[ListedSession], editor: Editor, show: ShowLines, width: int
) -> ListedSession | None:
    """Ask for a session by its number in the list, or by its id; an empty line stays."""
    show([f"  {line}" for line in session_rows(rows, width - 2)])
    while True:
        try:
            reply = (await editor.answer("which one? (a number; Enter stays) ")).strip()
        except ReadCancelled:
            continue
        except EOFError:
            return None
        if not reply:
            return None
        if reply.isascii() and reply.isdigit() and 1 <= int(reply) <= len(rows):
            return rows[int(reply) - 1]
        show([f"  a number from 1 to {len(rows)}, or Enter to stay"])


def _require_free(session: Session, view: SessionView) -> NextSession | None:
    """Return the session, which no process leads and whose directory exists. Raises CannotStart, TeamwrightError."""
    if view.id == session.id:
        raise TeamwrightError("usage", "this is the session that you are in", note="nothing was changed")
    if view.damaged:
        raise CannotStart(
            "damaged-file", f"session {view.id[:8]} cannot be resumed: {view.damaged}", note=_NOTHING_ENDED
        )
    if view.pid:
        raise CannotStart(
            "session-busy",
            f"process {view.pid} drives this session already (session {view.id})",
            do=["continue in the terminal where it runs", f"end it with: kill {view.pid}"],
            note=_NOTHING_ENDED,
        )
    cwd = Path(view.cwd) if view.cwd else session.agent_factory.cwd
    if not cwd.is_dir():
        raise TeamwrightError(
            "unknown-session",
            f"the directory of session {view.id[:8]} is gone",
            looked_at=[("directory", str(cwd))],
            note=_NOTHING_ENDED,
        )
    return NextSession(view.id, cwd)


def _remaining_budget(session: Session) -> Budget:
    """Return the caps of this start less the usage of this session; the lead's model calls start at zero again."""
    budget, used = session.options.budget, session.agent_factory.budget_tracker.total
    usd = None if budget.usd is None else max(budget.usd - (used.usd or 0.0), MIN_USD)
    tokens = None if budget.tokens is None else max(budget.tokens - used.tokens, 1)
    minutes = None if budget.minutes is None else max(budget.minutes - (time.monotonic() - session.started) / 60, 1e-3)
    return replace(budget, usd=usd, tokens=tokens, minutes=minutes)


REWIND_USAGE = "/rewind [N] [--conversation-only | --files-only]"

MAX_PROMPTS = 20
"""The number of prompts that the list shows, the newest ones."""

_SCOPES: dict[str, Scope] = {"--conversation-only": "conversation", "--files-only": "files"}


async def choose_rewind(session: Session, rest: str, editor: Editor, show: ShowLines) -> NextSession | None:
    """Return this session with the rewind that the person chose and confirmed; None when nothing is to change.

    Raises UsageError for wrong arguments and TeamwrightError (`undo-refused`); nothing has ended then.
    """
    number, scope = _parse(rest)
    place = history_of_session(session)
    prompts = rewind_list(place).prompts
    if not prompts:
        show(["  this session has no prompt to go back to"])
        return None
    if number is None:
        number = await _ask_for_prompt(prompts, editor, show)
    if number is None or (plan := await _confirm(place, number, scope, editor, show)) is None:
        show(["  nothing was changed"])
        return None
    return NextSession(session.id, session.agent_factory.cwd, rewind=plan)


async def rewind_left_session(options: Options, plan: UndoPlan) -> list[str]:
    """Take the session of these options, which no process runs, back by the confirmed plan; return report lines.

    Raises TeamwrightError when the plan does not fit any more: nothing was changed then.
    """
    place = find_history(find_home(options.home), options.cwd, str(options.resume))
    return rewound_lines(await rewind_on_disk(place, plan.prompt.number, plan.scope, agreed=plan), place.cwd)


def _parse(rest: str) -> tuple[int | None, Scope]:
    words = rest.split()
    scopes: list[Scope] = [_SCOPES[word] for word in words if word in _SCOPES]
    numbers = [word for word in words if word.isascii() and word.isdigit()]
    if len(scopes) > 1 or len(numbers) > 1 or len(scopes) + len(numbers) < len(words):
        what = f"/rewind does not understand '{rest}'"
        raise UsageError("usage", what, do=[REWIND_USAGE], note="nothing was changed")
    scopes.append("all")
    return (int(numbers[0]) if numbers else None), scopes[0]


async def _ask_for_prompt(prompts: Sequence[PromptEntry], editor: Editor, show: ShowLines) -> int | None:
    """Ask for the number of a prompt; None to stay."""
    newest = prompts[-MAX_PROMPTS:]
    show([f"  {one.number:>3}  {clean(one_line(one.text))}" for one in newest])
    while True:
        reply = await _reply(editor, "back to the time before which prompt? (a number; Enter stays) ")
        if not reply:
            return None
        if reply.isascii() and reply.isdigit() and int(reply) in {one.number for one in prompts}:
            return int(reply)
        show([f"  a number from {newest[0].number} to {newest[-1].number}, or Enter to stay"])


async def _confirm(
    place: HistoryLocation, number: int, scope: Scope, editor: Editor, show: ShowLines
) -> UndoPlan | None:
    """Show the plan, and return it after a yes."""
    plan = preview_rewind(place, number, scope)
    rows = [f"  {clean('  '.join(part for part in row if part))}" for row in plan_rows(plan, place.cwd)]
    if not rows and scope != "conversation":
        rows = ["  no file was edited since then"]
    limit = limit_of_undo(place.cwd)
    show([f'  before "{clean(one_line(plan.prompt.text))}": {TAKEN_BACK[scope]}', *rows, f"  {limit}"])
    return plan if await _reply(editor, "go back? [y/n] ") in {"y", "yes"} else None


async def _reply(editor: Editor, question: str) -> str:
    try:
        return (await editor.answer(question)).strip().lower()
    except (ReadCancelled, EOFError):
        return ""


class LeaveChoice(StrEnum):
    """The ways to leave. WAIT and STAY do not leave yet; ENDED means that the session has ended."""

    QUIT = "quit"
    WAIT = "wait"
    STOP = "stop"
    LEAVE = "leave"
    STAY = "stay"
    ENDED = "over"


CHOICES = (
    "  w  wait until all is done, then leave",
    "  s  stop them now; open tasks go back to the list",
    "  l  leave everything as it is, to be resumed",
    "  Enter  stay",
)

_ANSWERS = {
    "w": LeaveChoice.WAIT,
    "wait": LeaveChoice.WAIT,
    "s": LeaveChoice.STOP,
    "stop": LeaveChoice.STOP,
    "l": LeaveChoice.LEAVE,
    "leave": LeaveChoice.LEAVE,
    "": LeaveChoice.STAY,
}


async def ask_how_to_leave(
    editor: Editor, show: Callable[[Sequence[str]], None], working: Sequence[str]
) -> LeaveChoice:
    """Ask how to leave. Without working members no question is asked; a closed terminal keeps all for a resume."""
    if not working:
        return LeaveChoice.QUIT
    verb = "is" if len(working) == 1 else "are"
    show([f"{', '.join(working)} {verb} at work:", *CHOICES])
    while True:
        try:
            reply = (await editor.answer("leave? [w/s/l] ")).strip().lower()
        except ReadCancelled:
            continue
        except EOFError:
            return LeaveChoice.LEAVE
        if reply in _ANSWERS:
            return _ANSWERS[reply]
        show(["  w, s, l, or Enter to stay"])


def leave_hint(working: Sequence[str]) -> str:
    """Return how to leave after a first Ctrl-C. `working` are the members that continue."""
    more = f" {names} during this time." if (names := continuing_members(working)) else ""
    return f"Ctrl-C again within {LEAVE_WINDOW_S:.0f} s leaves, as does Ctrl-D.{more}"


def continuing_members(working: Sequence[str]) -> str:
    """Return the names of working members as a text; empty when none is working."""
    return f"{', '.join(working)} {'continues' if len(working) == 1 else 'continue'}" if working else ""
