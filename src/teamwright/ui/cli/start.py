"""The start of a run: in a terminal or headless, or an error when neither is possible.

Only the interface that is needed is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from teamwright.protocol.errors import UsageError
from teamwright.ui.cli.run_location import RunLocation, is_on_terminal, open_files_home, run_location
from teamwright.ui.cli.usage_errors import nearest_command, too_many_words
from teamwright.ui.invocation import build_invocation, is_stdin_piped

_ONLY_HEADLESS = (
    *("ask", "output_format", "input_format", "verbose", "report", "strict"),
    *("permission_prompt_tool", "include_partial_messages", "json_schema", "replay_user_messages"),
    *("no_session_persistence", "init", "maintenance", "session_mirror"),
)


def start(ctx: click.Context, words: tuple[str, ...], flags: Mapping[str, Any]) -> int:
    """Start or resume a run, as the flags say. Returns the exit code; raises TeamwrightError."""
    place = run_location(ctx)
    if len(words) > 1:
        raise too_many_words(words)
    _refuse_contradictions(flags)
    headless = is_headless(flags, words, is_resume=bool(flags.get("latest")) or flags.get("resume") is not None)
    refuse_headless_flags(flags, headless=headless)
    found = _session_to_resume(place, flags, headless=headless)
    if found is not None:
        place, flags = found[1], {**flags, "resume": found[0]}
    return run(place, flags, words[0] if words else None, headless=headless)


def run(where: RunLocation, flags: Mapping[str, Any], prompt: str | None, *, headless: bool) -> int:
    """Run the call in a terminal or headless. Returns the exit code; raises TeamwrightError when it cannot start."""
    invocation = build_invocation(where, flags, prompt, interactive=not headless)
    if not headless:
        from teamwright.ui.terminal.interactive_session import run_interactive

        return run_interactive(invocation.options, invocation.prompt)
    if invocation.input_format == "text":
        invocation = invocation.with_prompt_read()
    elif prompt is not None:
        raise UsageError("usage", "with --input-format stream-json the prompts come on stdin alone")
    from teamwright.ui.headless.run import run_headless as face

    return face(invocation)


def is_headless(flags: Mapping[str, Any], words: tuple[str, ...], *, is_resume: bool = False) -> bool:
    """Return True for a headless run. Raises UsageError off a terminal when no flag asks for a headless run.

    A resumed session needs no prompt, so off a terminal it is headless.
    """
    if flags.get("headless"):
        return True
    if is_on_terminal():
        return False
    if is_stdin_piped() or is_resume:
        return True
    close = nearest_command(words[0]) if words else None
    raise UsageError(
        "usage",
        "this is not a terminal, and no prompt comes through a pipe",
        looked_at=[("nearest", close)] if close else [],
        do=[f'teamwright -p "{words[0] if words else "…"}"'[:120], 'echo "…" | teamwright', "teamwright --help"],
        note="nothing was started",
    )


def refuse_headless_flags(flags: Mapping[str, Any], *, headless: bool) -> None:
    """Raise UsageError for a flag that has no meaning in a terminal."""
    used = next((name for name in _ONLY_HEADLESS if flags.get(name)), None)
    if used is not None and not headless:
        flag = f"--{used.replace('_', '-')}"
        raise UsageError(
            "usage", f"{flag} needs -p", do=[f'teamwright -p {flag} … "PROMPT"'], note="nothing was started"
        )


def _refuse_contradictions(flags: Mapping[str, Any]) -> None:
    is_resume = bool(flags.get("latest")) or flags.get("resume") is not None
    if flags.get("no_session_persistence") and is_resume:
        what = "--no-session-persistence is for a new session: a session that continues was stored before"
        raise UsageError("usage", what, note="nothing was started")
    if flags.get("init") and flags.get("maintenance"):
        raise UsageError("usage", "--init and --maintenance contradict each other", note="nothing was started")
    is_fork = bool(flags.get("fork_session"))
    if is_fork and not is_resume:
        raise UsageError(
            "usage",
            "--fork-session needs a session to copy",
            do=["teamwright -c --fork-session", "teamwright -r ID --fork-session"],
            note="nothing was started",
        )
    at, drops = flags.get("resume_session_at"), flags.get("resume_drops_turn")
    if (at and not is_resume) or (drops is not None and not at):
        what = "--resume-session-at needs -c or -r" if at else "--resume-drops-turn needs --resume-session-at"
        do = ["teamwright -r ID --fork-session --resume-session-at UUID"]
        raise UsageError("usage", what, do=do, note="nothing was started")
    session_flags = {
        "--continue": bool(flags.get("latest")),
        "--resume": flags.get("resume") is not None,
        "--session-id": bool(flags.get("session_id")) and not is_fork,
    }
    names = [name for name, present in session_flags.items() if present]
    if len(names) > 1:
        raise UsageError("usage", f"{' and '.join(names)} contradict each other", note="nothing was started")


def _session_to_resume(
    where: RunLocation, flags: Mapping[str, Any], *, headless: bool
) -> tuple[str, RunLocation] | None:
    """Return id and location of the session of `-c` or `-r`; None for a new session."""
    if not flags.get("latest") and flags.get("resume") is None:
        return None
    from teamwright.ui.cli.session_choice import choose_by_name, choose_latest, choose_session

    if flags.get("session_mirror") and flags.get("resume"):
        from teamwright.ui.headless.transcript_mirror import take_over  # loaded only for a client with a store

        take_over(open_files_home(where), str(flags["resume"]))
    if flags.get("latest"):
        found = choose_latest(where)
    else:
        word = str(flags["resume"])
        plain = bool(flags.get("plain"))
        found = (
            choose_by_name(where, word, headless=headless)
            if word
            else choose_session(where, ask=not headless, plain=plain)
        )
    return found.id, found.run_location(where)
