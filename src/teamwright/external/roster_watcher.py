"""Changes of other programs to the team's roster: external members join and leave, and our lost entries are restored.

Depends on config.json and the presence of the team's files. An entry is ours when this process wrote it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import MemberChanged, Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.members import IN_PROCESS, MemberState, RosterMember, TeamConfig
from teamwright.team_records.file_stores import FileStores
from teamwright.team_records.life_cycle import ENDED_STATES
from teamwright.teams.external_members import UNKNOWN_PROGRAM
from teamwright.teams.outgoing_mail import send_note
from teamwright.teams.shutdown import process_end
from teamwright.teams.spawn import update_entries
from teamwright.teams.team import SessionTeam

MAX_REPAIRS = 6
"""Times a minute that the roster is repaired; a program that overwrites it more often wins for the
rest of the minute.
"""

PATIENCE_S = 0.5
"""Seconds before a missing file, or an incomplete team.json, counts: it may be being written."""

_MINUTE_S = 60.0
_ENDED_STATES = frozenset({MemberState.COMPLETED, MemberState.FAILED, MemberState.CRASHED, MemberState.KILLED})


class RosterWatcher:
    """A watcher of other programs' changes to the roster of the led team. `wake` requests a check."""

    def __init__(self, team: SessionTeam, wake: Callable[[], None]) -> None:
        self._team = team
        self._wake = wake
        self._known: TeamConfig | None = None
        self._dirty = False
        self._repairs: deque[float] = deque()
        self._repairs_suspended = False
        self._reported_missing: set[str] = set()
        self._ended: list[tuple[str, str]] = []
        self._recorded: frozenset[str] | None = None
        """Names of the external members in team.json; None before the first check."""
        self._retry_timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Begin to follow a roster; its members at the first check are known."""
        self.end()
        self.note_change()

    def end(self) -> None:
        """Stop following a roster."""
        if self._retry_timer is not None:
            self._retry_timer.cancel()
            self._retry_timer = None
        self._known = self._recorded = None
        self._dirty = self._repairs_suspended = False
        self._repairs.clear()
        self._reported_missing.clear()
        self._ended.clear()

    def note_change(self) -> None:
        """Record that the roster, or a file beside it, changed."""
        self._dirty = True
        self._wake()

    def note_agreement(self, name: str) -> None:
        """Record that an external member told the lead that it ends: it never removes its own entry."""
        self.note_ended(name, "agreed to stop")

    def note_ended(self, name: str, why: str) -> None:
        """Record that a member which this process did not start counts as ended; launchers handle the others."""
        if name.lower() in self._team.external.external_names and self._team.find(name) is None:
            self._ended.append((name, why))
            self.note_change()

    async def check(self) -> None:
        """Compare the roster with the known one, and repair our entries. Raises LockTimeout, StorageError."""
        team = self._team
        if not self._dirty or not team.exists or team.closing:
            return
        self._dirty = False
        if await self._are_files_missing():
            return
        try:
            config = await team.roster.read()
        except StorageError as problem:
            if problem.slug != "damaged-file":
                raise
            self._handle_damage()
            return
        self._reported_missing.discard("damaged")
        if self._known is None:
            self._known = config
            await self._note_external_members(config)
        self._report_external_changes(self._known, config)
        config = await update_entries(team) or config
        wrong = self._find_damage(config)
        self._known = config
        if wrong:
            await self._repair(wrong)
        else:
            self._repairs_suspended = self._repairs_suspended and bool(self._repairs)
        while self._ended:
            await self._end_member(*self._ended.pop(0))
        await self._record_external_members()

    # ── external members ──────────────────────────────────────────────────────────────────────────────────────────────

    def _report_external_changes(self, before: TeamConfig, after: TeamConfig) -> None:
        known = set(map(id, before.members))
        for member in [member for member in after.members if id(member) not in known and not member.is_lead]:
            old = before.find(member.name)
            if self._is_ours(member):
                self._report_activity(old, member)
                continue
            if old is None:
                self._team.external.add_member(member.name)
                self._emit_member(member, _state(member), "joined by another program")
            elif old.is_active != member.is_active:
                self._emit_member(member, _state(member), "")
        strangers = self._team.external.external_names
        for member in before.teammates if strangers else ():
            if member.name.lower() in strangers and after.find(member.name) is None and not self._is_ours(member):
                self._team.external.remove_member(member.name)
                self._emit_member(member, MemberState.COMPLETED, "taken off the roster by another program")

    async def _note_external_members(self, config: TeamConfig) -> None:
        """Record the external members that were on the roster before us; they are not reported."""
        file = await self._team.state.read()
        own_names = set(file.incarnation_records) if file is not None else set[str]()
        for member in config.teammates:
            ours = member.backend_type == IN_PROCESS or member.name.lower() in own_names or self._is_ours(member)
            if not ours:
                self._team.external.add_member(member.name)
        self._team.changed.set()

    async def _record_external_members(self) -> None:
        """Record in team.json who else is on the roster, so that a damaged roster is rebuilt with them."""
        team = self._team
        known = self._known
        if known is None:
            return
        names = frozenset(name for name in team.external.external_names if name in known.positions)
        if names != self._recorded:
            with suppress(StorageError):  # team.json is missing or damaged: this is reported elsewhere
                await team.state.change(lambda file: file.with_roster(known, names))
                self._recorded = names

    def _report_activity(self, old: RosterMember | None, new: RosterMember) -> None:
        """Report the turns that the entry of a member that we started shows."""
        followed = self._team.external.listeners.get(new.name.lower())
        if followed is not None and new.is_active is not None and (old is None or old.is_active != new.is_active):
            followed.note_active(new.is_active)

    async def _end_member(self, name: str, why: str) -> None:
        """End an external member: hand back its tasks, remove its entry, notify the lead."""
        team = self._team
        known = self._known
        member = known.find(name) if known is not None else None
        if known is None or member is None:
            return
        team.external.remove_member(name)
        self._known = known.without_member(member.name)
        self._emit_member(member, MemberState.COMPLETED, why)
        await process_end(team, member.name, why if why.startswith("it ") else f"it {why}", None)

    def _emit_member(self, member: RosterMember, state: MemberState, detail: str) -> None:
        team = self._team
        team.emit(
            MemberChanged(
                member=member.name, state=state, detail=detail, color=member.color, model=member.model or "unknown"
            )
        )
        team.changed.set()

    def _is_ours(self, member: RosterMember) -> bool:
        """Return True when this process wrote the entry; the name alone is free again when its member has ended."""
        team = self._team
        lower = member.name.lower()
        entry = team.external.own_entries.get(member.name)
        if entry is not None and entry.joined_at == member.joined_at:
            return True  # this runs for every entry of the roster each time a member joins
        return team.find(member.name) is not None or lower in map(str.lower, team.starting)

    # ── our entries ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _find_damage(self, config: TeamConfig) -> dict[str, RosterMember | None]:
        """Return the entries that must replace those in the roster; None for an entry of an ended member, which must
        go.
        """
        team = self._team
        wrong: dict[str, RosterMember | None] = {}
        lead = self._known.find(LEAD) if self._known is not None else None
        if lead is not None and config.find(LEAD) is None:
            wrong[LEAD] = lead
        for name, entry in team.external.own_entries.items():
            found = config.find(name)
            if found is not entry and self._has_place(name) and found != (right := _repaired_entry(entry, found)):
                wrong[name] = right
            elif found is not None and found.joined_at == entry.joined_at and self._has_ended(name):
                wrong[name] = None
        return wrong

    def _has_place(self, name: str) -> bool:
        """Return True when the member is alive, or keeps its place on the roster."""
        teammate = self._team.members.get(name)
        return teammate is not None and (
            teammate.keeps_place or (teammate.state not in ENDED_STATES and not teammate.end_cause)
        )

    def _has_ended(self, name: str) -> bool:
        """Return True when the member was removed from the roster: then it came back with an old copy of another
        program.
        """
        teammate = self._team.members.get(name)
        return (
            teammate is not None
            and teammate.state in _ENDED_STATES
            and teammate.end_processed
            and not teammate.keeps_place
        )

    async def _repair(self, wrong: dict[str, RosterMember | None]) -> None:
        now = time.monotonic()
        while self._repairs and now - self._repairs[0] > _MINUTE_S:
            self._repairs.popleft()
        if len(self._repairs) >= MAX_REPAIRS:
            self._suspend_repairs(wrong, _MINUTE_S - (now - self._repairs[0]))
            return
        self._repairs.append(now)

        def change(config: TeamConfig) -> TeamConfig:
            for name, entry in wrong.items():
                config = config.without_member(name) if entry is None else _with_entry(config, entry)
            return config

        self._known = await self._team.roster.change(change)
        for name, entry in wrong.items():
            did = "taken off the roster again" if entry is None else "put right in the roster"
            text = f"{name} was {did}: another program had overwritten config.json"
            self._team.emit(Notice(member=UNKNOWN_PROGRAM, text=text))
        self._team.changed.set()

    def _suspend_repairs(self, wrong: dict[str, RosterMember | None], wait_s: float) -> None:
        if not self._repairs_suspended:
            self._repairs_suspended = True
            text = (
                f"another program keeps overwriting config.json with {', '.join(wrong)} wrong: it was corrected "
                f"{MAX_REPAIRS} times within a minute, and will be corrected again after the minute"
            )
            self._team.emit(Notice(member=UNKNOWN_PROGRAM, text=text, level="warning"))
        self._retry_after(wait_s + 0.1)

    # ── missing files ─────────────────────────────────────────────────────────────────────────────────────────────────

    async def _are_files_missing(self) -> bool:
        """Return True when the roster stays missing, with one warning; nothing is stopped or created."""
        team = self._team
        missing_files = await _unusable_files(team)
        if not missing_files:
            self._report_return()
            return False
        if missing_files - self._reported_missing:
            directory = team.directory
            await asyncio.sleep(PATIENCE_S)
            async with team.forming_lock:  # a team that we remove ourselves, or that is being rewritten, is not gone
                if team.directory != directory or team.closing:
                    return True
            missing_files = await _unusable_files(team)
            if news := missing_files - self._reported_missing:
                await self._report_missing(missing_files, news)
        return "config.json" in missing_files

    async def _report_missing(self, missing_files: set[str], news: set[str]) -> None:
        team = self._team
        place = team.home.team(team.directory)
        self._reported_missing |= news
        if "config.json" in news:
            team.external.files_removed = True
            team.external.task_list_removed = (
                not team.external.shared_list and not FileStores(team.home).task_directory(team.directory).is_dir()
            )
            what = f'another program removed the files of the team "{team.name}": {place}'
            then = (
                "Teammates continue and report to you, but you can neither write to them nor start others. "
                "The file is not restored: finish without the team, or call TeamDelete and create another team."
            )
        elif "config.json" in missing_files or await self._restore_team_file():
            return
        else:
            what = f'another program removed or damaged team.json of the team "{team.name}": {place / "team.json"}'
            then = "The team continues, but no teammate can be started, and other sessions may see it as abandoned."
        team.emit(Notice(member=UNKNOWN_PROGRAM, text=f"{what}. {then}", level="warning"))
        await send_note(team, "system", LEAD, f"{what[0].upper()}{what[1:]}. {then}", "files of the team are gone")

    async def _restore_team_file(self) -> bool:
        """Restore team.json from memory. False when this process never read it whole."""
        team = self._team
        state = FileStores(team.home).state(team.directory)
        try:
            copy = await state.restore()
        except StorageError:
            return False
        self._reported_missing.discard("team.json")
        copy_note = f" The damaged bytes are kept in {copy}." if copy is not None else ""
        text = f"{state.path} was missing or damaged and was restored from memory.{copy_note}"
        team.emit(Notice(member=UNKNOWN_PROGRAM, text=text, level="warning"))
        return True

    def _report_return(self) -> None:
        team = self._team
        if not self._reported_missing & {"config.json", "team.json"}:
            return
        self._reported_missing.clear()
        team.external.files_removed = team.external.task_list_removed = False
        text = f'the files of the team "{team.name}" are back'
        team.emit(Notice(member=UNKNOWN_PROGRAM, text=text))

    def _handle_damage(self) -> None:
        """Warn once that the roster is damaged: this process never read it whole and cannot restore it."""
        if "damaged" in self._reported_missing:
            return
        self._reported_missing.add("damaged")
        path = self._team.roster.document.place
        text = f"the team's roster cannot be read: {path} is not a whole roster. It is left as it is; repair it."
        self._team.emit(Notice(member=UNKNOWN_PROGRAM, text=text, level="warning"))

    def _retry_after(self, seconds: float) -> None:
        if self._retry_timer is None:
            self._retry_timer = asyncio.get_running_loop().call_later(seconds, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self.note_change()


async def _unusable_files(team: SessionTeam) -> set[str]:
    """Return which of the team's files are missing, or for team.json damaged."""
    missing_files = set[str]() if team.roster.document.exists else {"config.json"}
    try:
        state = await team.state.read()
    except StorageError as problem:
        return missing_files | {"team.json"} if problem.slug == "damaged-file" else missing_files
    return missing_files if state is not None else missing_files | {"team.json"}


def _repaired_entry(entry: RosterMember, on_disk: RosterMember | None) -> RosterMember:
    """Return our entry with the parts that others may set: unknown keys, and for a separate process whether a turn
    runs.

    The prompt of a member that has ended is kept only in the file.
    """
    if on_disk is None:
        return entry
    active = entry.is_active if entry.backend_type == IN_PROCESS else on_disk.is_active
    return replace(entry, extra=on_disk.extra, is_active=active, prompt=entry.prompt or on_disk.prompt)


def _with_entry(config: TeamConfig, entry: RosterMember) -> TeamConfig:
    """Return the roster with the entry in its place; the lead's is the first."""
    if entry.name == LEAD and config.find(LEAD) is None:
        return replace(config, members=(entry, *config.members))
    return config.with_member(entry)


def _state(member: RosterMember) -> MemberState:
    """Return the state in an external member's entry; often empty."""
    if member.is_active is None:
        return MemberState.UNKNOWN
    return MemberState.WORKING if member.is_active else MemberState.IDLE
