"""The parser of typed lines: a prompt for the lead, a message to a member, or a command of the terminal.

An unknown command gets an answer that names the nearest one, or what a command of a similar program is called here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TypeAlias

from msgspec import Struct

from teamwright.protocol.ids import LEAD, LEAD_ALIAS, is_typo
from teamwright.session.options import BUILT_IN_PROMPTS, parse_slash_command
from teamwright.ui.display_text import clean

COMMANDS: dict[str, str] = {
    "/help": "list commands and keys",
    "/members": "list the members of the team with their work and what they wait for",
    "/view NAME": "show a member's conversation and write to it, or show a sub-agent's; /view returns to the lead",
    "/tasks": "list the tasks",
    "/status": "show the session: directory, model, mode, members, tasks, cost",
    "/cost": "show tokens and money used so far, by member",
    "/diff @NAME": "show what changed since the session began, and who changed it; --stat, or c7 for one call",
    "/log cN": "show the input and all output of call N",
    "/undo @NAME": "take back the last prompt's edits, after a question; --except PATH keeps a file",
    "/fork N": "start a second session with this conversation, or with its part before prompt N; list shows prompts",
    "/rewind N": "take conversation and files back to the time before a prompt, after a question",
    "/review-team": "show each member's report, changes, checks and cost; accept, return, undo or commit them",
    "/requests": "list what waits for your answer, and ask again what you postponed",
    "/interrupt NAME": "end a member's turn; the member stays, and waits for your message",
    "/stop NAME": "stop a member; its open tasks return to the list. Or stop a sub-agent or a command, by its id",
    "/hide NAME": "hide a member's pane; the member continues",
    "/show NAME": "show the pane of a hidden member",
    "/bg NAME": "move what an agent waits for to the background; of several it lists them for your choice",
    "/mode MODE @NAME": "set the permission mode of the lead or of a member; without MODE list the modes",
    "/model NAME @NAME": "set the model of the lead or of a member; without NAME list the models in use",
    "/reload": "read instructions, skills, agents, MCP servers and permissions again",
    "/btw @NAME QUESTION": "ask the lead or a member in passing, also while it works; it will not remember it",
    "/context @NAME": "show what fills the window of the lead or of a member, and when it is compacted",
    "/compact @NAME KEEP": "continue the lead or a member from a summary, which contains what you name",
    "/clear": "continue the lead with an empty conversation; team, members and tasks stay",
    "/skills": "list your commands and the skills",
    "/agents": "list the agent types; show NAME prints one of them",
    "/permissions": "show mode, directories and rules of this session; check Bash(…) shows the verdict on a call",
    "/config": "show the settings with their files; set KEY VALUE changes one",
    "/doctor": "check the setup of this session",
    "/hooks": "list the hooks with their files",
    "/memory": "list the instruction files; #NOTE adds a note to one",
    "/mcp": "list the MCP servers with their states and tools",
    "/add-dir PATH": "add a directory in which the agents may work, until this session ends",
    "/export FILE": "write the conversation of the lead as Markdown",
    "/init": "the lead reads this repository and writes AGENTS.md, or improves it",
    "/review": "the lead reviews what is not committed, or what you name",
    "/resume TEAM": "leave this session and continue another one: of that team or id, or from a list",
    "/quit": "leave; a question asks what happens to members at work",
}
"""The commands of the terminal, as /help lists them."""

ALIASES = {
    "/background": "/bg",
    "/bashes": "/members",
    "/branch": "/fork",
    "/checkpoint": "/rewind",
    "/continue": "/resume",
    "/exit": "/quit",
    "/new": "/clear",
    "/plan": "/mode plan",
    "/reset": "/clear",
    "/settings": "/config",
    "/todos": "/tasks",
    "/usage": "/cost",
}
"""Commands of similar programs that are commands here under another name."""

COMMAND_NAMES = tuple(usage.split()[0] for usage in COMMANDS)

_ABOUT_SETUP = frozenset({"/add-dir", "/agents", "/config", "/doctor", "/hooks", "/mcp", "/memory", "/permissions"})

_YIELDING = frozenset({*ALIASES, *BUILT_IN_PROMPTS, *_ABOUT_SETUP, "/export", "/skills", "/status"})
"""Commands that a custom command of the same name replaces."""

FIXED_NAMES = frozenset(COMMAND_NAMES) - _YIELDING
"""Commands that no custom command replaces."""

NEVER_SUGGESTED = frozenset({"/clear", "/compact", "/interrupt", "/quit", "/resume", "/rewind", "/stop", "/undo"})
"""Commands that end or remove work: a person who mistypes another command is not led to them."""

BARE = {"exit": "/quit", "quit": "/quit", ":q": "/quit", ":q!": "/quit", ":wq": "/quit", "help": "/help", "?": "/help"}
"""Single words that other programs accept as commands, and the commands that they mean here."""


class LeadPrompt(Struct, frozen=True):
    """A prompt for the lead; `mode` is set before it is sent, if it is not empty."""

    text: str
    mode: str = ""


class MemberMail(Struct, frozen=True):
    """A message to one member."""

    to: str
    text: str


class Note(Struct, frozen=True):
    """A line that starts with `#`: a note for an instruction file, which is not sent."""

    text: str = ""


class TerminalCommand(Struct, frozen=True):
    """A command of the terminal with its arguments."""

    name: str
    rest: str = ""


class CustomCommand(Struct, frozen=True):
    """A custom command or skill, by its name without the slash, and its arguments."""

    name: str
    rest: str = ""


class UnknownCommand(Struct, frozen=True):
    """An unknown command; `nearest` is the most similar known name, or empty."""

    name: str
    nearest: str = ""


ParsedLine: TypeAlias = LeadPrompt | MemberMail | Note | TerminalCommand | CustomCommand | UnknownCommand

_MAIL = re.compile(r"@([A-Za-z0-9][A-Za-z0-9_-]*)(?:@\S*)?[,:]?\s+(\S.*)", re.DOTALL)


def parse_line(
    line: str, members: Collection[str], is_path: bool = False, custom_commands: Collection[str] = ()
) -> ParsedLine:
    """Parse a typed line. `is_path` is True when the word after a leading `@` is a file, so it is not a member.

    `custom_commands` are names with their slash; commands of the terminal win over them.
    """
    text = line.strip()
    if bare := bare_command(text):
        return TerminalCommand(bare)
    if is_note(line):
        return Note(text.lstrip("#").strip())
    if called := parse_slash_command(text):
        name = f"/{called[0].lower()}"
        rest = called[1]
        if name in _YIELDING and is_custom_command(called[0], custom_commands):
            return CustomCommand(called[0], rest)
        if (prompt := _prompt_of_command(name, rest)) is not None:
            return prompt
        name, _, first = ALIASES.get(name, name).partition(" ")
        rest = f"{first} {rest}".strip()
        if name in COMMAND_NAMES:
            return TerminalCommand(name, rest)
        if is_custom_command(called[0], custom_commands):
            return CustomCommand(called[0], rest)
        return UnknownCommand(f"/{called[0]}", _harmless_match(name, [*COMMAND_NAMES, *custom_commands]))
    if found := _MAIL.fullmatch(text):
        name = found[1].lower()
        if name in {LEAD_ALIAS, LEAD}:
            return LeadPrompt(found[2])
        if name in {member.lower() for member in members} or not is_path:
            return MemberMail(found[1], found[2])
    return LeadPrompt(line)


def _prompt_of_command(name: str, rest: str) -> LeadPrompt | None:
    """Return the prompt that a command means: a built-in one, or the words after /plan, which set plan mode."""
    if name in BUILT_IN_PROMPTS:
        return LeadPrompt(f"{BUILT_IN_PROMPTS[name]}\n\n{rest}".rstrip())
    return LeadPrompt(rest, mode="plan") if name == "/plan" and rest and not rest.startswith("@") else None


def _harmless_match(name: str, known: Collection[str]) -> str:
    """Return the only command that the name begins, or of which it is a typo; never one that ends or removes work."""
    found = [one for one in known if is_typo(name, one) or (len(name) > 2 and one.lower().startswith(name))]
    return found[0] if len(found) == 1 and found[0] not in NEVER_SUGGESTED else ""


def is_custom_command(name: str, custom_commands: Collection[str]) -> bool:
    """Return True for one of these commands, also without its namespace when only one matches."""
    command = name.lower()
    names = [one.removeprefix("/").lower() for one in custom_commands]
    return command in names or [one.rpartition(":")[2] for one in names].count(command) == 1


def bare_command(line: str) -> str | None:
    """Return the command that a line without a slash means (`exit`), or None."""
    return BARE.get(line.strip().lower())


_NOTE = re.compile(r"#+(?![0-9#])[^\n]*")
"""A note, as in similar programs: one line that starts with `#`, but not with the number of an issue."""


def is_note(line: str) -> bool:
    """Return True for a note. A line with a blank before the `#` is a prompt."""
    return _NOTE.fullmatch(line.rstrip()) is not None


NOTE_LINES = (
    "  nothing was sent: a line that begins with # is a note for an instruction file",
    "  type it at the lead's terminal, which stores it; a blank before the # sends the line",
)
"""The lines that answer a note at a member's terminal."""


