"""The permission modes of a session: the lead's, saved for a resume, and those of its members, by name.

User interfaces show and change them. A delegating lead keeps its earlier mode: its members follow that mode, and it
returns when the lead leaves `delegate`. Depends on the session's agent factory and team.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from teamwright.agent.agent import Agent
from teamwright.agent.mode_reminders import MODE_MEANINGS
from teamwright.config.settings_merge import lead_mode
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.verdict import Mode, parse_mode
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import ModeChanged
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.session.agents.agent_factory import AgentFactory
from teamwright.storage.atomic_write import write_atomic
from teamwright.storage.paths import make_private
from teamwright.teams.team import SessionTeam

if TYPE_CHECKING:
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


def describe_modes() -> list[tuple[str, str]]:
    """Return all modes that may be set, each with its meaning in a line."""
    return [(str(mode), line) for mode, line in MODE_MEANINGS.items() if mode is not Mode.BUBBLE]
