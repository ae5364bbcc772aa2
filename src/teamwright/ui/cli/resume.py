"""`teamwright resume`: resume a session by its id, by the name of its team, or from a list."""

from __future__ import annotations

from shlex import quote
from typing import Any

import click

from teamwright.ui.cli.flags import HEADLESS_FLAGS, RUN_FLAGS
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.cli.session_choice import choose_by_name, choose_session
from teamwright.ui.cli.start import is_headless, refuse_headless_flags, run
from teamwright.ui.cli.usage_errors import too_many_words


@click.command(params=[*RUN_FLAGS, *HEADLESS_FLAGS])
@click.argument("session", required=False, metavar="[TEAM or SESSION]")
@click.argument("prompt", nargs=-1, metavar="[PROMPT]")
@click.pass_context
def resume(ctx: click.Context, /, session: str | None, prompt: tuple[str, ...], **flags: Any) -> int:
    """Continue a team and its members, or a session by the beginning of its id. Without a name, choose from a list.

    With -p, PROMPT or stdin is the lead's next prompt; without either it continues open work. Caps count from zero.
    """
    place = run_location(ctx)
    if len(prompt) > 1:
        headlessly = " -p" if flags.get("headless") else ""
        raise too_many_words(prompt, f"teamwright resume {quote(session or '')}{headlessly}")
    headless = is_headless(flags, prompt, is_resume=True)
    refuse_headless_flags(flags, headless=headless)
    chosen = (
        choose_session(place, ask=not headless)
        if session is None
        else choose_by_name(place, session, headless=headless)
    )
    return run(
        chosen.run_location(place), {**flags, "resume": chosen.id}, prompt[0] if prompt else None, headless=headless
    )
