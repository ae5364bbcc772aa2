"""The grants that come with an approval: applied to the session, and saved where the approver chose so.

A grant applies to the session at once, and permanently where the approver chose so. Rules and directories apply to
every agent, and accepted edits to the member that asked. Another mode applies to that member and to the lead, whose
mode bounds it. Only a person grants; a lead never does. A permanent grant is saved in a settings file without changing
its other entries; one that is written into a trusted repository is trusted as written, elsewhere it takes effect once
the repository is trusted. The checkout's local file is kept out of git by `.git/info/exclude`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.settings.settings_files import SettingsOrigin, bad_settings, read_layer
from teamwright.config.settings.writable_files import SettingsFiles, require_inside, write_settings
from teamwright.config.trust_entries import entry_of
from teamwright.config.trust_store import TrustStore
from teamwright.permissions.grant_bounds import check_mode
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode, PermissionAnswer, PermissionUpdate, Question
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.session.agents.policies import AgentPolicies
from teamwright.session.permission_modes import SessionModes
from teamwright.session.session_preparation import SessionContext
from teamwright.storage.event_log import EventLog

_KEYS = {"addDirectories": "additionalDirectories", "setMode": "defaultMode"}


def save_grant(places: SettingsFiles, update: PermissionUpdate) -> str:
    """Write the update into its settings file, atomically. Return a sentence that says what was saved.

    Raises CannotStart (`bad-settings`) for a file that cannot be read, TeamRefused for a file outside the expected
    directories, and StorageError. The file is unchanged after an error.
    """
    path, origin = places.file_of(update.destination)
    if origin.of_repository:
        require_inside(places.root, path)
    key, values = _key(update), list(update.rules or update.directories) or [update.mode]
    content = _read(path)
    permissions = content.setdefault("permissions", {})
    if not isinstance(permissions, dict):
        raise bad_settings(path, "permissions is not an object")
    _put(cast("dict[str, Any]", permissions), key, values, path, one=update.kind == "setMode")
    write_settings(places.root, path, origin, content)
    trusted = not origin.of_repository or _trust(places, path, origin, key, values)
    later = "" if trusted else "; it takes effect when the repository is trusted: teamwright trust"
    return f"saved in {path}: permissions.{key} {', '.join(values)}{later}"


def _key(update: PermissionUpdate) -> str:
    return _KEYS.get(update.kind, update.behavior)


def _put(permissions: dict[str, Any], key: str, values: Sequence[str], path: Path, *, one: bool) -> None:
    if one:
        permissions[key] = values[0]
        return
    there = permissions.setdefault(key, [])
    if not isinstance(there, list):
        raise bad_settings(path, f"permissions.{key} is not a list")
    listed = cast("list[Any]", there)
    listed += [value for value in values if value not in listed]


def _read(path: Path) -> dict[str, Any]:
    """Return the file's object in its order, empty without a file. It is checked like any settings file."""
    layer = read_layer(path, SettingsOrigin.USER)
    return {} if layer is None else dict(layer.raw)


def _trust(places: SettingsFiles, path: Path, origin: SettingsOrigin, key: str, values: Sequence[str]) -> bool:
    """Trust exactly the written values if the repository is permanently trusted. Return True when they take effect."""
    layer = read_layer(path, origin)
    if layer is None:
        return False
    name = f"permissions.{key}"
    single = key == "defaultMode"
    entries = [entry_of(layer, places.root, name, "" if single else value, value) for value in values]
    return TrustStore.load(places.home).give_also(places.root, entries)


PEOPLE = frozenset({"terminal", "another terminal", "program"})
"""Approvers that are a person and so may grant. A hook may too: a person configured or trusted it. That of a
repository grants for the session alone."""

_GRANTS = PEOPLE | {"hook"}
_WIDTH = {Mode.PLAN: 0, Mode.DONT_ASK: 1, Mode.DEFAULT: 2, Mode.ACCEPT_EDITS: 3, Mode.DELEGATE: 3, Mode.BYPASS: 4}


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
                    self._check(update, policy, by_user=answer.by in PEOPLE)
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

    def _check(self, update: PermissionUpdate, policy: Policy, *, by_user: bool) -> None:
        """Raise UsageError for an update that no answer may grant, so that it is not saved either."""
        Policy(policy.effective_mode, (), policy.scope).apply_update(
            replace(update, destination="session"), by_user=by_user
        )

    async def _set_mode(self, owner: str, mode: Mode, by: str) -> None:
        """Set the mode of the member that asked, or of the lead where it asked or the member cannot use the mode.

        Edits are accepted for the member alone: questions about them are answered, and no mode changes. Raises
        UsageError when the member has ended.
        """
        modes, lead = self.modes(), self.modes().agent_factory.policy
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


def make_grants(
    context: SessionContext, log: EventLog, policies: AgentPolicies, modes: Callable[[], SessionModes]
) -> Grants:
    """Create the grants of the session, which are saved permanently where the approver says so.

    `modes` returns the modes of the session.
    """
    return Grants(SettingsFiles(context.home, context.trust.root), log.emit, policies, modes)
