"""What is known of a service's limits, and what each refusal and each success makes of it. Pure.

Times are of `time.monotonic`, which all processes of a machine share and no setting of the clock moves.
"""

from __future__ import annotations

from dataclasses import replace

from teamwright.protocol.values import dataclass

NO_LIMIT = 1e9
"""The limit while nobody was refused: then only `Terms.most` counts."""

FORGET_S = 300.0
"""After so long without a refusal, in seconds, all is as if there had been none."""


@dataclass(frozen=True, slots=True)
class RateLimitTerms:
    """How one governor behaves: `most` calls at once, pauses of its own from `backoff_s` to `backoff_most_s`."""

    max_running: int = 32
    backoff_s: float = 0.5
    max_backoff_s: float = 60.0


@dataclass(frozen=True, slots=True)
class RateState:
    """`epoch` counts refusals that were news, `level` those since the last success; `limit` may call at once.

    Nobody calls before `paused_until`; the last refusal was at `refused_at`.
    """

    epoch: int = 0
    level: int = 0
    limit: float = NO_LIMIT
    paused_until: float = 0.0
    refused_at: float = 0.0

    @property
    def is_limited(self) -> bool:
        """Whether fewer may call than usual: then processes share the places."""
        return self.limit < NO_LIMIT

    def at_time(self, now: float) -> RateState:
        """What of it still holds."""
        if not (self.is_limited or self.level) or now < max(self.refused_at + FORGET_S, self.paused_until):
            return self
        return RateState(self.epoch)

    def max_running(self, terms: RateLimitTerms) -> int:
        """How many may call at once."""
        return max(1, min(terms.max_running, int(self.limit)))


@dataclass(frozen=True, slots=True)
class ServiceRefusal:
    """A call that set out in `epoch` was refused at `now`, while `running` were calling here.

    `pause_s` is what the service asked for, None when it said nothing; `jitter` lengthens the pause by a share of it.
    """

    epoch: int
    running: int
    now: float
    pause_s: float | None = None
    jitter: float = 0.0


def apply_refusal(state: RateState, terms: RateLimitTerms, refusal: ServiceRefusal) -> RateState:
    """The service said: too many. Everybody pauses, and fewer may call.

    Several that were under way together are one refusal: the first halves the number, the others only lengthen the
    pause if the service asked for more.
    """
    if refusal.epoch == state.epoch:
        limit = max(1.0, min(state.limit, float(terms.max_running), float(max(refusal.running, 1))) / 2)
        state = replace(state, epoch=state.epoch + 1, level=state.level + 1, limit=limit)
    own = min(terms.max_backoff_s, terms.backoff_s * 2 ** min(max(state.level - 1, 0), 20))
    until = refusal.now + (own if refusal.pause_s is None else refusal.pause_s) * (1 + refusal.jitter)
    return replace(state, paused_until=max(state.paused_until, until), refused_at=refusal.now)


def apply_success(state: RateState, terms: RateLimitTerms, *, epoch: int) -> RateState:
    """One call was answered that set out in `epoch`: a little more may be let through."""
    limit = state.limit + 1 / state.limit if state.is_limited else state.limit
    level = 0 if epoch == state.epoch else state.level
    return replace(state, level=level, limit=NO_LIMIT if limit >= terms.max_running else limit)
