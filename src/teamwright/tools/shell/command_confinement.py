"""The confinement of one call of Bash: its policy, what the line names, and the files that deny rules for Read name.

A sandbox hides paths, so the pattern of a rule is searched in the file system before each command.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from teamwright.agent.tool import ToolContext
from teamwright.permissions.excluded_paths import ExcludedPaths, Segments, compile_patterns
from teamwright.sandbox.command_needs import Words, command_needs
from teamwright.sandbox.command_policy import ConfinementRequest
from teamwright.sandbox.git_signatures import with_signatures
from teamwright.sandbox.named_hosts import Destination, named_hosts
from teamwright.sandbox.policy import PolicyName, SandboxPolicy, is_inside
from teamwright.sandbox.protected_file_check import ProtectedFiles
from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
from teamwright.sandbox.violations import Refusal, find_refusal, short_path
from teamwright.shell_lines.expansion import Shape
from teamwright.shell_lines.parse import parse_command
from teamwright.shell_lines.parsed_line import ShellCommand
from teamwright.tools.shell.command_guards import QUARANTINE


def confine_command(
    sandbox: Sandbox | None,
    command: str,
    ctx: ToolContext,
    hosts: Sequence[Destination] = (),
    own_files: Sequence[Path] = (),
    jobs: Sequence[int] = (),
) -> CommandConfinement | None:
    """Return the confinement of a command of an agent; None when it runs without one.

    `hosts` are those that it names (`find_hosts`). `own_files` are files that the runtime makes the shell write; `jobs`
    are the pids of the agent's background jobs.
    """
    grant = ctx.grant
    place = ctx.workplace
    if sandbox is None or sandbox.is_off or grant.policy is PolicyName.UNCONFINED:
        return None
    if grant.policy is PolicyName.WORK and _ends_own_jobs(command, place.cwd, jobs):
        return None
    denied = denied_paths(ctx.excluded_paths("Read", Path(os.sep)), grant.directories, sandbox.warn)
    files = tuple(map(str, own_files))
    if grant.policy is not PolicyName.WORK:
        request = ConfinementRequest(grant.policy, grant.directories, denied=denied, own_files=files)
        return sandbox.confine(request)
    request = _signing_request(sandbox, command, ctx)
    ask = partial(ctx.may_connect, command)
    return sandbox.confine(replace(request, denied=denied, hosts=hosts, own_files=files, ask_host=ask))


async def find_hosts(sandbox: Sandbox, command: str, cwd: Path) -> tuple[Destination, ...]:
    """Return the hosts that a line names. Files and remotes are read in a thread, if it names the network at all."""
    commands = _commands(command, cwd)
    if not command_needs(commands).network:
        return ()
    return await asyncio.to_thread(named_hosts, commands, cwd, sandbox.place.home, sandbox.place.env)


def line_request(command: str, cwd: Path, roots: Sequence[Path]) -> ConfinementRequest:
    """Return the confinement of a line in the policy *work*, with the network and the credentials that it names."""
    return ConfinementRequest(PolicyName.WORK, roots, command_needs(_commands(command, cwd)))


def _signing_request(sandbox: Sandbox, command: str, ctx: ToolContext) -> ConfinementRequest:
    """Return the confinement of an agent's line, with what it was granted and the keys for signatures: the question
    names them.

    Landlock cannot open the socket of one agent alone.
    """
    grant = ctx.grant
    place = ctx.workplace
    paths = sandbox.place
    request = line_request(command, place.cwd, grant.directories)
    request = replace(request, shown=grant.named.readable, opened=grant.named.writable)
    if sandbox.implementation().bubblewrap is None:
        return request
    needs = with_signatures(request.needs, _commands(command, place.cwd), place.cwd, paths.home, paths.env)
    return replace(request, needs=needs)


def describe_needs(sandbox: Sandbox, command: str, ctx: ToolContext, hosts: Sequence[Destination]) -> str:
    """Return the network, hosts and credentials that a line names, for the question; empty when there are none."""
    request = _signing_request(sandbox, command, ctx)
    return request.needs.describe(map(str, hosts) if sandbox.asks_about_hosts(request) else None)


def describe_limits(sandbox: Sandbox, command: str, ctx: ToolContext) -> str:
    """Return the files that the line names and that the sandbox keeps from it, for the question; empty without any."""
    found = sandbox.implementation()
    if ctx.grant.policy is not PolicyName.WORK or found.name == "none":
        return ""
    policy = sandbox.policy(_signing_request(sandbox, command, ctx))
    named = ctx.grant.named
    place = str(ctx.workplace.cwd)
    own = [path for path in (policy.temporary, "/tmp" if sandbox.replaces_tmp else "") if path]
    divides = found.bubblewrap is None
    kept = [
        one
        for one in named.changes
        if not any(is_inside(one, top) for top in own) and not _may_change(policy, one, divides=divides)
    ]
    hidden = [one for one in named.reads if not policy.may_read(one)]
    parts = [f"hides {_list_paths(hidden, place)}"] if hidden else []
    parts += [f"keeps {_list_paths(kept, place)} unchanged"] if kept else []
    return f"the sandbox {' and '.join(parts)}" if parts else ""


def _may_change(policy: SandboxPolicy, path: str, *, divides: bool) -> bool:
    """Return True when a command can change or make a file. `divides`: without mounts (Landlock) nothing can be made in
    a directory in which a path is hidden, because its other entries are opened one by one.
    """
    if not policy.may_change(path) or not divides or os.path.exists(path):
        return policy.may_change(path)
    place = next(str(one) for one in Path(path).parents if one.is_dir())
    return not any(is_inside(one, place) for one in policy.hidden)


_MAX_LISTED = 3


def _list_paths(paths: Sequence[str], cwd: str) -> str:
    """Return the first paths as a person names them, without those inside of another one."""
    paths = [one for one in paths if not any(one != top and is_inside(one, top) for top in paths)]
    names = [os.path.relpath(path, cwd) if is_inside(path, cwd) else short_path(path) for path in paths[:_MAX_LISTED]]
    return f"{', '.join(names)}{' and others' if len(paths) > _MAX_LISTED else ''}"


def _commands(command: str, cwd: Path) -> list[Words]:
    return [_known_words(one) for one in parse_command(command, cwd).commands]


def _known_words(command: ShellCommand) -> Words:
    """Return the words. Of an address whose end only the shell knows, the part with the host."""
    if None not in command.words:
        return command.words
    return [word if word is not None else _address_begin(command.shape(at)) for at, word in enumerate(command.words)]


_WITH_HOST = re.compile(r"[a-z]+://[\w.:-]+/")
"""The beginning of an address up to the end of its host."""


def _address_begin(shape: Shape) -> str | None:
    first = shape[0] if shape else None
    return first if first is not None and _WITH_HOST.match(first) else None


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
    about both and about the limit for which it ended the command.
    """
    quarantine = scratch.parent / QUARANTINE
    undone = guard.restore(quarantine)
    note = f"[The sandbox undid changes of protected paths: {', '.join(undone[:5])}. The files are in {quarantine}]"
    refusal = None
    if confinement.policy.name is not PolicyName.READ or code:
        hosts = confinement.route.refused if confinement.route is not None else ()
        refusal = find_refusal(confinement.policy, output, str(cwd), hosts, replaces_tmp=confinement.replaces_tmp)
    limit = confinement.limits.exceeded if confinement.limits is not None else ""
    ended = f"[The sandbox ended the command: {limit}.]" if limit else ""
    return refusal, (refusal.note() if refusal is not None else "") + (note if undone else "") + ended


