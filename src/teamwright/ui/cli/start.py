"""Where a run goes: to a terminal, to stdout alone, or nowhere with the reason.

Knows both faces by name and loads the one that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from teamwright.protocol.errors import UsageError
from teamwright.ui.cli.invocation import Invocation, invocation_of, on_a_terminal, stdin_is_piped
from teamwright.ui.cli.place import Place, place_of
from teamwright.ui.cli.usage import too_many_words

_ONLY_HEADLESS = ("output_format", "input_format", "verbose", "report", "strict")


def start(ctx: click.Context, words: tuple[str, ...], flags: Mapping[str, Any]) -> int:
    """Begin a run, or go on with one, as the flags say. Returns the exit code; raises TeamwrightError."""
    place = place_of(ctx)
    if len(words) > 1:
        raise too_many_words(words)
    _refuse_contradictions(flags)
    headless = bool(flags.get("headless")) or (not on_a_terminal() and stdin_is_piped())
    if not headless and not on_a_terminal():
        raise _nobody_here(words)
    chosen = {**flags, **_where_to_begin(place, flags, headless=headless)}
    place = chosen.pop("place", place)
    return run(invocation_of(place, chosen, words[0] if words else None, interactive=not headless), headless=headless)


def run(invocation: Invocation, *, headless: bool) -> int:
    """Hand the call to its face."""
    if headless:
        from teamwright.ui.headless.run import headless as face

        return face(invocation)
    from teamwright.ui.terminal.run import interactive

    return interactive(invocation.options, invocation.prompt)


def _refuse_contradictions(flags: Mapping[str, Any]) -> None:
    given = [
        name
        for name, present in (
            ("--continue", bool(flags.get("latest"))),
            ("--resume", flags.get("resume") is not None),
            ("--session-id", bool(flags.get("session_id"))),
        )
        if present
    ]
    if len(given) > 1:
        raise UsageError("usage", f"{' and '.join(given)} contradict each other", note="nothing was started")
    used = [name for name in _ONLY_HEADLESS if flags.get(name)]
    if used and not flags.get("headless") and on_a_terminal():
        flag = f"--{used[0].replace('_', '-')}"
        raise UsageError(
            "usage", f"{flag} needs -p", do=[f'teamwright -p {flag} … "PROMPT"'], note="nothing was started"
        )


def _nobody_here(words: tuple[str, ...]) -> UsageError:
    return UsageError(
        "usage",
        "this is not a terminal, and no prompt comes through a pipe",
        do=[f'teamwright -p "{words[0] if words else "…"}"'[:120], 'echo "…" | teamwright', "teamwright --help"],
        note="nothing was started",
    )


def _where_to_begin(place: Place, flags: Mapping[str, Any], *, headless: bool) -> dict[str, Any]:
    """`resume` (and another place, when the session belongs to another directory) for `-c` and `-r`."""
    if not flags.get("latest") and flags.get("resume") is None:
        return {}
    from teamwright.ui.cli.choosing import choose, latest, named

    if flags.get("latest"):
        return {"resume": latest(place).id}
    wanted = str(flags["resume"])
    found = named(place, wanted) if wanted else choose(place, ask=not headless)
    return {"resume": found.id, "place": found.place(place)}
