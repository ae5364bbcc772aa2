"""`teamwright resume`: go on with a session, by its id, by the name of the team that it leads, or from a list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from teamwright.app.inspect import find_team, home_at
from teamwright.app.looking.sessions import find_session
from teamwright.protocol.errors import TeamwrightError
from teamwright.ui.cli.choosing import Chosen, choose
from teamwright.ui.cli.flags import HEADLESS, RUN
from teamwright.ui.cli.place import Place, place_of
from teamwright.ui.cli.start import face_of, refuse_headless_flags, run
from teamwright.ui.cli.usage import too_many_words


@click.command(params=[*RUN, *HEADLESS])
@click.argument("session", required=False, metavar="[SESSION or TEAM]")
@click.argument("prompt", nargs=-1, metavar="[PROMPT]")
@click.pass_context
def resume(ctx: click.Context, /, session: str | None, prompt: tuple[str, ...], **flags: Any) -> int:
    """Go on with a session: the beginning of its id, or the team that it leads; without it choose from a list.

    With -p, PROMPT or stdin says how to go on; without either it answers what it owes. Caps count from here.
    """
    place = place_of(ctx)
    if len(prompt) > 1:
        raise too_many_words(prompt)
    headless = face_of(flags, prompt, resumes=True)
    refuse_headless_flags(flags, headless=headless)
    chosen = choose(place, ask=not headless) if session is None else _meant(place, session)
    return run(chosen.place(place), {**flags, "resume": chosen.id}, prompt[0] if prompt else None, headless=headless)


def _meant(place: Place, session: str) -> Chosen:
    """The session of that id, else the one that leads the team of that name."""
    home = home_at(place.home)
    try:
        found = find_session(home, place.cwd, session)
    except TeamwrightError as no_session:
        try:
            team = find_team(home, session)
            found = find_session(home, place.cwd, team.session)
        except TeamwrightError:
            raise no_session from None
    return Chosen(found.id, Path(found.cwd) if found.cwd else place.cwd)