def leading_word(line: str) -> str:
    """Return the word after a leading `@`, or an empty text."""
    text = line.strip()
    return text[1:].split(maxsplit=1)[0] if text.startswith("@") and len(text) > 1 and not text[1].isspace() else ""


MAX_CUSTOM_COMMANDS = 40
"""The number of custom commands that a list shows; the rest is counted."""


def unknown_command_lines(unknown: UnknownCommand, custom_commands: Sequence[str] = ()) -> list[str]:
    """Return the lines for an unknown command; `custom_commands` are the names to list."""
    from teamwright.ui.claude_code_equivalents import session_command  # only for a wrong command

    if (row := session_command(unknown.name)) is not None:
        return [f"  there is no {clean(unknown.name)} here: {row.about}"]
    close = f"; did you mean {unknown.nearest}?" if unknown.nearest else ""
    names = clean(" ".join([*COMMAND_NAMES, *custom_commands[:MAX_CUSTOM_COMMANDS]]))
    return [f"  there is no {clean(unknown.name)}{close}", f"  there are  {names}"]


def has_equivalent(unknown: UnknownCommand) -> bool:
    """Return True for a command of a similar program, and for a typo of a command here; other texts may be paths."""
    from teamwright.ui.claude_code_equivalents import session_command  # only for a wrong command

    return bool(unknown.nearest) or session_command(unknown.name) is not None
