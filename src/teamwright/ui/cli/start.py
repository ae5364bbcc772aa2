"""Where a run goes: to a terminal, to stdout alone, or nowhere with the reason.

Knows both faces by name and loads the one that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from teamwright.protocol.errors import UsageError
from teamwright.ui.cli.invocation import invocation_of, on_a_terminal, stdin_is_piped
from teamwright.ui.cli.place import Place, place_of
from teamwright.ui.cli.usage import near_command, too_many_words

_ONLY_HEADLESS = ("ask", "output_format", "input_format", "verbose", "report", "strict")


def start(ctx: click.Context, words: tuple[str, ...], flags: Mapping[str, Any]) -> int:
    """Begin a run, or go on with one, as the flags say. Returns the exit code; raises TeamwrightError."""
    place = place_of(ctx)
    if len(words) > 1:
        raise too_many_words(words)
    _refuse_contradictions(flags)
    headless = face_of(flags, words, resumes=bool(flags.get("latest")) or flags.get("resume") is not None)
    refuse_headless_flags(flags, headless=headless)
    found = _session_to_resume(place, flags, headless=headless)
    if found is not None:
        place, flags = found[1], {**flags, "resume": found[0]}
    return run(place, flags, words[0] if words else None, headless=headless)


def run(place: Place, flags: Mapping[str, Any], prompt: str | None, *, headless: bool) -> int:
    """Hand the call to its face. Returns the exit code; raises TeamwrightError when it cannot start."""
    invocation = invocation_of(place, flags, prompt, interactive=not headless)
    if not headless:
        from teamwright.ui.terminal.run import interactive

        return interactive(invocation.options, invocation.prompt)
    if invocation.input_format == "text":
        invocation = invocation.with_blocks()
    elif prompt is not None:
        raise UsageError("usage", "with --input-format stream-json the prompts come on stdin alone")
    from teamwright.ui.headless.run import headless as face

    return face(invocation)


def face_of(flags: Mapping[str, Any], words: tuple[str, ...], *, resumes: bool = False) -> bool:
    """Whether the run is headless. Raises UsageError when nobody is here and nothing says that it should be.

    A session that is resumed needs no prompt to go on, so off a terminal it does.
    """
    if flags.get("headless"):
        return True
    if on_a_terminal():
        return False
    if stdin_is_piped() or resumes:
        return True
    close = near_command(words[0]) if words else None
    raise UsageError(
        "usage",
        "this is not a terminal, and no prompt comes through a pipe",
        looked_at=[("nearest", close)] if close else [],
        do=[f'teamwright -p "{words[0] if words else "…"}"'[:120], 'echo "…" | teamwright', "teamwright --help"],
        note="nothing was started",
    )


def refuse_headless_flags(flags: Mapping[str, Any], *, headless: bool) -> None:
    """Raises UsageError for a flag that means nothing at a terminal."""
    used = next((name for name in _ONLY_HEADLESS if flags.get(name)), None)
    if used is not None and not headless:
        flag = f"--{used.replace('_', '-')}"
        raise UsageError(
            "usage", f"{flag} needs -p", do=[f'teamwright -p {flag} … "PROMPT"'], note="nothing was started"
        )


def _refuse_contradictions(flags: Mapping[str, Any]) -> None:
    said = {
        "--continue": bool(flags.get("latest")),
        "--resume": flags.get("resume") is not None,
        "--session-id": bool(flags.get("session_id")),
    }
    given = [name for name, present in said.items() if present]
    if len(given) > 1:
        raise UsageError("usage", f"{' and '.join(given)} contradict each other", note="nothing was started")


def _session_to_resume(place: Place, flags: Mapping[str, Any], *, headless: bool) -> tuple[str, Place] | None:
    """Id and place of what `-c` or `-r` means; None for a new session."""
    if not flags.get("latest") and flags.get("resume") is None:
        return None
    from teamwright.ui.cli.choosing import choose, latest, named

    if flags.get("latest"):
        found = latest(place)
    else:
        wanted = str(flags["resume"])
        found = named(place, wanted, headless=headless) if wanted else choose(place, ask=not headless)
    return found.id, found.place(place)
