"""Activity of agents: events for calls that last longer than a second, and for agents without output for too long.

One timer serves all agents of a session. It runs only while an agent works. Depends on events and the loop's clock.
"""

from __future__ import annotations

import asyncio
import time

from msgspec import Struct, field

from teamwright.protocol.events import Emit, Progress

NOTIFY_AFTER_S = 1.0
"""Seconds that a call lasts before an event reports it."""

PROMPT_STEP = 0.05
"""The share of a prompt that is read between two events about it: even the longest prompt has few."""

STALLED_AFTER_S = 120.0
"""Default number of seconds without output after which a working agent counts as stalled."""


class Watchdog:
    """The activity timer of a session. `tell_s` and `stalled_s` are in seconds."""

    def __init__(self, emit: Emit, *, tell_s: float = NOTIFY_AFTER_S, stalled_s: float = STALLED_AFTER_S) -> None:
        self.emit = emit
        self.notify_s = tell_s
        self.stalled_s = stalled_s
        self._working: dict[AgentActivity, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def activity(self, member: str) -> AgentActivity:
        """Return the activity object of this agent, which its loop and its toolbox update."""
        return AgentActivity(member, self)

    def watch(self, activity: AgentActivity, due: float) -> None:
        """Check this activity at time `due` (of `time.monotonic`), if its agent is working then."""
        self._working[activity] = None
        if self._timer is None or due < self._due:
            self._arm(due)

    def forget(self, activity: AgentActivity) -> None:
        """Stop watching an agent that does not work any more. Without working agents there is no timer."""
        self._working.pop(activity, None)
        if not self._working:
            self.close()

    def close(self) -> None:
        """Cancel the timer at the end of the session."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = asyncio.get_running_loop().call_later(max(0.0, due - time.monotonic()), self._check)

    def _check(self) -> None:
        self._timer = None
        now = time.monotonic()
        due = [at for one in list(self._working) if (at := one.check(now)) is not None]
        if due:
            self._arm(min(due))


class AgentActivity(Struct, eq=False):
    """The current activity of one agent and its total working time.

    Without a watchdog (a sub-agent) no events are emitted.
    """

    member: str = ""
    watchdog: Watchdog | None = None
    _activity: str = ""
    _detail: str = ""
    _model: str = ""
    _since: float = 0.0
    _last_output: float = 0.0
    _calls: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    _at_work: bool = False
    _notified: bool = False
    _stalled: bool = False
    _share: float = 0.0
    _told_share: float = 0.0
    _own_server: bool = False
    _turn_began: float = 0.0
    _worked: float = 0.0

    @property
    def worked_s(self) -> float:
        """The total duration of its turns in seconds, the running turn included."""
        return self._worked + (time.monotonic() - self._turn_began if self._at_work else 0.0)

    # ── updated by the loop and the toolbox ──────────────────────────────────────────────────────────────────────

    def start_turn(self) -> None:
        """Note that a turn has started. The agent is working, between calls, until a call starts."""
        self._at_work = True
        self._turn_began = time.monotonic()
        self._start_step("", "")

    def start_model_call(self, model: str) -> None:
        """Note that a model call has started."""
        self._model = model
        self._own_server = False
        self._start_step("model", model)

    def start_wait(self, what: str) -> None:
        """Note that the model call waits: for a rate limit, or before the next attempt."""
        self._start_step("pause", what)

    def note_prompt_read(self, share: float) -> None:
        """Note that a server of the user has the prompt, and has read this share of it; 0 where it does not say.

        Such a server may compute for minutes before it answers, so the agent does not count as stalled.
        """
        self._last_output = time.monotonic()
        is_new_step = self._activity != "prompt"
        if is_new_step:
            told = self._notified
            self._own_server = True
            self._start_step("prompt", "")
            self._notified, self._share, self._told_share = told, 0.0, 0.0
        if share > self._share:
            self._share = share
            self._detail = f"{share * 100:.0f} %"
        if self._notified and (is_new_step or share - self._told_share >= PROMPT_STEP):
            self._notify()

    def note_output(self, *, is_content: bool = True) -> None:
        """Note output of the model: the agent is not stalled and does not wait any more.

        Content of the answer also ends the reading of the prompt.
        """
        self._last_output = time.monotonic()
        if self._stalled or self._activity == "pause" or (is_content and self._activity == "prompt"):
            was_notified = self._notified
            self._start_step("model", self._model)
            if was_notified:
                self._notify()

    def start_tool_call(self, call: str, what: str) -> None:
        """Note that a tool call has started."""
        now = time.monotonic()
        self._calls[call] = (what, now)
        if len(self._calls) == 1:
            self._notified = self._stalled = False
            self._watch(now + self._notify_s)

    def end_tool_call(self, call: str) -> None:
        """Note that a tool call has ended. Other calls of the same answer may still run; they are reported again."""
        self._calls.pop(call, None)
        self._notified = self._stalled = False
        self._last_output = time.monotonic()
        if self._calls:
            self._watch(self._last_output)
        else:
            self._start_step("", "")

    def end_turn(self) -> None:
        """Note that the turn has ended."""
        self._calls.clear()
        self._worked = self.worked_s
        self._at_work = False
        if self.watchdog is not None:
            self.watchdog.forget(self)

    # ── called by the watchdog ───────────────────────────────────────────────────────────────────────────────────

    def check(self, now: float) -> float | None:
        """Emit the events that are due. Return the time of the next check, or None when none is needed."""
        if self._calls:
            since = min(begun for _, begun in self._calls.values())
            return self._notify_when_due(now, since)
        if self._activity in {"pause", "prompt"}:
            return self._notify_when_due(now, self._since)
        if not self._stalled and now - self._last_output >= self._stalled_s:
            self._stalled = True
            self._notify()
        again = None if self._stalled else self._last_output + self._stalled_s
        if self._activity != "model" or self._stalled:
            return again
        soon = self._notify_when_due(now, self._since)
        return again if soon is None else soon

    def _notify_when_due(self, now: float, since: float) -> float | None:
        if self._notified:
            return None
        if now - since < self._notify_s:
            return since + self._notify_s
        self._notify()
        return None

    def _start_step(self, doing: str, what: str) -> None:
        self._activity = doing
        self._detail = what
        self._notified = self._stalled = False
        self._since = self._last_output = now = time.monotonic()
        if self.watchdog is not None and self._at_work:
            # The check may come too early for an agent without a call; it then returns the next time. Setting the timer
            # again would cost more.
            self.watchdog.watch(self, now + min(self.watchdog.notify_s, self.watchdog.stalled_s))

    def _watch(self, due: float) -> None:
        if self.watchdog is not None and self._at_work:
            self.watchdog.watch(self, due)

    def _notify(self) -> None:
        self._notified = True
        self._told_share = self._share
        if self.watchdog is None:
            return
        doing = self._activity
        what = self._detail
        since = self._since
        if self._calls:
            what, since = min(self._calls.values(), key=lambda call: call[1])
            doing = "tool"
        began = time.time() - (time.monotonic() - since)
        own = self._own_server and doing in {"model", "prompt"}
        self.watchdog.emit(
            Progress(
                member=self.member,
                doing=doing,
                what=what,
                since=round(began, 3),
                stalled=self._stalled,
                own_server=own,
            )
        )

    @property
    def _notify_s(self) -> float:
        return NOTIFY_AFTER_S if self.watchdog is None else self.watchdog.notify_s

    @property
    def _stalled_s(self) -> float:
        return STALLED_AFTER_S if self.watchdog is None else self.watchdog.stalled_s
