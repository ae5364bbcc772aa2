"""Starts of external members (the port of `external`): backend, environment and flags of a command.

No shell string is used. The program works on the files of its state root, so the team must be in that root. Its
login is not read, and Teamwright's keys are not passed to it. Restrictions of a role or a call that the program cannot
keep are refused. Depends on settings and backends.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.agent_type import AgentBounds
from teamwright.backends.choice import TMUX
from teamwright.backends.session_backends import BackendChoice
from teamwright.config.external_member_commands import OWN
from teamwright.config.settings.settings import ExternalCommand
from teamwright.external.external_launcher import ExternalStart
from teamwright.permissions.verdict import Mode
from teamwright.processes.program_environment import find_program, outside_first, own_variables
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import did_you_mean
from teamwright.protocol.member_flags import MemberFlags, to_argv
from teamwright.protocol.members import IN_PROCESS, RosterMember
from teamwright.session.preparation import SessionContext
from teamwright.session.wiring.member_launcher import make_launch, member_flags
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.team_records.team_state import Incarnation
from teamwright.teams.backend import Backend, Location
from teamwright.teams.external_plans import mode_for_external
from teamwright.teams.team import SessionTeam

ROOT_VARIABLE = "CLAUDE_CONFIG_DIR"
"""The other product's variable for its state root; the default is `~/.claude`."""

