"""The permission modes of a session, and the grants that come with an approval.

A delegating lead keeps its earlier mode: its members follow that mode, and it returns when the lead leaves `delegate`.
A grant applies to the session at once, and permanently where the approver chose so. Rules and directories apply to
every agent, and accepted edits to the member that asked. Another mode applies to that member and to the lead, whose
mode bounds it. Only a person grants; a lead never does. A permanent grant is saved in a settings file without changing
its other entries. One that is written into a trusted repository is trusted as written; elsewhere it takes effect once
the repository is trusted. The checkout's local file is kept out of git by `.git/info/exclude`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.settings.files import (
    SettingsFiles,
    SettingsOrigin,
    bad_settings,
    read_layer,
    require_inside,
    write_settings,
)
from teamwright.config.settings.merge import lead_mode
from teamwright.config.trust import TrustStore
from teamwright.config.trust_entries import entry_of
from teamwright.permissions.grant_bounds import check_mode
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode, PermissionAnswer, PermissionUpdate, Question, parse_mode
from teamwright.protocol.errors import TeamRefused, TeamwrightError, UsageError
from teamwright.protocol.events import Emit, ModeChanged, Notice
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.session.agents.policies import AgentPolicies
from teamwright.session.preparation import SessionContext
from teamwright.storage.event_log import EventLog
from teamwright.storage.files import write_atomic
from teamwright.storage.paths import make_private
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
    from teamwright.agent.agent import Agent
    from teamwright.session.agents.factory import AgentFactory
    from teamwright.teams.mode_rank import ModeSet


VERSION = 1
FILE = "mode.json"
"""The file in the session's directory, written when a flag set the lead's mode or the mode changed."""

USER = "user"


class SavedMode(Struct, frozen=True):
    """The lead's saved mode. `lasting` is the mode that its members follow, different only while it delegates."""

    mode: Mode
    lasting: Mode


class SessionModes(Struct):
    """The modes of one session. The lead's own policy includes its path ownership."""

    agent_factory: AgentFactory
    team: SessionTeam
    lead: Agent
    directory: Path

    @property
    def mode(self) -> Mode:
        """The lead's mode."""
        return self.lead.policy.display_mode

    def mode_of(self, name: str) -> Mode | None:
        """Return the mode of that member, the lead's where it has no own mode; None for an unknown name."""
        recipient = self.team.recipient(name)
        if recipient == LEAD:
            return self.mode
        teammate = self.team.find(recipient)
        return None if teammate is None else Mode(teammate.mode)

    async def set(self, text: str, member: str = "", by: str = USER, source: str = "mode") -> ModeSet:
        """Set the mode of the lead, or of that member, from the next call on, including a call that waits.

        Raises UsageError for an unknown mode, UnknownMember naming the nearest, and TeamRefused for a mode that cannot
        be set at run time; then nothing is changed.
        """
        if not member or self.team.recipient(member) == LEAD:
            return self.set_lead(lead_mode(_parse_mode(text), source), by)
        return await set_of_member(self.agent_factory, self.team, text, member, by, source)

    def set_lead(self, mode: Mode, by: str = USER) -> ModeSet:
        """Set the lead's mode. Raises TeamRefused, StorageError when it cannot be saved; then nothing is changed.

        Members without a mode of their own follow at once, and no member exceeds it; `delegate` is only for the lead.
        """
        from teamwright.teams.mode_rank import ModeSet
        from teamwright.teams.permission_mode_change import enter_mode

        require_allowed_mode(self.agent_factory, mode)
        before = self.mode
        if mode is before:
            return ModeSet(LEAD_ALIAS, mode, before)
        lasting = self.agent_factory.policy.effective_mode if mode is Mode.DELEGATE else mode
        if lasting is Mode.PLAN and mode is Mode.DELEGATE:
            lasting = Mode.DEFAULT  # members work while the lead changes from plan to delegate
        save_mode(self.directory, SavedMode(mode, lasting))
        policy = self.agent_factory.policy
        for one in (policy, self.lead.policy):
            one.change_delegation(mode is Mode.DELEGATE)
        if changes := policy.mode is not lasting:
            enter_mode(self.lead, lasting, by)
        if mode is Mode.DELEGATE or not changes:
            self.agent_factory.plans.lead_changed(before)
            self.team.emit(ModeChanged(member=LEAD, mode=str(mode), by=by))
        return ModeSet(LEAD_ALIAS, mode, before)


async def set_of_member(
    agent_factory: AgentFactory, team: SessionTeam, text: str, member: str, by: str = USER, source: str = "mode"
) -> ModeSet:
    """Set the mode of a member, like `SessionModes.set`."""
    from teamwright.session.control.live_agents import require_members
    from teamwright.teams.permission_mode_change import set_mode

    mode = parse_mode(_parse_mode(text), source)
    require_members(team, member, "nothing was changed")
    require_allowed_mode(agent_factory, mode)
    return await set_mode(team, member, mode, by)


