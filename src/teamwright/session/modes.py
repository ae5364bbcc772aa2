"""The permission modes of a session: the lead's, kept for a resume, and those of its members, by name.

What surfaces show and change. A lead that delegates keeps the mode that it had: its members follow that one, and it is
back when the lead leaves `delegate` for it. Knows the session's maker and team; refuses to know a screen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from teamwright.agent.agent import Agent
from teamwright.agent.reminders import MODE_MEANINGS
from teamwright.config.settings.merge import lead_mode
from teamwright.permissions.decide import Policy, parse_mode
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import TeamRefused, UnknownMember
from teamwright.protocol.events import ModeChanged
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, parse_recipient
from teamwright.protocol.values import dataclass
from teamwright.session.factory.agent_factory import AgentFactory
from teamwright.storage.atomic import write_atomic
from teamwright.storage.paths import make_private
from teamwright.teams.mode_change import enter_mode, set_mode
from teamwright.teams.mode_rank import ModeSet
from teamwright.teams.team import SessionTeam

VERSION = 1
FILE = "mode.json"
"""In the session's directory, once the lead's mode was said by a flag or changed."""

USER = "user"


@dataclass(frozen=True, slots=True)
class SavedMode:
    """The lead's mode as it was left. `lasting` is the one that its members follow, another only while it delegates."""

    mode: Mode
    lasting: Mode


@dataclass(slots=True)
class SessionModes:
    """The modes of one session. The lead's own policy is behind its fence where it has one."""

    maker: AgentFactory
    team: SessionTeam
    lead: Agent
    directory: Path

    @property
    def mode(self) -> Mode:
        """The lead's."""
        return self.lead.policy.display_mode

    def mode_of(self, name: str) -> Mode | None:
        """The mode of that member, the lead's where it has none of its own; None when nobody is called so."""
        wanted = parse_recipient(name, self.team.names)
        if wanted == LEAD:
            return self.mode
        mate = self.team.find(wanted)
        return None if mate is None else Mode(mate.mode)

    async def set(self, text: str, member: str = "", by: str = USER, source: str = "mode") -> ModeSet:
        """Another mode for the lead, or for that member: from the very next call on, the one that waits included.

        Raises UsageError for a mode that does not exist, UnknownMember naming the nearest, and TeamRefused for what is
        not given in life; then nothing is changed.
        """
        if not member or parse_recipient(member, self.team.names) == LEAD:
            return self.set_lead(lead_mode(_parse_mode(text), source), by)
        return await set_of_member(self.maker, self.team, text, member, by, source)

    def set_lead(self, mode: Mode, by: str = USER) -> ModeSet:
        """Another mode for the lead. Raises TeamRefused, StorageError when it cannot be kept; nothing is changed then.

        Members without a mode of their own follow at once, and no member exceeds it; `delegate` is the lead's alone.
        """
        require_allowed_mode(self.maker, mode)
        before = self.mode
        if mode is before:
            return ModeSet(LEAD_ALIAS, mode, before)
        lasting = self.maker.policy.effective_mode if mode is Mode.DELEGATE else mode
        if lasting is Mode.PLAN and mode is Mode.DELEGATE:
            lasting = Mode.DEFAULT  # who leaves plan mode to delegate has its members work
        save_mode(self.directory, SavedMode(mode, lasting))
        policy = self.maker.policy
        policy.is_delegating = self.lead.policy.is_delegating = mode is Mode.DELEGATE
        if changes := policy.mode is not lasting:
            enter_mode(self.lead, lasting, by)
        if mode is Mode.DELEGATE or not changes:
            self.maker.plans.lead_changed(before)
            self.team.emit(ModeChanged(member=LEAD, mode=str(mode), by=by))
        return ModeSet(LEAD_ALIAS, mode, before)


async def set_of_member(
    maker: AgentFactory, team: SessionTeam, text: str, member: str, by: str = USER, source: str = "mode"
) -> ModeSet:
    """Another mode for a member; the rest as `Modes.set`."""
    mode = parse_mode(_parse_mode(text), source)
    if not team.exists:
        nobody = f'there is no "{member}": the lead is alone'
        raise UnknownMember("unknown-member", nobody, note="nothing was changed")
    require_allowed_mode(maker, mode)
    return await set_mode(team, member, mode, by)


def _parse_mode(text: str) -> str:
    return next((mode for mode in Mode if mode.lower() == text.replace("-", "").lower()), text)


def require_allowed_mode(maker: AgentFactory, mode: Mode) -> None:
    """Raises TeamRefused for a mode that is not given in life, or means nothing here."""
    if mode is Mode.BYPASS and not maker.may_bypass:
        raise TeamRefused(
            "team-refused",
            f"{Mode.BYPASS} is not given while a session runs",
            do=[f"teamwright -c --permission-mode {Mode.BYPASS}", f"{Mode.ACCEPT_EDITS} lets files be changed"],
            note="nothing was changed",
        )
    if mode is Mode.DELEGATE and not maker.kit.teams:
        raise TeamRefused(
            "team-refused", "teams are switched off: there is no teammate to delegate to", note="nothing was changed"
        )


def save_mode(directory: Path, kept: SavedMode) -> None:
    """Keep the lead's mode for a resume; not bypassPermissions, which is given anew each time. Raises StorageError."""
    if kept.mode is Mode.BYPASS:
        return
    lasting = Mode.DEFAULT if kept.lasting is Mode.BYPASS else kept.lasting
    make_private(directory)
    body = {"version": VERSION, "mode": str(kept.mode), "lasting": str(lasting)}
    write_atomic(directory / FILE, json.dumps(body, indent=2).encode())


def load_mode(directory: Path) -> SavedMode | None:
    """The mode that a session was left in, None when none was kept; what cannot be read was none."""
    try:
        data = cast("dict[str, Any]", json.loads((directory / FILE).read_bytes()))
        kept = SavedMode(Mode(data["mode"]), Mode(data["lasting"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    bad = {Mode.BYPASS, Mode.BUBBLE} & {kept.mode, kept.lasting} or kept.lasting is Mode.DELEGATE
    return None if bad else kept


def restore_mode(policy: Policy, kept: SavedMode) -> None:
    """The lead goes on in the mode that it was left in."""
    policy.mode = kept.lasting
    policy.is_delegating = kept.mode is Mode.DELEGATE


def describe_modes() -> list[tuple[str, str]]:
    """All modes that may be given, a line of meaning each."""
    return [(str(mode), line) for mode, line in MODE_MEANINGS.items() if mode is not Mode.BUBBLE]