TASKS_VARIABLE = "CLAUDE_CODE_ENABLE_TASKS"
"""The variable with which the other product gives a member its task tools, if its model is one that gets them."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class ExternalPrograms(Struct):
    """The external commands of one session. `hidden` are variables that no program receives (`*` matches an ending)."""

    context: SessionContext
    team: SessionTeam
    places: BackendChoice
    hidden: tuple[str, ...]

    async def choose_backend(self, spec: SpawnSpec) -> tuple[str, Backend]:
        command = self._command(spec.command)
        self._require_holdable(spec)
        env = self._environment(command)
        _program(command, env)
        self._require_root(command, env)
        return await self._place(command, spec.backend)

    async def backend_for(self, location: Location) -> Backend | None:
        return await self.places.backend_for(location)

    def build_start(self, member: RosterMember, incarnation: Incarnation) -> ExternalStart:
        command = self._command(incarnation.command)
        env = self._environment(command)
        mode = mode_for_external(self.team.lead_policy, Mode(incarnation.mode) if incarnation.mode else None)
        words = [self._fill(part, command) for part in command.argv]
        argv = (_program(command, env), *words[1:], *to_argv(self._flags(member, incarnation, mode)))
        launch = make_launch(member, self.team, self.context.id, argv, env)
        start_mode = Mode.PLAN if member.plan_mode_required else mode
        return ExternalStart(launch, str(start_mode), command.start_s)

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _command(self, name: str) -> ExternalCommand:
        known = self.context.settings.commands.commands
        if name in known:
            return known[name]
        raise UsageError(
            "usage",
            f"there is no command {name[:60]!r} for members",
            looked_at=[("members.commands", ", ".join(known) or "none")],
            do=did_you_mean(name, [*known, OWN], [f"set it in {self.context.home.settings}"]),
            note="nothing was started",
        )

    def _require_holdable(self, spec: SpawnSpec) -> None:
        """Raise UsageError for limits that the other program does not support, instead of ignoring them."""
        bounds = spec.bounds or AgentBounds()
        definition = self.context.definition
        role = definition.role(spec.agent_type) if definition is not None else None
        cannot = [
            what
            for what, there in (
                ("tools: disallowed_tools is handed on", bounds.tools is not None or bounds.read_only),
                ("writes", role is not None and role.writes is not None),
                ("its hooks", bool(bounds.hooks)),
                ("a budget", bool(spec.budget)),
                ("max_turns", spec.max_turns is not None),
                ("an effort", spec.effort is not None),
            )
            if there
        ]
        if cannot:
            raise UsageError(
                "usage",
                f"{spec.name} is run by the command {spec.command}, which cannot be held to: {'; '.join(cannot)}",
                looked_at=[("agent type", spec.agent_type)],
                do=["leave that out, or have it run by teamwright itself"],
                note="nothing was started",
            )
        owned = [one.name for one in definition.roles.values() if one.owns and one is not role] if definition else []
        if owned:
            text = f"Teamwright cannot keep {spec.name} from the paths of {', '.join(owned)}: another program runs it"
            self.team.emit(Notice(member=spec.name, text=text, level="warning"))

    async def _place(self, command: ExternalCommand, requested_backend: str) -> tuple[str, Backend]:
        """Return the requested or configured backend; tmux, which needs no terminal, instead of the lead's process."""
        if requested_backend == IN_PROCESS:
            raise UsageError(
                "usage", f"{command.name} is a separate program: it cannot run in-process", note="nothing was started"
            )
        setting = requested_backend or self.places.settings.backend
        found = None if setting == IN_PROCESS else await self.places.choose(setting)
        chosen = found or await self.places.choose(TMUX)
        assert chosen is not None
        return chosen

    def _environment(self, command: ExternalCommand) -> dict[str, str]:
        """Return the lead's environment without Teamwright's keys, with the command's own variables."""
        begins = tuple(name[:-1] for name in self.hidden if name.endswith("*"))
        base = {
            name: value
            for name, value in self.context.env.items()
            if name not in self.hidden and not (begins and name.startswith(begins))
        }
        # The program runs the project's programs for its agent, by its own permissions.
        base = own_variables(base) | {"PATH": outside_first(base.get("PATH", os.defpath))}
        return {TASKS_VARIABLE: "1"} | base | {name: self._fill(value, command) for name, value in command.env.items()}

    def _fill(self, text: str, command: ExternalCommand) -> str:
        def value(match: re.Match[str]) -> str:
            found = self.context.env.get(match[1])
            if found is None:
                raise CannotStart(
                    "backend",
                    f"the command {command.name} needs the variable {match[1]}, which is not set",
                    do=[f"export {match[1]}=…, or leave it out of members.commands.{command.name}"],
                    note="nothing was started",
                )
            return found

        return _VARIABLE.sub(value, text)

    def _require_root(self, command: ExternalCommand, env: Mapping[str, str]) -> None:
        """Raise CannotStart when the program's state root is not the team's."""
        setting = command.root or env.get(ROOT_VARIABLE) or "~/.claude"
        home = env.get("HOME") or os.path.expanduser("~")
        root = Path(home) / setting[2:] if setting.startswith("~/") else Path(setting)
        if os.path.realpath(root) == os.path.realpath(self.context.home.shared):
            return
        raise CannotStart(
            "backend",
            f"{command.name} works on the files in another state root than this team",
            looked_at=[(f"{command.name} reads", str(root)), ("this team is in", str(self.context.home.shared))],
            do=[
                f"teamwright --home {setting} …: the team is in that root then, other files in {setting}/teamwright",
                f"if it reads another root: set `root` of members.commands.{command.name}",
            ],
            note="nothing was started",
        )

    def _flags(self, member: RosterMember, incarnation: Incarnation, mode: Mode) -> MemberFlags:
        """Return the flags of the member. A mode is passed only when it differs from the program's initial mode."""
        bounds = incarnation.bounds or AgentBounds()
        return replace(
            member_flags(member, self.team, self.context.id, "" if mode is Mode.DEFAULT else str(mode)),
            model=incarnation.model or "",
            disallowed_tools=(*self.context.options.disallowed_tools, *bounds.disallowed_tools, *bounds.denied),
        )


def _program(command: ExternalCommand, env: Mapping[str, str]) -> str:
    """Return the program's absolute path by its own environment. Raises CannotStart."""
    program = os.path.expanduser(command.argv[0])
    # A path is the person's own choice; a name must not lead to a program that a command made.
    path = env.get("PATH", os.defpath)
    found = shutil.which(program) if os.sep in program else find_program(program, path)
    if not found:
        raise CannotStart(
            "backend",
            f"the program of the command {command.name} is not there: {command.argv[0]}",
            looked_at=[("PATH", env.get("PATH", "not set"))],
            do=["install it, or give its whole path in argv"],
            note="nothing was started",
        )
    return os.path.abspath(found)
