"""What `doctor` finds of members' places: which they would get here and why, tmux, and terminals of recipes.

Programs are looked for, and `tmux -V` is asked; nothing is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from teamwright.app.looking.finding import Finding, Subject
from teamwright.app.members.places import Places
from teamwright.protocol.errors import TeamwrightError
from teamwright.teams.places.choosing import Choice
from teamwright.teams.places.custom import why_not
from teamwright.teams.places.settings import PlacesSettings
from teamwright.teams.places.tmux_server import Found

_SECTION = "members"


def places_findings(subject: Subject, settings: PlacesSettings) -> Iterator[Finding]:
    """The place that members would get, and what there is."""
    places = Places(subject.env, settings, logs=subject.home.ours, at_terminal=subject.at_terminal)
    tmux, choice = asyncio.run(_asked(places))
    said = f"members.backend is {settings.backend}"
    if isinstance(choice, Choice):
        yield Finding(_SECTION, "backend", f"{choice.place}: {said}, and {choice.why}")
    else:
        yield Finding(_SECTION, "backend", f"{said}: {choice.what}", "problem", choice.do[0] if choice.do else "")
    yield _tmux(tmux, subject)
    for name, recipe in places.recipes.items():
        reason, own = why_not(recipe, subject.env), name in settings.recipes
        tried = f"tried with {recipe.tried}" if recipe.tried else "untried" if not own else "yours"
        if not reason:
            yield Finding(_SECTION, name, f"can be used ({tried})", "ok", f"to use it: teamwright --backend {name}")
        elif own or name == settings.backend:
            yield Finding(_SECTION, name, f"cannot be used: {reason}", "note", "see docs/places.md")


async def _asked(places: Places) -> tuple[Found, Choice | TeamwrightError]:
    try:
        choice: Choice | TeamwrightError = await places.would_choose()
    except TeamwrightError as problem:
        choice = problem
    return await places.tmux(), choice


def _tmux(found: Found, subject: Subject) -> Finding:
    where = "this terminal is in it" if subject.env.get("TMUX") else "this terminal is not in it"
    if found.why_not:
        do = "not needed; members run in the lead's process then"
        return Finding(_SECTION, "tmux", found.why_not, "note", do)
    return Finding(_SECTION, "tmux", f"{found.version} at {found.program}; {where}")
