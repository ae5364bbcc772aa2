"""The confinement of programs that work in a session beside the tools of agents, in the sandbox policy *work*.

Such programs are checks of tasks, commands in worktrees and MCP servers of a repository. The sandbox is imported with
the first of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from teamwright.git.repository import discover, work_tree
from teamwright.protocol.ids import LEAD

if TYPE_CHECKING:
    from teamwright.agent.permission_gate import PermissionGate
    from teamwright.permissions.excluded_paths import Segments
    from teamwright.sandbox.command_policy import ConfinementRequest
    from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
    from teamwright.session.agents.factory import AgentFactory


def confine_work(
    sandbox: Sandbox, gate: PermissionGate, program: str, roots: Sequence[Path]
) -> CommandConfinement | None:
    """Return the confinement of a program that may change these directories; None when the sandbox is off.

    `gate` has the deny rules for reading, and asks about hosts; `program` is the name of the program there.
    """
    return _confine(sandbox, gate, program, work_request(roots))


def work_request(roots: Sequence[Path]) -> ConfinementRequest:
    """Return the confinement of a program that may change these directories, and names nothing else."""
    from teamwright.sandbox.command_policy import ConfinementRequest
    from teamwright.sandbox.policy import PolicyName

    return ConfinementRequest(PolicyName.WORK, roots)


async def confine_line(
    sandbox: Sandbox | None, gate: PermissionGate, program: str, roots: Sequence[Path], line: str, cwd: Path
) -> CommandConfinement | None:
    """Return the confinement of a command line in `cwd`, as `confine_work`. What it names can be read and reached."""
    if sandbox is None or sandbox.is_off:
        return None
    from teamwright.tools.shell.command_confinement import find_hosts, line_request

    request = line_request(line, cwd, roots)
    await sandbox.open_network(request)
    hosts = await find_hosts(sandbox, line, cwd)
    return _confine(sandbox, gate, program, replace(request, hosts=hosts))


def _confine(
    sandbox: Sandbox, gate: PermissionGate, program: str, request: ConfinementRequest
) -> CommandConfinement | None:
    from teamwright.tools.shell.command_confinement import denied_paths

    excluded = gate.excluded_paths("Read", Path(os.sep))
    excluded = replace(excluded, patterns=(*excluded.patterns, *_patterns_in_worktrees(gate, request.directories)))
    denied = denied_paths(excluded, request.directories, sandbox.warn)
    return sandbox.confine(replace(request, denied=denied, ask_host=partial(gate.may_connect, program)))


def _patterns_in_worktrees(gate: PermissionGate, roots: Iterable[Path]) -> Iterator[Segments]:
    """Yield the patterns of deny rules for the copies of files in those of these directories that are other worktrees.

    The rules of the gate name files of the checkout in which it decides.
    """
    here = gate.policy().scope.base
    own = work_tree(here) or here
    below: tuple[Segments, ...] = ()
    for root in roots:
        if (tree := work_tree(root)) is None or tree == own or not _shares_git(tree, own):
            continue
        below = below or gate.excluded_paths("Read", own).patterns
        yield from ((*tree.parts[1:], *pattern) for pattern in below)


def _shares_git(one: Path, other: Path) -> bool:
    """Return True for two work trees of the same repository."""
    found = [discover(tree).repository for tree in (one, other)]
    return all(repository is not None for repository in found) and len({one.common for one in found if one}) == 1


def lead_gate(agent_factory: AgentFactory) -> PermissionGate:
    """Return a permission gate with the lead's policy. It asks as the lead."""
    from teamwright.agent.permission_gate import PermissionGate

    return PermissionGate(LEAD, lambda: agent_factory.policy, agent_factory.approver)
