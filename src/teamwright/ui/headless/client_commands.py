"""Slash commands in a client's prompts: those that act on the session without a model, and the person's own ones.

A prompt that only looks like a command, such as a path, goes to the model. Depends on the commands of the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.messages import message_text
from teamwright.session.control.action_table import ask_agent, compact_agent
from teamwright.session.options import BUILT_IN_PROMPTS, parse_slash_command
from teamwright.session.result import Result
from teamwright.session.session import Session
from teamwright.session.slash_command_call import callable_names, offered_names
from teamwright.ui.headless.slash_command import IN_PLACE, run_slash_command

_SAME = {"/usage": "/cost", "/new": "/clear", "/reset": "/clear"}
_SHOWING = ("/context", "/cost", "/hooks", "/mcp", "/members", "/memory", "/skills", "/status", "/tasks")
"""Commands of the terminal that a client can use too."""

CLIENT_COMMANDS = {
    "/btw": "Ask a question that the conversation will not contain.",
    "/clear": "Continue with an empty conversation.",
    "/compact": "Continue from a summary of the conversation.",
    "/context": "Show what fills the context window.",
    "/cost": "Show tokens and money used so far.",
}
"""The commands that clients are told of, with what each does."""


def offered_commands(session: Session) -> list[str]:
    """Return the commands of a client without their slash: those that act here, then the person's own."""
    own = offered_names(session)["slash_commands"]
    return [*(name[1:] for name in CLIENT_COMMANDS if name[1:] not in own), *own]


def is_clear(prompt: Sequence[dict[str, Any]]) -> bool:
    """Return True for the command that clears the conversation."""
    called = parse_slash_command(message_text(prompt)) if len(prompt) == 1 else None
    return called is not None and _SAME.get(f"/{called[0].lower()}", f"/{called[0].lower()}") == "/clear"


async def run_client_command(session: Session, prompt: Sequence[dict[str, Any]]) -> Result | None:
    """Carry out a prompt that is a slash command, and return its result; None when it is a prompt for the model.

    A command that needs a terminal costs nothing: the result says what to use in its place. A command that fails does
    not end the session: its result says why.
    """
    if any(block.get("type") != "text" for block in prompt):
        return None
    called = parse_slash_command(message_text(prompt))
    if called is None:
        return None
    try:
        return await _run_command(session, *called)
    except TeamwrightError as problem:
        return await session.result("done", problem.what)


async def _run_command(session: Session, called: str, words: str) -> Result | None:
    """Carry out `/called words`; None when it is a text. Raises TeamwrightError."""
    name = f"/{called.lower()}"
    is_untrusted = called.lower() in session.agent_factory.toolset.shelf.untrusted
    if name in callable_names(session) or name in BUILT_IN_PROMPTS or is_untrusted:
        return await run_slash_command(session, called, words, "")
    name = _SAME.get(name, name)
    if name == "/compact":
        done = await compact_agent(session, "", words)
        text = f"compacted: {done.before:,} tokens became {done.after:,}" if done.done else f"not compacted: {done.why}"
        return await session.result("done", text)
    if name == "/btw":
        first, _, question = words.partition(" ")
        named = first.startswith("@") and len(first) > 1
        answer = await ask_agent(session, question if named else words, first[1:] if named else "")
        return await session.result("done", answer)
    if name in _SHOWING:
        from teamwright.ui.terminal.commands import HANDLERS  # only for a client that uses one

        return await session.result("done", "\n".join(await HANDLERS[name](session, words)))
    from teamwright.ui.claude_code_equivalents import session_command  # only for a prompt with a slash

    row = session_command(name)
    if (instead := IN_PLACE.get(name) or (row.about if row is not None else None)) is not None:
        return await session.result("done", f"{name} is not available to a client. Instead: {instead}")
    return None  # the beginning of a text, such as a path
