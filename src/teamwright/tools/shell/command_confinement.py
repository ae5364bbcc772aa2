"""The confinement of one call of Bash: its policy, what the line names, and the files of rules.

Depends on the parser of shell lines and on the session's sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from teamwright.agent.tool import ToolContext
from teamwright.permissions.excluded_paths import ExcludedPaths, Segments, compile_patterns
from teamwright.permissions.shell.syntax_walk import parse_command
from teamwright.sandbox.command_needs import CommandNeeds, command_needs
from teamwright.sandbox.command_policy import ConfinementRequest
from teamwright.sandbox.policy import PolicyName
from teamwright.sandbox.protected_files import ProtectedFiles
from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
from teamwright.sandbox.violations import Refusal, find_refusal
from teamwright.tools.shell.command_guards import QUARANTINE

_MAX_ENTRIES = 50_000
"""Directory entries that are searched for files which deny rules name by a pattern."""


def confine_command(
    sandbox: Sandbox | None, command: str, ctx: ToolContext, own_files: Sequence[Path] = (), jobs: Sequence[int] = ()
) -> CommandConfinement | None:
    """Return the confinement of a command of an agent; None when it runs without one.

    `own_files` are files that the runtime makes the shell write; `jobs` are the pids of the agent's background jobs.
    """
    if sandbox is None or sandbox.is_off or ctx.confinement is PolicyName.UNCONFINED:
        return None
    place = ctx.workplace
    if ctx.confinement is PolicyName.WORK and _ends_own_jobs(command, place.cwd, jobs):
        return None
    return sandbox.confine(
        ConfinementRequest(
            ctx.confinement,
            place.roots,
            line_needs(command, place.cwd) if ctx.confinement is PolicyName.WORK else CommandNeeds(),
            denied=denied_paths(ctx.excluded_paths("Read", Path(os.sep)), place.roots),
            own_files=tuple(map(str, own_files)),
            ask_host=partial(ctx.may_connect, command),
        )
    )


def line_needs(command: str, cwd: Path) -> CommandNeeds:
    """Return the network and the credentials that a line names."""
    return command_needs(one.words for one in parse_command(command, cwd).commands)


def denied_paths(excluded: ExcludedPaths, roots: Sequence[Path]) -> tuple[str, ...]:
    """Return the existing paths that deny rules for Read name. Patterns are searched in a bounded number of entries.

    `excluded` are the patterns below `/`; a pattern that begins with a sign is searched in `roots`.
    """
    found: list[str] = []
    for pattern in excluded.patterns:
        fixed = next((at for at, name in enumerate(pattern) if set(name) & set("*?")), len(pattern))
        top = os.path.join(os.sep, *pattern[:fixed])
        if fixed == len(pattern):
            found.append(top)
        elif fixed:
            found += _matching_paths(top, pattern[fixed:])
        else:
            found += [path for root in roots for path in _matching_paths(str(root), pattern)]
    return tuple(path for path in found if os.path.lexists(path))


def _matching_paths(top: str, pattern: Segments) -> Iterator[str]:
    wanted, left = compile_patterns([pattern]), _MAX_ENTRIES
    for place, directories, files in os.walk(top):
        for name in (*directories, *files):
            path = os.path.join(place, name)
            if wanted.fullmatch(os.path.relpath(path, top)):
                yield path
        left -= len(directories) + len(files)
        if left < 0:
            return


def _ends_own_jobs(command: str, cwd: Path, jobs: Sequence[int]) -> bool:
    """Return True for a line that only sends signals to background jobs of the agent. A sandbox would not see them."""
    parsed = parse_command(command, cwd)
    if not jobs or not parsed.is_valid or parsed.doubt or parsed.redirects or not parsed.commands:
        return False
    known = {str(pid) for pid in jobs}
    return all(_is_kill(one.words, known) for one in parsed.commands)


def _is_kill(words: Sequence[str | None], known: set[str]) -> bool:
    """Return True for `kill`, perhaps with a signal, whose targets are all known."""
    if not words or words[0] != "kill" or None in words:
        return False
    signal, *targets = [*filter(None, words[1:]), ""]
    if not (signal.startswith("-") and any(targets)):
        targets = [signal]
    numbers = [target.removeprefix("-") for target in targets if target not in {"", "--"}]
    return bool(numbers) and known.issuperset(numbers)


def find_refusals(
    confinement: CommandConfinement, guard: ProtectedFiles, output: str, cwd: Path, scratch: Path, code: int | None
) -> tuple[Refusal | None, str]:
    """Undo changes of protected files. Return what the sandbox refused, as far as the output shows it, and the lines
    about both.
    """
    quarantine = scratch.parent / QUARANTINE
    undone = guard.restore(quarantine)
    note = f"[The sandbox undid changes of protected paths: {', '.join(undone[:5])}. The files are in {quarantine}]"
    refusal = None
    if confinement.policy.name is not PolicyName.READ or code:
        hosts = confinement.route.refused if confinement.route is not None else ()
        refusal = find_refusal(confinement.policy, output, str(cwd), hosts, replaces_tmp=confinement.replaces_tmp)
    return refusal, (refusal.note() if refusal is not None else "") + (note if undone else "")