def _parse_mode(text: str) -> str:
    return next((mode for mode in Mode if mode.lower() == text.replace("-", "").lower()), text)


def require_allowed_mode(agent_factory: AgentFactory, mode: Mode) -> None:
    """Raise TeamRefused for a mode that cannot be set at run time, or has no meaning here."""
    if mode is Mode.BYPASS and not agent_factory.may_bypass:
        raise TeamRefused(
            "team-refused",
            f"{Mode.BYPASS} is not given while a session runs",
            do=[f"teamwright -c --permission-mode {Mode.BYPASS}", f"{Mode.ACCEPT_EDITS} lets files be changed"],
            note="nothing was changed",
        )
    if mode is Mode.DELEGATE and not agent_factory.toolset.teams:
        raise TeamRefused(
            "team-refused", "teams are switched off: there is no teammate to delegate to", note="nothing was changed"
        )


def save_mode(directory: Path, saved_mode: SavedMode) -> None:
    """Save the lead's mode for a resume, except bypassPermissions, which is granted for each start. Raises
    StorageError.
    """
    if saved_mode.mode is Mode.BYPASS:
        return
    lasting = Mode.DEFAULT if saved_mode.lasting is Mode.BYPASS else saved_mode.lasting
    make_private(directory)
    body = {"version": VERSION, "mode": str(saved_mode.mode), "lasting": str(lasting)}
    write_atomic(directory / FILE, json.dumps(body, indent=2).encode())


