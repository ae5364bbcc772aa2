"""The confinement of programs that work in a session beside the tools of agents, in the sandbox policy *work*.

Such programs are checks of tasks, commands in worktrees and MCP servers of a repository. The sandbox is imported with
the first of them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.permissions.permission_decision import Policy
from teamwright.protocol.ids import LEAD

if TYPE_CHECKING:
    from teamwright.sandbox.command_policy import AskHost
    from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
    from teamwright.session.factory.agent_parts import AgentParts


def confine_work(
    sandbox: Sandbox,
    policy: Policy,
    roots: Sequence[Path],
    *,
    line: str = "",
    cwd: Path | None = None,
    ask_host: AskHost | None = None,
) -> CommandConfinement | None:
    """Return the confinement of a program that may change these directories; None when the sandbox is off.

    `policy` has the deny rules for reading. `line` is its command line in `cwd`: what it names can be read.
    """
    from teamwright.sandbox.command_policy import NO_NEEDS, ConfinementRequest
    from teamwright.sandbox.policy import PolicyName
    from teamwright.tools.shell.command_confinement import denied_paths, line_needs

    denied = denied_paths(policy.excluded_paths("Read", Path(os.sep)), roots)
    needs = line_needs(line, cwd) if cwd is not None else NO_NEEDS
    return sandbox.confine(ConfinementRequest(PolicyName.WORK, roots, needs, denied=denied, ask_host=ask_host))


def ask_as_lead(agent_factory: AgentParts, program: str) -> AskHost:
    """Return the question about hosts of a program, which is asked as one of the lead."""
    from teamwright.agent.permission_gate import PermissionGate

    gate = PermissionGate(LEAD, lambda: agent_factory.policy, agent_factory.asker)
    return partial(gate.may_connect, program)
