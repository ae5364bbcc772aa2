"""Preparation of a slash command's prompt: arguments, output of its shell lines, attached files.

Shell lines are Bash calls of the lead, with hooks, rules, questions and the log. Only files that the lead may read
without a question are attached. Depends on sessions.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.permissions.rules import Rule, parse_rules
from teamwright.permissions.verdict import Access, Verdict
from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.ids import message_id
from teamwright.protocol.messages import Block, ToolCall, text_block
from teamwright.session.prompt_input import read_attachment
from teamwright.session.session import Session
from teamwright.skills.command_template import (
    MAX_PIECES,
    TemplatePiece,
    UnsafeArgument,
    fill_pieces,
    split_template,
)
from teamwright.skills.skill_definition import SkillDefinition

_TAIL = ".,;:!?)]}…"


class CommandCall(Struct, frozen=True):
    """A command that a person called, with its arguments; `before` is the text of stdin."""

    skill: SkillDefinition
    arguments: str = ""
    before: str = ""

    @property
    def line(self) -> str:
        """The command as it was typed."""
        return f"/{self.skill.name} {self.arguments}".strip()


def rules_of(session: Session, skill: SkillDefinition) -> tuple[Rule, ...]:
    """Return the calls that the command allows, as rules. Raises UsageError for an invalid one.

    Rules of a trusted repository also allow the git commands that they name; those of a plugin do not.
    """
    base = session.agent_factory.policy.scope.base
    own = not skill.is_from_repository
    trusted = skill.is_from_repository and not skill.location.startswith("plugin ")
    source, allowed = f"/{skill.name}", session.agent_factory.toolset.shelf.allowed_tools(skill)
    return tuple(parse_rules(allowed, Verdict.ALLOW, source, base, by_user=own, trusted=trusted))


async def prepare_prompt(session: Session, called: CommandCall) -> list[Block]:
    """Return the prompt of the command. Raises UsageError when it may not, or cannot, be called.

    A refused shell line ends the command, and nothing is sent. A failing one is included with its exit code.
    """
    skill = called.skill
    shelf = session.agent_factory.toolset.shelf
    body = await asyncio.to_thread(shelf.read_body, skill)
    parts = await asyncio.to_thread(split_template, body)
    busy = [part for part in parts if part.kind != "text"]
    if len(busy) > MAX_PIECES:
        what = f"/{skill.name} has {len(busy)} shell lines and files; {MAX_PIECES} is the most"
        raise UsageError("usage", what, looked_at=[("file", str(skill.file))], note="nothing was run")
    try:
        parts = fill_pieces(parts, shelf.parse_arguments(skill, called.arguments))
    except UnsafeArgument as problem:
        raise UsageError(
            "usage",
            f"/{skill.name} puts its arguments into a shell line, which takes plain words only",
            looked_at=[("argument", str(problem)[:80])],
            do=["leave out quotes, parentheses and other signs that a shell reads"],
            note="nothing was run",
        ) from None
    text, files = await _assemble(session, called, parts)
    blocks = [text_block(part) for part in (called.before.strip("\n"), text) if part.strip()]
    return [*blocks, *await asyncio.to_thread(_attachments, session, files)]


async def _assemble(session: Session, called: CommandCall, parts: Sequence[TemplatePiece]) -> tuple[str, list[str]]:
    """Return the text with the output of its shell lines, and the names of files in it."""
    pieces: list[str] = []
    files: list[str] = []
    for part in parts:
        match part.kind:
            case "shell":
                pieces.append(await _shell_output(session, called.skill, part.text))
            case "file":
                files.append(part.text)
                pieces.append(f"@{part.text}")
            case _:
                pieces.append(part.text)
    text = "".join(pieces).strip()
    if not text and not files:
        raise UsageError("usage", f"/{called.skill.name} says nothing", looked_at=[("file", str(called.skill.file))])
    return text, files


async def _shell_output(session: Session, skill: SkillDefinition, command: str) -> str:
    """Return the output of a shell line. Raises UsageError when it was not allowed."""
    denied = len(session.agent_factory.denials)
    use = f"command_{message_id()}"
    call = ToolCall(use, "Bash", {"command": command, "description": f"for /{skill.name}"})
    result = await session.lead.agent.toolbox.run_call(call)
    text = result.content if isinstance(result.content, str) else "".join(b.get("text", "") for b in result.content)
    refused = next((one for one in session.agent_factory.denials[denied:] if one.tool_use_id == use), None)
    if refused is not None:
        mere = refused.rule.startswith("mode ")  # no rule forbids it, so a rule may allow it
        raise UsageError(
            "usage",
            f"a shell line of /{skill.name} was not allowed: {refused.reason.rstrip('.')}",
            looked_at=[("command", " ".join(command.split())[:200]), ("rule", refused.rule)],
            do=[f"allowed-tools: Bash({command.split()[0]}:*) in {skill.file} would allow it"] if mere else [],
            note="nothing was sent",
        )
    return text


def _attachments(session: Session, names: Sequence[str]) -> list[Block]:
    """Return the files as blocks, each once; a sentence for an unreadable one. Names without a file stay text."""
    cwd = session.agent_factory.work_directory
    found: dict[Path, Block] = {}
    for name in names:
        path = next((p for form in (name, name.rstrip(_TAIL)) if (p := _file(form, cwd)) is not None), None)
        if path is None or path in found:
            continue
        access = Access(reads=(path,))
        if session.agent_factory.policy.decide("Read", access).verdict is not Verdict.ALLOW:
            found[path] = text_block(f"[@{name} was not attached: the lead may not read it without a question]")
            continue
        try:
            found[path] = read_attachment(path, cwd)
        except (UsageError, StorageError) as problem:
            found[path] = text_block(f"[@{name} was not attached: {problem.what}]")
    return list(found.values())


def _file(name: str, cwd: Path) -> Path | None:
    try:
        path = Path(os.path.realpath(cwd / os.path.expanduser(name)))
        return path if name and path.is_file() else None
    except (OSError, ValueError):
        return None
