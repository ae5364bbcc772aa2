"""The commands of an integration that a person starts without a session: the setup and the check of worktrees.

They run files that agents wrote, so they are confined as in a session. Depends on settings, the sandbox and worktrees.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from teamwright.agent.permission_gate import PermissionGate
from teamwright.config.files_executed_by_settings import programs_outside
from teamwright.config.settings.merge import make_policy, private_paths
from teamwright.config.settings.settings import Settings
from teamwright.config.trust import TrustState
from teamwright.permissions.verdict import Approver
from teamwright.sandbox.command_policy import SandboxPaths
from teamwright.sandbox.policy import SandboxSettings
from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
from teamwright.session.wiring.program_confinement import confine_line
from teamwright.storage.paths import Home
from teamwright.tools.shell.bash_settings import COMMAND_ENVIRONMENT, command_environment
from teamwright.tools.shell.command_guards import QUARANTINE
from teamwright.tools.shell.startup import plain_shell
from teamwright.worktrees.worktree_creation import SetupCommand

_MEMBER = "integrate"
"""The name in questions about hosts, where a session has its lead."""


class IntegrationCommands:
    """The commands of one integration, with one sandbox.

    `approver` is asked about hosts. `temporary` is the directory that commands have as `/tmp`; `warn` is called once
    when they run without a sandbox. Raises CannotStart (`no-sandbox`) when one is required and none works.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        trust: TrustState,
        approver: Approver,
        temporary: Path,
        warn: Callable[[str], None],
    ) -> None:
        private = tuple(map(str, private_paths(home)))
        person = os.path.realpath(os.path.expanduser("~"))
        outside = programs_outside(settings, trust.root)
        place = SandboxPaths(person, private, (), str(temporary), os.environ, outside)
        self._sandbox = Sandbox(settings.sandbox, place, warn)
        self._sandbox.require()
        policy = make_policy(settings, home, trust.root, trust)
        self._gate = PermissionGate(_MEMBER, lambda: policy, approver)
        self.settings = settings
        self._home = home

    def command(self, text: str, timeout_s: float, purpose: str) -> SetupCommand:
        """Return a command with the environment of agents' commands."""
        return SetupCommand(
            text,
            timeout_s,
            plain_shell(),
            lambda: {**command_environment(self.settings.bash, os.environ), **COMMAND_ENVIRONMENT},
            purpose=purpose,
            confine=partial(self._confine, purpose),
            quarantine=self._home.own / QUARANTINE,
        )

    async def close(self) -> None:
        """End the connections of the commands."""
        await self._sandbox.close()

    async def _confine(
        self, purpose: str, command: str, tree: Path, _bounds: SandboxSettings
    ) -> CommandConfinement | None:
        program = f"the {purpose} of the worktree {tree.name}"
        return await confine_line(self._sandbox, self._gate, program, (tree,), command, tree)
