"""`teamwright resume`: go on with a session, by its id, by the name of the team that it leads, or from a list."""

from __future__ import annotations

from shlex import quote
from typing import Any

import click

from teamwright.ui.cli.choosing import choose, named
from teamwright.ui.cli.flags import HEADLESS, RUN
from teamwright.ui.cli.place import place_of
from teamwright.ui.cli.start import face_of, refuse_headless_flags, run
from teamwright.ui.cli.usage import too_many_words


@click.command(params=[*RUN, *HEADLESS])
@click.argument("session", required=False, metavar="[TEAM or SESSION]")
@click.argument("prompt", nargs=-1, metavar="[PROMPT]")
@click.pass_context
def resume(ctx: click.Context, /, session: str | None, prompt: tuple[str, ...], **flags: Any) -> int:
    """Go on with a team and its members, or with a session by the beginning of its id; without either choose.

    With -p, PROMPT or stdin says how to go on; without either it goes on with what is open. Caps count from here.
    """
    place = place_of(ctx)
    if len(prompt) > 1:
        headlessly = " -p" if flags.get("headless") else ""
        raise too_many_words(prompt, f"teamwright resume {quote(session or '')}{headlessly}")
    headless = face_of(flags, prompt, resumes=True)
    refuse_headless_flags(flags, headless=headless)
    chosen = choose(place, ask=not headless) if session is None else named(place, session, headless=headless)
    return run(chosen.place(place), {**flags, "resume": chosen.id}, prompt[0] if prompt else None, headless=headless)
