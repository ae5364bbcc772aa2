"""The session of the demo: which options make it read, and only read.

Knows `app`; does not know how it is shown.
"""

from __future__ import annotations

from importlib import resources

from teamwright.app.options import Options
from teamwright.app.repository import Repository
from teamwright.protocol.budget import Budget
from teamwright.ui.demo.rules import RULES
from teamwright.ui.demo.words import CAP_USD
from teamwright.ui.terminal.text import cut, one_line

_NOT_FOR_READERS = ("Write", "Edit", "NotebookEdit", "WebFetch")


def demo_options(
    place: Repository,
    *,
    home: str | None,
    pace_ms: int,
    model: str | None = None,
    session: str | None = None,
    resumes: bool = False,
) -> Options:
    """A session over this repository: scripted unless a model is named, with a session's id to begin or to resume."""
    script = resources.files("teamwright.ui.demo") / "demo.toml"
    return Options(
        cwd=place.top,
        home=home,
        model=model or f"scripted:{script}",
        permission_mode="dontAsk",
        allowed_tools=() if model else RULES,
        disallowed_tools=_NOT_FOR_READERS,
        only_allowed=True,
        hooks=False,
        teams=True,
        budget=Budget(usd=CAP_USD if model else None),
        given={"repo": cut(one_line(place.name), 50), "team": team_of(place)},
        pace_s=pace_ms / 1000,
        session_id=None if resumes else session,
        resume=session if resumes else None,
    )


def team_of(place: Repository) -> str:
    """A name that a team may have, whatever the directory is called."""
    return f"demo-{''.join(char if char.isprintable() else '-' for char in place.name)[:80]}"