MAX_ENTRIES = 50_000
"""Directory entries that are searched below one directory. Entries near to it come first."""


def denied_paths(
    excluded: ExcludedPaths, roots: Sequence[os.PathLike[str]], warn: Callable[[str], None]
) -> tuple[str, ...]:
    """Return the existing paths that the patterns name; of a directory, only itself.

    `excluded` are the patterns below `/`; a pattern that begins with a sign is searched in `roots`. `warn` is called
    with a sentence about each directory that has more than `MAX_ENTRIES` entries.
    """
    found = list[str]()
    searched = defaultdict[str, list[Segments]](list)
    for pattern in excluded.patterns:
        fixed = next((at for at, name in enumerate(pattern) if set(name) & set("*?")), len(pattern))
        top = os.path.join(os.sep, *pattern[:fixed])
        if fixed == len(pattern):
            found.append(top)
        else:
            for directory in [top] if fixed else map(os.fspath, roots):
                searched[directory].append(pattern[fixed:])
    for directory, patterns in searched.items():
        found += _matching_paths(directory, patterns, warn)
    return tuple(path for path in dict.fromkeys(found) if os.path.lexists(path))


def _matching_paths(top: str, patterns: Sequence[Segments], warn: Callable[[str], None]) -> Iterator[str]:
    """Yield the paths below `top` that a pattern names, nearest first. Links are not followed."""
    matches = compile_patterns(patterns).fullmatch
    left = MAX_ENTRIES
    directories = deque([(top, "")])
    while directories:
        directory, prefix = directories.popleft()
        if left < 0:
            warn(_too_many(top, patterns))
            return
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if matches(prefix + entry.name):
                yield entry.path
            elif _is_directory(entry):
                directories.append((entry.path, f"{prefix}{entry.name}/"))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _too_many(top: str, patterns: Sequence[Segments]) -> str:
    rules = ", ".join("/".join(pattern) for pattern in patterns[:3])
    return (
        f"{top} has more than {MAX_ENTRIES:,} entries, so that the sandbox does not search all of it: deep inside it, "
        f"commands can read files that the deny rules for Read name ({rules}). Name their directories in the rules."
    )
