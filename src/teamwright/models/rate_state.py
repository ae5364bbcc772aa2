"""The state of a service's limits, and its changes after a refusal or a success, without I/O.

Times are of `time.monotonic`, which all processes of a machine share and no setting of the clock changes.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

NO_LIMIT = 1e9
"""The limit before any refusal: then only `RateLimitTerms.max_running` counts."""

MAX_PAUSE_S = 3600.0
"""Seconds of the longest valid pause: a longer one was not written by Teamwright."""

FORGET_S = 300.0
"""Seconds without a refusal after which all refusals are forgotten."""


class RateLimitTerms(Struct, frozen=True):
    """The parameters of one rate limiter: `max_running` calls at once, pauses from `backoff_s` to `max_backoff_s`."""

    max_running: int = 32
    backoff_s: float = 0.5
    max_backoff_s: float = 60.0


class RateState(Struct, frozen=True):
    """The state. `epoch` counts refusals that were new, `level` those since the last success; `limit` calls may run at
    once.

    No call starts before `paused_until`; the last refusal was at `refused_at`.
    """

    epoch: int = 0
    level: int = 0
    limit: float = NO_LIMIT
    paused_until: float = 0.0
    refused_at: float = 0.0

    def is_possible(self, now: float) -> bool:
        """Return True for a state that Teamwright may have stored. Others pause for ever, or are no numbers."""
        return self.limit >= 1 and 0 <= self.refused_at <= now + 1 and self.paused_until <= now + MAX_PAUSE_S

    @property
    def is_limited(self) -> bool:
        """True when fewer calls may run than usual: then processes share the permits."""
        return self.limit < NO_LIMIT

    def at_time(self, now: float) -> RateState:
        """Return the part of the state that is still valid."""
        if not (self.is_limited or self.level) or now < max(self.refused_at + FORGET_S, self.paused_until):
            return self
        return RateState(self.epoch)

    def max_running(self, terms: RateLimitTerms) -> int:
        """Return how many calls may run at once."""
        return max(1, min(terms.max_running, int(self.limit)))


class ServiceRefusal(Struct, frozen=True):
    """A call that started in `epoch` was refused at `now`, while `running` calls ran in this process.

    `pause_s` is the pause that the service asked for, None when it asked for none; `jitter` lengthens the pause by a
    share of it.
    """

    epoch: int
    running: int
    now: float
    pause_s: float | None = None
    jitter: float = 0.0


def apply_refusal(state: RateState, terms: RateLimitTerms, refusal: ServiceRefusal) -> RateState:
    """Return the state after a refusal: all calls pause, and fewer may run.

    Several refusals of concurrent calls are one: the first halves the limit, the others only lengthen the pause if the
    service asked for more.
    """
    if refusal.epoch == state.epoch:
        limit = max(1.0, min(state.limit, float(terms.max_running), float(max(refusal.running, 1))) / 2)
        state = replace(state, epoch=state.epoch + 1, level=state.level + 1, limit=limit)
    own = min(terms.max_backoff_s, terms.backoff_s * 2 ** min(max(state.level - 1, 0), 20))
    until = refusal.now + (own if refusal.pause_s is None else refusal.pause_s) * (1 + refusal.jitter)
    return replace(state, paused_until=max(state.paused_until, until), refused_at=refusal.now)


def apply_success(state: RateState, terms: RateLimitTerms, *, epoch: int) -> RateState:
    """Return the state after a success of a call that started in `epoch`: the limit rises a little."""
    limit = state.limit + 1 / state.limit if state.is_limited else state.limit
    level = 0 if epoch == state.epoch else state.level
    return replace(state, level=level, limit=NO_LIMIT if limit >= terms.max_running else limit)


SAME_REFUSAL_S = 0.05
"""Two times of a refusal that differ by at most so many seconds are one: clocks of machines are compared that exactly.
"""


def merge_states(here: RateState, there: RateState) -> RateState:
    """Return the state that two machines share, whose times are of one clock.

    The state of the later refusal counts, and the longer pause. After one refusal that both know, successes of either
    machine raise the limit. A refusal that is new here begins another epoch here.
    """
    newer, epoch = here, max(here.epoch, there.epoch)
    if there.refused_at > here.refused_at + SAME_REFUSAL_S:
        newer, epoch = there, max(here.epoch + 1, there.epoch)
    elif abs(there.refused_at - here.refused_at) <= SAME_REFUSAL_S:
        newer = replace(here, level=min(here.level, there.level), limit=max(here.limit, there.limit))
    paused_until = max(here.paused_until, there.paused_until)
    refused_at = max(here.refused_at, there.refused_at)
    return replace(newer, epoch=epoch, paused_until=paused_until, refused_at=refused_at)