def load_mode(directory: Path) -> SavedMode | None:
    """Return the saved mode of a session; None without one, and for an unreadable file."""
    try:
        data = cast("dict[str, Any]", json.loads((directory / FILE).read_bytes()))
        saved_mode = SavedMode(Mode(data["mode"]), Mode(data["lasting"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    bad = {Mode.BYPASS, Mode.BUBBLE} & {saved_mode.mode, saved_mode.lasting} or saved_mode.lasting is Mode.DELEGATE
    return None if bad else saved_mode


def restore_mode(policy: Policy, saved_mode: SavedMode) -> None:
    """Restore the saved mode of the lead."""
    policy.change_mode(saved_mode.lasting)
    policy.change_delegation(saved_mode.mode is Mode.DELEGATE)


PEOPLE = frozenset({"terminal", "another terminal", "program"})
"""Approvers that are a person and so may grant. A hook may too: a person configured or trusted it. That of a
repository grants for the session alone."""

_GRANTS = PEOPLE | {"hook"}
_WIDTH = {Mode.PLAN: 0, Mode.DONT_ASK: 1, Mode.DEFAULT: 2, Mode.ACCEPT_EDITS: 3, Mode.DELEGATE: 3, Mode.BYPASS: 4}


def make_grants(
    context: SessionContext, log: EventLog, policies: AgentPolicies, modes: Callable[[], SessionModes]
) -> Grants:
    """Create the grants of the session, which are saved permanently where the approver says so.

    `modes` returns the modes of the session.
    """
    return Grants(SettingsFiles(context.home, context.trust.root), log.emit, policies, modes)


class Grants(Struct):
    """The grants of a session. `policies` are all policies of the session; `modes` changes modes as `/mode` does."""

    places: SettingsFiles
    emit: Emit
    policies: Iterable[Policy]
    modes: Callable[[], SessionModes]

    async def __call__(self, owner: str, policy: Policy, answer: PermissionAnswer) -> None:
        """Apply the grants of this answer to the member; grants that fail are reported and left out. Never raises."""
        for update in answer.updates:
            try:
                if answer.by not in _GRANTS:
                    raise UsageError("usage", f"the {answer.by} grants only the call itself")
                if update.destination != "session":
                    # An update that no answer may grant raises here, so that it is not saved either.
                    Policy(policy.effective_mode, (), policy.scope).apply_update(
                        replace(update, destination="session"), by_user=answer.by in PEOPLE
                    )
                    self._notify(owner, save_grant(self.places, update))
                await self._apply(owner, policy, update, answer.by)
            except TeamwrightError as problem:
                self._notify(owner, f"not granted: {problem.what}", level="warning")

    async def _apply(self, owner: str, policy: Policy, update: PermissionUpdate, by: str) -> None:
        """Apply an update from the next call on."""
        if update.kind == "setMode":
            await self._set_mode(owner, check_mode(update, policy.effective_mode), by)
            return
        session = replace(update, destination="session")
        for one in list(self.policies):
            if one.mode is not Mode.BUBBLE:
                one.apply_update(session, f"granted by {by}", by_user=by in PEOPLE)

    async def answer(self, question: Question) -> PermissionAnswer | None:
        """Answer a question about an edit of a member whose edits were accepted; None for other questions."""
        teammate = self.modes().team.find(question.owner)
        if teammate is None or not teammate.edits_accepted_by or question.kind != "permission":
            return None
        covered = [update.mode for update in question.suggestions] == [Mode.ACCEPT_EDITS]
        return PermissionAnswer(True, teammate.edits_accepted_by) if covered else None

    async def _set_mode(self, owner: str, mode: Mode, by: str) -> None:
        """Set the mode of the member that asked, or of the lead where it asked or the member cannot use the mode.

        Edits are accepted for the member alone: questions about them are answered, and no mode changes. Raises
        UsageError when the member has ended.
        """
        modes = self.modes()
        lead = modes.agent_factory.policy
        check_mode(PermissionUpdate("setMode", mode=mode), lead.effective_mode)
        narrower = _WIDTH.get(lead.effective_mode, 0) < _WIDTH[mode]
        teammate = None if owner == LEAD else modes.team.find(owner)
        if teammate is None and owner != LEAD:
            raise UsageError("usage", f"{owner} has ended")
        if mode is Mode.ACCEPT_EDITS and teammate is not None and narrower:
            teammate.edits_accepted_by = by
            effect = f"edits of {owner} are not asked about until it ends; every other agent is asked as before"
            self._notify(owner, f"{effect}. /mode {lead.effective_mode} @{owner} takes this back")
            return
        if narrower or owner == LEAD:
            if modes.lead.policy.is_delegating:
                lead.change_mode(mode)  # the lead still only coordinates; agents below it follow the mode
            else:
                modes.set_lead(mode, by)
        if teammate is not None:
            own = teammate.own_mode
            if own is not Mode.BUBBLE and _WIDTH.get(own, 0) < _WIDTH[mode]:
                await modes.set(mode, owner, by)

    def _notify(self, member: str, text: str, level: str = "info") -> None:
        self.emit(Notice(member=member, text=text, level=level))


def grant_directories(
    answer: PermissionAnswer, policies: Iterable[Policy], member: str, emit: Emit
) -> PermissionAnswer:
    """Grant the directories of an answer to the agents of this machine alone. Return the answer without them.

    One that is refused is reported and left out.
    """
    granted = [update for update in answer.updates if update.kind == "addDirectories" and answer.by in _GRANTS]
    for update in granted:
        try:
            for policy in policies:
                if policy.mode is not Mode.BUBBLE:
                    policy.apply_update(replace(update, destination="session"), f"granted by {answer.by}")
        except TeamwrightError as problem:
            emit(Notice(member=member, text=f"not granted: {problem.what}", level="warning"))
    return replace(answer, updates=tuple(update for update in answer.updates if update not in granted))


_KEYS = {"addDirectories": "additionalDirectories", "setMode": "defaultMode"}


def save_grant(places: SettingsFiles, update: PermissionUpdate) -> str:
    """Write the update into its settings file, atomically. Return a sentence that says what was saved.

    Raises CannotStart (`bad-settings`) for a file that cannot be read, TeamRefused for a file outside the expected
    directories, and StorageError. The file is unchanged after an error.
    """
    path, origin = places.file_of(update.destination)
    if origin.of_repository:
        require_inside(places.root, path)
    key = _KEYS.get(update.kind, update.behavior)
    values = list(update.rules or update.directories) or [update.mode]
    layer = read_layer(path, SettingsOrigin.USER)  # checked like any settings file
    content = {} if layer is None else dict(layer.raw)
    permissions = content.setdefault("permissions", {})
    if not isinstance(permissions, dict):
        raise bad_settings(path, "permissions is not an object")
    _put(cast("dict[str, Any]", permissions), key, values, path, one=update.kind == "setMode")
    write_settings(places.root, path, origin, content)
    trusted = not origin.of_repository or _trust(places, path, origin, key, values)
    later = "" if trusted else "; it takes effect when the repository is trusted: teamwright trust"
    return f"saved in {path}: permissions.{key} {', '.join(values)}{later}"


def _put(permissions: dict[str, Any], key: str, values: Sequence[str], path: Path, *, one: bool) -> None:
    if one:
        permissions[key] = values[0]
        return
    there = permissions.setdefault(key, [])
    if not isinstance(there, list):
        raise bad_settings(path, f"permissions.{key} is not a list")
    listed = cast("list[Any]", there)
    listed += [value for value in values if value not in listed]


def _trust(places: SettingsFiles, path: Path, origin: SettingsOrigin, key: str, values: Sequence[str]) -> bool:
    """Trust exactly the written values if the repository is permanently trusted. Return True when they take effect."""
    layer = read_layer(path, origin)
    if layer is None:
        return False
    name = f"permissions.{key}"
    single = key == "defaultMode"
    entries = [entry_of(layer, places.root, name, "" if single else value, value) for value in values]
    return TrustStore.load(places.home).give_also(places.root, entries)
