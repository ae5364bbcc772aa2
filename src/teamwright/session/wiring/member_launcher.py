"""The start of member processes by the lead: what each is given, and the record of its launch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from teamwright.backends.choice import EXPLICIT_REASON, is_remote
from teamwright.backends.session_backends import BackendChoice
from teamwright.permissions.verdict import Mode
from teamwright.processes.own_python import own_python_argv
from teamwright.protocol.ids import SessionId
from teamwright.protocol.member_flags import MemberFlags, to_argv
from teamwright.protocol.members import RosterMember
from teamwright.sandbox.policy import SandboxSettings
from teamwright.session.preparation import SessionContext, ask_timeout, is_unattended
from teamwright.session.spawn_file import FILE, SpawnFile, discard, member_environment, options_to_json, wire_token
from teamwright.storage.event_log import last_number, log_path, parse_event
from teamwright.storage.json_lines import read_backward
from teamwright.team_records.spawn_spec import REMOTE, SpawnSpec
from teamwright.team_records.team_state import Incarnation, process_directory
from teamwright.teams.backend import Backend, Launch, Location
from teamwright.teams.team import SessionTeam

PROGRAM = own_python_argv("teamwright")
"""The command of this installation. No variable and no file of a project adds code to it."""


class MemberLauncher(Struct):
    """The launcher of one session. `wire` is the socket to which member processes connect."""

    context: SessionContext
    team: SessionTeam
    places: BackendChoice
    wire: Path
    sandbox: SandboxSettings
    """The lead's settings, which no member exceeds."""
    worktree: str = ""
    """The worktree in which the whole session works; empty for none."""

    async def choose_backend(self, spec: SpawnSpec) -> tuple[str, Backend] | None:
        requested = spec.backend or (self._remote_backend if spec.isolation == REMOTE else "")
        chosen = await self.places.choose(requested)
        if chosen is not None:
            options_to_json(self.context.options)  # raises for options without JSON before anything is created
        return chosen

    @property
    def _remote_backend(self) -> str:
        """The backend of other machines: that of the settings if it names a label."""
        setting = self.places.settings.backend
        return setting if is_remote(setting) else REMOTE

    @property
    def choice_reason(self) -> str:
        return "" if self.places.choice_reason == EXPLICIT_REASON else self.places.choice_reason

    async def backend_for(self, location: Location) -> Backend | None:
        return await self.places.backend_for(location)

    def process_token(self, incarnation: Incarnation) -> str:
        return wire_token(process_directory(Path(incarnation.transcript)), str(self.wire))

    def discard(self, directory: Path) -> None:
        discard(directory)

    def last_event_number(self, name: str, incarnation: Incarnation) -> int:
        room = process_directory(Path(incarnation.transcript))
        if room.parent.parent != self.context.directory:
            return last_number(log_path(room))  # events of another session's log do not count
        origin = f"{name}#{incarnation.incarnation}:"
        mark = b'"origin":"%s' % origin.encode()
        for line in read_backward(log_path(self.context.directory)):
            event = parse_event(line) if mark in line else None
            if event is not None and event.origin.startswith(origin):
                return int(event.origin.removeprefix(origin))
        return 0

    def build_launch(self, member: RosterMember, incarnation: Incarnation, token: str, *, resumed: bool) -> Launch:
        context = self.context
        team = self.team
        path = process_directory(Path(incarnation.transcript)) / FILE
        SpawnFile(
            home=str(context.home.shared),
            session=context.id,
            team=team.name,
            directory=team.directory,
            member=member.name,
            incarnation=incarnation.incarnation,
            wire=str(self.wire),
            token=token,
            resumed=resumed,
            model=team.lead_model,
            grace_s=self.places.grace_s,
            options=options_to_json(context.options) | self._resolved(),
        ).write(path)
        argv = (*PROGRAM, *to_argv(self._flags(member, incarnation)))
        return make_launch(member, team, context.id, argv, member_environment(context.env, path))

    def _resolved(self) -> dict[str, object]:
        """Return values of this process's options and settings that another process would resolve differently."""
        context = self.context
        waits = ask_timeout(context)
        deadline = {} if waits is None else {"ask_timeout_s": waits}
        shared = self.team.external.shared_list  # a resume takes the list from the team, without a flag
        listed = {"task_list": shared} if shared else {}
        listed |= {"session_worktree": self.worktree} if self.worktree else {}
        ask = "deny" if is_unattended(context) else "wait"
        bounds = to_builtins(self.sandbox)
        return {"cwd": str(context.cwd), "ask": ask, "sandbox_bounds": bounds, **deadline, **listed}

    def _flags(self, member: RosterMember, incarnation: Incarnation) -> MemberFlags:
        """Return the member's flags, with the lead's mode where it has none, as observed in the other product."""
        lead = self.team.lead_policy.effective_mode
        mode = incarnation.mode or (str(lead) if lead in {Mode.ACCEPT_EDITS, Mode.BYPASS} else "")
        return replace(
            member_flags(member, self.team, self.context.id, "" if mode == Mode.PLAN else mode),
            model=member.model or "",
            allowed_tools=self.context.options.allowed_tools,
            disallowed_tools=self.context.options.disallowed_tools,
        )


def member_flags(member: RosterMember, team: SessionTeam, session: SessionId, mode: str) -> MemberFlags:
    """Return the flags that identify a member. `mode` is empty when the program begins in that mode.

    A member that must plan begins in plan mode in any case; bypassPermissions has a separate flag.
    """
    plans = bool(member.plan_mode_required)
    bypass = mode == Mode.BYPASS and not plans
    return MemberFlags(
        agent_id=member.agent_id,
        agent_name=member.name,
        team_name=team.name,
        agent_color=member.color or "",
        parent_session_id=session,
        plan_mode_required=plans,
        agent_type=member.agent_type,
        dangerously_skip_permissions=bypass,
        permission_mode="" if bypass or plans else mode,
    )


def make_launch(
    member: RosterMember, team: SessionTeam, session: SessionId, argv: tuple[str, ...], env: Mapping[str, str]
) -> Launch:
    """Return the launch of the member for its backend."""
    return Launch(
        name=member.name,
        team=team.directory,
        session=session,
        argv=argv,
        env=env,
        cwd=Path(member.cwd),
        color=member.color or "blue",
    )
