"""Prompts `/name …` of a headless run: commands of files, and built-in prompts."""

from __future__ import annotations

from teamwright.protocol.errors import UsageError
from teamwright.session.options import BUILT_IN_PROMPTS, read_prompt
from teamwright.session.result import Result
from teamwright.session.session import Session
from teamwright.session.slash_command_call import find_command, run_command

IN_PLACE = {
    "/add-dir": "--add-dir DIR",
    "/agents": "teamwright agents",
    "/clear": "a run without -c and -r begins with an empty conversation",
    "/compact": "a conversation is compacted automatically",
    "/config": "teamwright config",
    "/context": "--output-format json: `usage` has the tokens of the run",
    "/cost": "teamwright cost",
    "/diff": "teamwright diff",
    "/doctor": "teamwright doctor",
    "/exit": "a run ends with its answer",
    "/export": "--report FILE",
    "/fork": "-c --fork-session",
    "/help": "teamwright --help",
    "/hooks": "teamwright check",
    "/log": "teamwright log",
    "/mcp": "teamwright mcp list",
    "/members": "teamwright status",
    "/memory": "teamwright check",
    "/mode": "--permission-mode MODE",
    "/model": "--model NAME",
    "/permissions": "teamwright permissions",
    "/plan": "--permission-mode plan",
    "/requests": "teamwright requests",
    "/resume": "-r ID, or -c for the newest session",
    "/review-team": "teamwright review",
    "/rewind": "teamwright rewind",
    "/skills": "teamwright check",
    "/status": "teamwright status",
    "/stop": "teamwright stop",
    "/tasks": "teamwright tasks",
    "/undo": "teamwright undo",
    "/usage": "teamwright cost",
}
"""Commands of the terminal, and what a headless run has in the place of each, for the error that names it."""


async def run_slash_command(session: Session, name: str, arguments: str, stdin: str) -> Result:
    """Run the command of that name, or the built-in prompt. Raises UsageError for an unknown command.

    A command or skill of the person, and one of a repository that is not trusted yet, replaces a built-in prompt.
    """
    known = f"/{name.lower()}"
    is_own = name.lower() in session.agent_factory.toolset.shelf.untrusted
    try:
        find_command(session, name)
    except UsageError:
        if is_own:
            raise
        if (prompt := BUILT_IN_PROMPTS.get(known)) is not None:
            return await session.run(
                read_prompt(f"{prompt}\n\n{arguments}", stdin, session.agent_factory.work_directory)
            )
        if (instead := IN_PLACE.get(known)) is not None:
            raise UsageError(
                "usage", f"{known} is a command of a session at a terminal", do=[instead], note="nothing was sent"
            ) from None
        raise
    return await run_command(session, name, arguments, before=stdin)
