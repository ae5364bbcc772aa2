"""Programs that a line would find in a directory of the project, because the PATH names it.

A known name proves nothing about such a program: the project, or an accepted edit, put it there. Depends on the facts
about commands.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from teamwright.permissions.command_facts import CommandFacts, collect_facts
from teamwright.permissions.decision_context import DecisionContext
from teamwright.permissions.real_paths import real_path
from teamwright.permissions.shell.parsed_line import ParsedLine
from teamwright.permissions.verdict import Access


def collect_line_facts(context: DecisionContext, access: Access, parsed: ParsedLine) -> list[CommandFacts]:
    """Return the facts about each command of the line. A program of the project has no proof and accepts no edit."""
    facts = [collect_facts(context, command) for command in parsed.commands]
    entries = _search_path(access.search_path, context.directories)
    if not entries:
        return facts
    written = [path for fact in facts if fact.changes is not None for path in fact.changes.writes]
    return [_without_proof(fact, _project_program(fact, entries, written)) for fact in facts]


def _without_proof(fact: CommandFacts, program: str) -> CommandFacts:
    if not program:
        return fact
    command = replace(fact.command, role="unsure") if fact.command.role == "wrap" else fact.command
    return replace(fact, command=command, reads=None, changes=None, project_program=program)


@lru_cache(maxsize=32)
def _search_path(path: str, directories: tuple[str, ...]) -> tuple[tuple[str, bool], ...]:
    """Return the directories of the PATH, each with whether it is the project's; empty when none is.

    An entry that is not absolute names a directory below any directory that the line is in.
    """
    entries = tuple(
        (entry, not os.path.isabs(entry) or _is_inside(real_path(entry), directories))
        for entry in path.split(os.pathsep)
    )
    return entries if path and any(inside for _, inside in entries) else ()


def _is_inside(path: str, directories: Iterable[str]) -> bool:
    return f"{path}/".startswith(tuple(f"{one.rstrip('/')}/" for one in directories))


def _project_program(fact: CommandFacts, entries: Sequence[tuple[str, bool]], written: Sequence[Path]) -> str:
    """Return the path of the first program of this name on the PATH when it is the project's, or the line makes it so;
    empty for another program.
    """
    name = fact.command.name
    if name is None or "/" in name:
        return ""
    for entry, is_projects in entries:
        found = os.path.join(entry, name)
        if is_projects and (_may_be_written(entry, written) or _is_own(found, name)):
            return found
        if not is_projects and os.access(found, os.X_OK):
            return ""
    return ""


def _may_be_written(entry: str, written: Iterable[Path]) -> bool:
    real, paths = real_path(entry), map(real_path, written)
    return any(_is_inside(path, [real]) or _is_inside(real, [path]) for path in paths)


def _is_own(found: str, name: str) -> bool:
    """Return True when the file exists, and is no link to the program of the same name elsewhere.

    In a virtual environment `python` is such a link. An entry that is not absolute has any program.
    """
    if not os.path.isabs(found):
        return True
    real = os.path.realpath(found)
    directory = os.path.dirname(os.path.realpath(os.path.dirname(found)))
    linked = not _is_inside(real, [directory]) and os.path.basename(real).startswith(name)
    return os.path.lexists(found) and not linked
