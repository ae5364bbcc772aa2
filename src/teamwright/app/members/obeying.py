"""What a member's process does when its lead's says so, and what it tells it of itself.

It looks when it is rung and says when it has; it hears how the others stand; it is interrupted, changed and ended from
there. Knows the member and the line; does not know what is shown in its pane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import asdict, field, replace

from teamwright.agent.agent import Agent
from teamwright.app.acts.table import Here, perform
from teamwright.app.making.maker import Maker
from teamwright.app.members.calling import Line
from teamwright.app.members.ending import Ending
from teamwright.app.members.told import follow, rules_of
from teamwright.permissions.rule import Rule
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import CannotStart, TeamRefused
from teamwright.protocol.event_json import from_json
from teamwright.protocol.events import LIVE, MemberChanged, ModeChanged, TaskChanged, TeamEvent, ToolCalled
from teamwright.protocol.values import dataclass
from teamwright.storage.sockets.wire import Said
from teamwright.tasks.outside import Outside
from teamwright.teams.lifecycle import GONE, State
from teamwright.teams.modes.changing import set_mode
from teamwright.teams.plans.approval import take_up_plan
from teamwright.teams.team import Team
from teamwright.teams.teammate import Teammate

_RESTS = frozenset({State.IDLE, State.AWAITING})


@dataclass(slots=True)
class Obeying(Ending):
    """One member's process, as its lead drives it."""

    team: Team
    maker: Maker
    line: Line
    here: Callable[[Agent], Here]
    """What acts are done with (see app.acts)."""
    _number: int = 0
    _said: int = -1
    _held: frozenset[str] = frozenset()
    _granted: tuple[Rule, ...] = ()
    _untold: list[Rule] = field(default_factory=list[Rule])
    """What somebody said always to here, until the lead's policy has it."""
    _unwatch: Callable[[], None] | None = None
    _reporting: asyncio.Task[None] | None = None
    _early: list[tuple[str, Said]] = field(default_factory=list[tuple[str, Said]])
    """What was said to the member before it was at work here."""
    _looking: set[asyncio.Task[set[str]]] = field(default_factory=set["asyncio.Task[set[str]]"])

    def lives(self, mate: Teammate) -> None:
        """The member is at work here; the lead hears when it rests."""
        self.mate = mate
        mate.desk.held = self._held.__contains__
        self._reporting = asyncio.create_task(self._report(), name="rests")
        mate.desk.ring()
        self.cut()
        early, self._early = self._early, []
        for name, said in early:
            self.noted(name, said)
        self._tell_mode(mate)

    async def close(self) -> None:
        """Report no more."""
        if self._reporting is not None:
            self._reporting.cancel()
            await asyncio.gather(self._reporting, return_exceptions=True)

    # ── what the lead says (see Line) ─────────────────────────────────────────────────────────────────────────

    def welcomed(self, said: Said) -> None:
        """The lead answers, for the first time or again: its policy holds, and it hears how things are."""
        if "policy" in said:
            self._follow(said["policy"])
        self._watched(said.get("watched") is True)
        self._said = -1
        self.team.changed.set()

    def stands(self) -> Said:
        """How the member stands now (see Line.stands)."""
        mate = self.mate
        if mate is None or mate.state in GONE:
            return {}
        return {
            "state": str(mate.state),
            "detail": mate.waiting_on,
            "turn": mate.turns,
            "model": mate.model,
            "effort": mate.effort,
            "mode": str(mate.own_mode),
            "limited": mate.owes,
            "capped": mate.stopped_by,
            "plan": [mate.plan.request, mate.plan.whom],
        }

    def noted(self, name: str, said: Said) -> None:
        """See Line.on_note."""
        mate = self.mate
        match name:
            case "policy":
                self._follow(said["policy"])
            case "watched":
                self._watched(said.get("on") is True)
            case "elsewhere":
                self._elsewhere(from_json(said["event"]))
            case "end":
                self.end("suspended" if said.get("suspend") else "killed", str(said.get("cause") or ""))
            case "look" if mate is None:
                self._number = int(said["number"])
            case _ if mate is not None:
                self._to_mate(mate, name, said)
            case _:
                self._early.append((name, said))

    def _to_mate(self, mate: Teammate, name: str, said: Said) -> None:
        match name:
            case "look":
                self._number = int(said["number"])
                self._held = frozenset(said.get("held", ()))
                mate.desk.held = self._held.__contains__
                mate.desk.ring()
                self.team.changed.set()
            case "interrupt":
                mate.interrupt()
            case "late":
                mate.late(str(said["text"]))
            case "notice":
                mate.notice(str(said["text"]), str(said.get("key") or ""))
            case "budget_raised":
                mate.budget_raised()
            case _:
                pass

    async def called(self, name: str, said: Said) -> Said:
        """See Line.on_call."""
        mate = self.mate
        match name:
            case _ if mate is None:
                raise TeamRefused("team-refused", "it is not ready yet", note="nothing was changed")
            case "set_mode":
                done = await set_mode(self.team, mate.name, Mode(said["mode"]), str(said["by"]))
                held = str(done.held_by) if done.held_by is not None else None
                return {"mode": str(done.mode), "before": str(done.before), "held_by": held}
            case "plan_answered":
                await take_up_plan(self.team, mate)
                self._tell_of_plan(mate)
                return {}
            case _:
                made = await perform(self.here(mate.agent), name, said)
                if made is not None:
                    return made
                raise TeamRefused("team-refused", f"{name!r} is nothing that a member does", note="nothing was changed")

    def _watched(self, on: bool) -> None:
        """Whether the lead wants to be shown what is said here while it is said."""
        log = self.line.log
        if on and self._unwatch is None and log is not None:
            self._unwatch = log.subscribe(self._live)
        elif not on and self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    def _live(self, _number: int, event: TeamEvent) -> None:
        if isinstance(event, LIVE):
            self.line.live(event)

    def require_wanted(self) -> None:
        """Raises CannotStart when the member was ended before it was at work."""
        if self.ended is not None:
            why = self.ended.cause or self.ended.how
            raise CannotStart("backend", f"it was ended while it started: {why}", note="nothing was begun")

    # ── the others ────────────────────────────────────────────────────────────────────────────────────────────

    def standing_of(self, name: str) -> State | None:
        """See Team.reached."""
        known = self.team.standing.members.get(name)
        try:
            state = State(known.state) if known is not None else State.IDLE
        except ValueError:
            return State.IDLE
        return None if state in GONE else state

    def own(self, number: int, event: TeamEvent) -> None:
        """What happened here counts in how everybody stands; what was refused, in the report of the run."""
        self.team.standing.note(number, event)
        if isinstance(event, MemberChanged) and self.mate is not None and self.mate.state not in _RESTS:
            self._said = -1  # whoever woke it: the lead hears again when it rests
        denials = self.maker.denials
        if isinstance(event, ToolCalled) and denials:
            self.line.note("denied", denials=[asdict(one) for one in denials])
            denials.clear()

    def _elsewhere(self, event: TeamEvent | None) -> None:
        if event is None:
            return
        self.team.standing.note(self.team.standing.n, event)
        self.maker.purse.note(event)
        if isinstance(event, TaskChanged):
            self.tasks_changed()

    def said_always(self, text: str, rules: tuple[Rule, ...]) -> None:
        """An "always" was answered to somebody here: it holds at once, and the lead has it hold everywhere."""
        self._untold += rules
        self.line.note("always", rule=text)

    def _follow(self, policy: Said) -> None:
        """The lead's policy holds here too, also for whom it was narrowed for."""
        session = self.maker.policies.session
        more = follow(session, policy)
        former, self._granted = self._granted, rules_of(policy, session.scope.base)
        told = {rule.text for rule in self._granted}
        former += tuple(rule for rule in self._untold if rule.text in told)
        self._untold = [rule for rule in self._untold if rule.text not in told]
        for one in self.maker.policies:
            if one is session or one.mode is not Mode.BUBBLE:
                one.exchange(former, self._granted)
            if one is not session and more and one.mode is not Mode.BUBBLE:
                one.scope = replace(one.scope, directories=tuple(dict.fromkeys((*one.scope.directories, *more))))

    # ── looking, and saying so ────────────────────────────────────────────────────────────────────────────────

    def look_at_tasks(self, known: Outside, names: Iterable[str] | None) -> None:
        """Files of the task list changed: what is in them is known from now on."""
        task = asyncio.ensure_future(known.look(names))
        self._looking.add(task)
        task.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[set[str]]) -> None:
        self._looking.discard(task)
        if not task.cancelled():
            task.exception()  # what cannot be read is looked at again with the next change
        self.tasks_changed()

    def tasks_changed(self) -> None:
        """A task may have become free."""
        if self.mate is not None and self.mate.state is State.IDLE:
            self.mate.desk.ring()
        self.team.changed.set()

    async def _report(self) -> None:
        """Tell the lead each time that there is nothing left to do."""
        team = self.team
        while True:
            team.changed.clear()
            number = self._number
            if number != self._said and self._rests():
                self._said = number
                self.line.note("rests", number=number)
            await team.changed.wait()

    def _rests(self) -> bool:
        mate, agents = self.mate, self.team.agents
        if mate is None or not mate.resting or mate.desk.rung or self._looking:
            return False
        return agents is None or not agents.pending()

    def said_mode(self, _number: int, event: TeamEvent) -> None:
        """The lead knows the member's own mode before it hears the event, which says what decides now."""
        if isinstance(event, ModeChanged) and self.mate is not None and event.member == self.mate.name:
            self._tell_mode(self.mate)

    def _tell_mode(self, mate: Teammate) -> None:
        self.line.note("mode", mode=str(mate.own_mode))

    def _tell_of_plan(self, mate: Teammate) -> None:
        self.line.note("plan", request=mate.plan.request, target=mate.plan.whom)
