"""Findings of `doctor` about backends: the one in use here and why, tmux, and terminal adapters.

Looks for programs and runs `tmux -V`; opens no terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from teamwright.protocol.errors import TeamwrightError
from teamwright.session.member_process.backend_choice import BackendChoice
from teamwright.teams.backends.adapter_backend import unusable_reason
from teamwright.teams.backends.backend_choice import SelectedBackend
from teamwright.teams.backends.backend_settings import BackendSettings
from teamwright.teams.backends.tmux_server import TmuxProgram
from teamwright.views.doctor.finding import DoctorSubject, Finding

_SECTION = "members"


def places_findings(subject: DoctorSubject, settings: BackendSettings) -> Iterator[Finding]:
    """Yield the backend that members would get, and the available ones."""
    places = BackendChoice(subject.env, settings, logs=subject.home.own, at_terminal=subject.at_terminal)
    tmux, choice = asyncio.run(_asked(places))
    said = f"members.backend is {settings.backend}"
    if isinstance(choice, SelectedBackend):
        yield Finding(_SECTION, "backend", f"{choice.backend}: {said}, and {choice.reason}")
    else:
        yield Finding(_SECTION, "backend", f"{said}: {choice.what}", "problem", choice.do[0] if choice.do else "")
    yield _tmux(tmux, subject)
    for name, recipe in places.recipes.items():
        reason, own = unusable_reason(recipe, subject.env), name in settings.adapters
        tried = f"tried with {recipe.tried}" if recipe.tried else "untried" if not own else "yours"
        if not reason:
            yield Finding(_SECTION, name, f"can be used ({tried})", "ok", f"to use it: teamwright --backend {name}")
        elif own or name == settings.backend:
            yield Finding(_SECTION, name, f"cannot be used: {reason}", "note", "see docs/backends.md")


async def _asked(places: BackendChoice) -> tuple[TmuxProgram, SelectedBackend | TeamwrightError]:
    try:
        choice: SelectedBackend | TeamwrightError = await places.preview()
    except TeamwrightError as problem:
        choice = problem
    return await places.tmux(), choice


def _tmux(found: TmuxProgram, subject: DoctorSubject) -> Finding:
    where = "this terminal is in it" if subject.env.get("TMUX") else "this terminal is not in it"
    if found.problem:
        do = "not needed; members run in the lead's process then"
        return Finding(_SECTION, "tmux", found.problem, "note", do)
    return Finding(_SECTION, "tmux", f"{found.version} at {found.program}; {where}")
