"""`/resume`: the choice of another session in the same process; the present one is left as with `/quit`.

The session is chosen and checked before anything ends. The caller ends and opens the sessions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.edit_history.undo_plan import UndoPlan
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.session.lookup.saved_sessions import SessionView
from teamwright.session.lookup.saved_teams import find_session_to_resume
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.session.session_list import ListedSession, listed_sessions
from teamwright.ui.terminal.editor import Editor, ReadCancelled
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
    given = session.options
    same = to.cwd == session.agent_factory.cwd
    return replace(
        given,
        cwd=to.cwd,
        resume=to.id,
        fork=False,
        session_id=None,
        adopt=None,
        model=None if isinstance(given.model, str) else given.model,
        effort=None,
        permission_mode=None,
        task_list=None,
        trust=given.trust and same,
        allowed_tools=given.allowed_tools if same else (),
        add_dirs=given.add_dirs if same else (),
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
