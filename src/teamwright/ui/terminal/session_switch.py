"""`/resume`: another session of this directory in the same process; the present one is left as leaving leaves it.

Chosen, and found to be free, before anything ends. Knows sessions through `app`, and an editor; ends and opens none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import CannotStart, TeamwrightError
from teamwright.protocol.values import dataclass
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


@dataclass(frozen=True, slots=True)
class NextSession:
    """The session that is gone on with when this one is left."""

    id: str
    cwd: Path


async def choose_next_session(
    session: Session, word: str, editor: Editor, show: ShowLines, width: int
) -> NextSession | None:
    """The session of that id or team, else the one that the person picks; None: they stay, and it was said why.

    Raises TeamwrightError for what cannot be gone on with; nothing has ended then. EOFError is no answer but a stay.
    """
    home, here = session.maker.home, session.maker.cwd
    if word:
        found = find_session_to_resume(home, here, word)
    else:
        rows = [row for row in listed_sessions(home, here) if row.view.id != session.id]
        if not rows:
            show(["  there is no other session of this directory; teamwright sessions --all lists those of others"])
            return None
        picked = await _ask_for_session(rows, editor, show, width)
        if picked is None:
            show(["  you stay in this session"])
            return None
        found = picked.view
    return _require_free(session, found)


def options_for(session: Session, to: NextSession) -> Options:
    """How the next session is opened: as this start said, but for what belongs to a session itself.

    Its own are model, effort, mode and task list. What allows more was said for this directory, and holds in no other.
    Of a cap on the run is left what this session did not use.
    """
    given = session.options
    same = to.cwd == session.maker.cwd
    return replace(
        given,
        cwd=to.cwd,
        resume=to.id,
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
    """How the present session is opened again, should the next one not open."""
    return options_for(session, NextSession(session.id, session.maker.cwd))


async def _ask_for_session(
    rows: Sequence[ListedSession], editor: Editor, show: ShowLines, width: int
) -> ListedSession | None:
    """By its number in the list, or by its id; an empty line stays."""
    show([f"  {line}" for line in session_rows(rows, width - 2)])
    while True:
        try:
            said = (await editor.answer("which one? (a number; Enter stays) ")).strip()
        except ReadCancelled:
            continue
        except EOFError:
            return None
        if not said:
            return None
        if said.isascii() and said.isdigit() and 1 <= int(said) <= len(rows):
            return rows[int(said) - 1]
        show([f"  a number from 1 to {len(rows)}, or Enter to stay"])


def _require_free(session: Session, view: SessionView) -> NextSession | None:
    """The session, which nobody drives and whose directory is there. Raises CannotStart, TeamwrightError."""
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
            do=["go on in the terminal where it runs", f"end it with: kill {view.pid}"],
            note=_NOTHING_ENDED,
        )
    cwd = Path(view.cwd) if view.cwd else session.maker.cwd
    if not cwd.is_dir():
        raise TeamwrightError(
            "unknown-session",
            f"the directory of session {view.id[:8]} is gone",
            looked_at=[("directory", str(cwd))],
            note=_NOTHING_ENDED,
        )
    return NextSession(view.id, cwd)


def _remaining_budget(session: Session) -> Budget:
    """The caps of this start, less what this session used; the lead's rounds count anew, as for every session."""
    budget, used = session.options.budget, session.maker.purse.total
    usd = None if budget.usd is None else max(budget.usd - (used.usd or 0.0), MIN_USD)
    tokens = None if budget.tokens is None else max(budget.tokens - used.tokens, 1)
    minutes = None if budget.minutes is None else max(budget.minutes - (time.monotonic() - session.started) / 60, 1e-3)
    return replace(budget, usd=usd, tokens=tokens, minutes=minutes)
