"""A member as its team sees it, in any process: in this one, in a separate one, or as another program.

The base class moves a member along the lifecycle table; its subclasses wake, interrupt and end it.
"""

from __future__ import annotations

import asyncio
from abc import ABCMeta, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, StructMeta, field

from teamwright.permissions.verdict import Mode
from teamwright.protocol.events import Emit, MemberChanged
from teamwright.protocol.ids import now_ms
from teamwright.protocol.members import MemberState
from teamwright.protocol.runtime_tags import TaskEnd
from teamwright.protocol.usage import Usage
from teamwright.team_records.life_cycle import LifecycleEvent, advance
from teamwright.teams.plan_requests import NO_PENDING_PLAN, PendingPlan

if TYPE_CHECKING:
    from teamwright.protocol.mail import ShutdownRequest
    from teamwright.teams.backend import Location, ShownLocation


class Teammates(dict[str, "Teammate"]):
    """Members by name; lookups without regard to case are possible too."""

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
        """Return the member that joined last under that name, in any case."""
        return self.get(self._names.get(name.lower(), name))


class TurnNotes(Struct):
    """The facts of the running turn for the idle notice."""

    wrote_lead: bool = False
    peer_mail: str = ""
    completed: str = ""


EXPLAINED_STATES = frozenset({MemberState.BLOCKED, MemberState.AWAITING, MemberState.STOPPING})
"""States whose detail says what the member waits for. A member that was asked to stop may wait for an answer too."""


class Wakeable(Protocol):
    """The wake-up target of a member."""

    def wake(self) -> None:
        """Wake the member, so that it checks its mail and the task list."""

    def is_held(self, sender: str, /) -> bool:
        """Return True when mail of that sender may not wake it now."""
        ...

    @property
    def wake_pending(self) -> bool:
        """True when a wake-up came after its last check."""
        ...


class AbstractStruct(StructMeta, ABCMeta):
    """The metaclass of structs with abstract methods."""


class Teammate(Struct, metaclass=AbstractStruct, kw_only=True, eq=False):
    """One member that is not the lead.

    `stop_request_id` is the id of its open shutdown request; `end_task` processes its end after a kill; `run_task`
    lasts as long as the member; `is_resting` says that it checked and has no work. `end_processed`: all effects of its
    end are done. `call` names the call that started it.
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
    process_commands: tuple[str, ...] = ()
    """The background commands that run in its own process, a line each, as of its last rest."""
    pending_plan: PendingPlan = NO_PENDING_PLAN
    end_processed: bool = False
    keeps_place: bool = False
    """True when it failed or crashed, and keeps its place on the roster."""
    crash_cause: str = ""
    """The reason why its last process ended, when this one resumes a crashed member."""
    call: str = ""
    team_changed: asyncio.Event = field(default_factory=asyncio.Event)
    effort: str = ""
    location: Location | None = None
    """The location of its process; None: it runs in its lead's."""
    location_reason: str = ""
    """The reason for its backend, when none was named."""
    edits_accepted_by: str = ""
    """The person who accepted all further edits of this incarnation (`terminal`); empty while edits need an answer."""

    @property
    def shown_location(self) -> ShownLocation:
        """Its location as shown to people."""
        from teamwright.teams.backend import ShownLocation

        return ShownLocation.from_location(self.location, self.location_reason)

    def note_end_cause(self, cause: str) -> None:
        """Record why the member will end, unless a cause is known already."""
        self.end_cause = self.end_cause or cause

    def note_stop_request(self, id: str) -> None:
        """Record its open shutdown request."""
        self.stop_request_id = id

    def note_end_processed(self) -> None:
        """Record that all effects of its end are done."""
        self.end_processed = True

    def set_model(self, model: str, effort: str) -> None:
        """Set the names of its model and effort, as shown to people."""
        self.model = model
        self.effort = effort

    def cut_off(self, state: MemberState, cause: str) -> None:
        """End the member at once in this state."""
        self.end_cause = cause
        self.state = state
        if self.run_task is not None:
            self.run_task.cancel()

    # ── identity ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    @abstractmethod
    def name(self) -> str:
        """The member's name."""

    @property
    @abstractmethod
    def mode(self) -> str:
        """The permission mode as shown to people."""

    @property
    def own_mode(self) -> Mode:
        """Its own mode; `bubble` while it follows its lead's, and for an external member."""
        return Mode.BUBBLE

    @property
    @abstractmethod
    def wake_target(self) -> Wakeable:
        """Its wake-up target."""

    @property
    @abstractmethod
    def transcript_path(self) -> Path: ...

    @property
    @abstractmethod
    def owes_turn(self) -> bool:
        """True when a limit of its model's service interrupted its last turn, which it will continue
        automatically.
        """

    @property
    @abstractmethod
    def cap_reason(self) -> str:
        """The cap that ended its last turn; empty when none did."""

    @property
    def waits_for_answer(self) -> bool:
        """True when one of its calls waits for an answer: it reads no mail until then."""
        return self.state is MemberState.BLOCKED or (self.state is MemberState.STOPPING and bool(self.waiting_on))

    @property
    def is_external(self) -> bool:
        """True when another program runs it."""
        return False

    # ── operations ────────────────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def deliver_late_answer(self, text: str) -> None:
        """Deliver an answer to one of its requests that is gone: as a notice."""

    @abstractmethod
    def notify(self, notice: str | TaskEnd, key: str = "") -> None:
        """Send it a notice of the runtime, which is delivered like mail, and wakes it."""

    @abstractmethod
    def note_raised_budget(self) -> None:
        """Record a larger budget: a turn that waits for it continues."""

    @abstractmethod
    def interrupt(self) -> bool:
        """Interrupt the running turn; False when none runs that could be interrupted."""

    @abstractmethod
    async def terminate(self, grace_s: float) -> str:
        """End it with all its processes. Returns an empty text, or what did not end within `grace_s` seconds."""

    def transition(self, event: LifecycleEvent, detail: str = "") -> None:
        """Take one step of the lifecycle table and emit the state."""
        self.state = advance(self.state, event)
        self.waiting_on = detail if self.state in EXPLAINED_STATES else ""
        self.last_active_ms = now_ms()
        self._emit_state(detail)
        if self.waits_for_answer:
            self.team_changed.set()

    def _emit_state(self, detail: str) -> None:
        self.emit(
            MemberChanged(
                member=self.name,
                state=self.state,
                detail=detail,
                color=self.color,
                model=self.model,
                effort=self.effort,
                incarnation=self.incarnation,
                turn=self.turns,
            )
        )
