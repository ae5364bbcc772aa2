"""A member as its team sees it, wherever it runs: in this process, in one of its own, or as another program.

Holds what everybody may ask of a member, and moves it along the lifecycle table. Whoever runs it says how it is rung,
interrupted and wound up. Knows no agent and no process.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import field
from pathlib import Path
from typing import Protocol

from teamwright.permissions.verdict import Mode
from teamwright.protocol.clock import now_ms
from teamwright.protocol.events import Emit, MemberChanged
from teamwright.protocol.mail import ShutdownRequest
from teamwright.protocol.usage import Usage
from teamwright.protocol.values import dataclass
from teamwright.teams.backends.backend import Location, ShownLocation
from teamwright.teams.lifecycle import LifecycleEvent, MemberState, advance
from teamwright.teams.plan_requests import NO_PENDING_PLAN, PendingPlan


class Teammates(dict[str, "Teammate"]):
    """Members by name, which are also found without regard to case."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}

    def __setitem__(self, name: str, teammate: Teammate) -> None:
        self._names[name.lower()] = name
        super().__setitem__(name, teammate)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if self._names.get(name.lower()) == name:
            del self._names[name.lower()]

    def clear(self) -> None:
        """Forget all members."""
        self._names.clear()
        super().clear()

    def find_any_case(self, name: str) -> Teammate | None:
        """The member that joined last under that name, in any case."""
        return self.get(self._names.get(name.lower(), name))


@dataclass(slots=True)
class TurnNotes:
    """What happened in the turn that is running, for the idle notice."""

    wrote_lead: bool = False
    peer_mail: str = ""
    completed: str = ""


class Wakeable(Protocol):
    """Where a member is told that something may be new for it."""

    def wake(self) -> None:
        """Something may be new: it looks at its mail, and at the list."""
        ...

    def is_held(self, sender: str, /) -> bool:
        """Whether mail of that sender may not wake it for now."""
        ...

    @property
    def wake_pending(self) -> bool:
        """Whether somebody rang and it has not looked since."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Teammate(ABC):
    """One member that is not the lead.

    `asked` is the id of its open shutdown request; `ending` the task that sees it out once it was killed; `task` lasts
    as long as its life; `resting` says that it looked, and there is nothing to do. `parted`: everything that follows
    from its end is done. `call` names the call that started it. `owes`: its last turn was given up, and may work later.
    """

    emit: Emit
    incarnation: int
    color: str | None = None
    model: str = ""
    agent_type: str = "general-purpose"
    state: MemberState = MemberState.PENDING
    waiting_on: str = ""
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    last_active_ms: int = field(default_factory=now_ms)
    turn_notes: TurnNotes = field(default_factory=TurnNotes)
    run_task: asyncio.Task[None] | None = None
    end_task: asyncio.Task[None] | None = None
    stop_request_id: str = ""
    stop_request: ShutdownRequest | None = None
    end_cause: str = ""
    is_resting: bool = False
    pending_plan: PendingPlan = NO_PENDING_PLAN
    end_processed: bool = False
    keeps_place: bool = False
    """Whether it failed or crashed, and keeps its place on the roster."""
    crash_cause: str = ""
    """Why its last process ended, where this one resumes a member that had crashed."""
    call: str = ""
    team_changed: asyncio.Event = field(default_factory=asyncio.Event)
    effort: str = ""
    location: Location | None = None
    """Where its process was started; None: it lives in its lead's."""
    location_reason: str = ""
    """Why it lives there, where nobody said so."""
    edits_accepted_by: str = ""
    """The person who accepted all further edits of this life (`terminal`); empty while edits are asked about."""

    @property
    def shown_location(self) -> ShownLocation:
        """Where it lives, as people are told."""
        return ShownLocation.from_location(self.location, self.location_reason)

    # ── who it is ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    @abstractmethod
    def name(self) -> str:
        """The member's name."""

    @property
    @abstractmethod
    def mode(self) -> str:
        """The permission mode that people are shown."""

    @property
    def own_mode(self) -> Mode:
        """Its own mode; `bubble` while it follows its lead's, and for one that no process of ours runs."""
        return Mode.BUBBLE

    @property
    @abstractmethod
    def wake_target(self) -> Wakeable:
        """Where it is rung."""

    @property
    @abstractmethod
    def transcript_path(self) -> Path:
        """Its transcript."""

    @property
    @abstractmethod
    def owes_turn(self) -> bool:
        """Whether a limit of its model's service cut its last turn, which it goes on with by itself."""

    @property
    @abstractmethod
    def cap_reason(self) -> str:
        """The cap that ended its last turn; empty when none did."""

    @property
    def is_external(self) -> bool:
        """Whether another program runs it."""
        return False

    # ── what is done to it ────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def deliver_late_answer(self, text: str) -> None:
        """An answer came to a request of its that is gone: it is told."""

    @abstractmethod
    def notify(self, text: str, key: str = "") -> None:
        """A note of the runtime for it alone: told like mail, and it wakes."""

    @abstractmethod
    def note_raised_budget(self) -> None:
        """A larger budget came: a turn that waits for it goes on."""

    @abstractmethod
    def interrupt(self) -> bool:
        """Cut the turn that runs short; False when none runs that could be cut."""

    @abstractmethod
    async def terminate(self, grace_s: float) -> str:
        """End it, with all that it runs. Empty, or what did not end within `grace_s` seconds."""

    def transition(self, event: LifecycleEvent, detail: str = "") -> None:
        """Take one step of the lifecycle table and say so."""
        self.state = advance(self.state, event)
        self.waiting_on = detail if self.state in {MemberState.BLOCKED, MemberState.AWAITING} else ""
        self.last_active_ms = now_ms()
        self._emit_state(detail)

    def _emit_state(self, detail: str) -> None:
        """Say how it stands."""
        self.emit(
            MemberChanged(
                member=self.name,
                state=str(self.state),
                detail=detail,
                color=self.color,
                model=self.model,
                effort=self.effort,
                life=self.incarnation,
                turn=self.turns,
            )
        )
