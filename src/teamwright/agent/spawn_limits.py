"""Limits on starting agents: depth, number running, total, and rate.

One object covers all ways of starting in a run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

from msgspec import Struct, field

from teamwright.protocol.errors import LimitExceeded
from teamwright.protocol.setting_types import Count, Setting


class SpawnSettings(Struct, frozen=True):
    """Caps on starting agents; all are settings."""

    members: Annotated[Count, Setting("limits.members", "Live teammates at the same time.")] = 8
    spawns: Annotated[Count, Setting("limits.spawns", "Agents started in one run.")] = 32
    per_minute: Annotated[Count, Setting("limits.spawns_per_minute", "Agents started within a minute.")] = 12
    agents: Annotated[Count, Setting("limits.agents", "Sub-agents that run at the same time.")] = 20
    depth: Annotated[
        Count,
        Setting(
            "limits.depth",
            "The depth to which agents may start agents; a sub-agent of a teammate has depth 1.",
        ),
    ] = 1


AdmitElsewhere: TypeAlias = Callable[[], Awaitable[None]]
"""Count a sub-agent in the process that counts all of the run, when that is another one. Raises LimitExceeded."""


class SpawnLimits(Struct):
    """The counter of started agents. Call `admit` before a start, and `undo` when the start failed."""

    settings: SpawnSettings = field(default_factory=SpawnSettings)
    started: int = 0
    admit_elsewhere: AdmitElsewhere | None = None
    elsewhere: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    """The ids of running sub-agents in other processes, by the member in whose process they run."""
    _recent_starts: deque[float] = field(default_factory=deque[float])

    def admit(self, *, depth: int, live_members: int | None = None) -> None:
        """Count one start. Raises LimitExceeded with the cap and the setting that changes it.

        `live_members` is given for teammates only: the number that run now.
        """
        now = time.monotonic()
        while self._recent_starts and now - self._recent_starts[0] > 60:
            self._recent_starts.popleft()
        caps = self.settings
        if depth > caps.depth:
            who = "a sub-agent" if depth > 1 else "an agent"
            raise _limit_error(
                "depth", f"{who} cannot start agents at depth {depth} (depth {caps.depth})", "limits.depth"
            )
        if live_members is not None and live_members >= caps.members:
            raise _limit_error("members", f"{caps.members} teammates are live already", "limits.members")
        if self.started >= caps.spawns:
            raise _limit_error("spawns", f"{caps.spawns} agents were started in this run", "limits.spawns")
        if len(self._recent_starts) >= caps.per_minute:
            raise _limit_error(
                "rate", f"{caps.per_minute} agents were started within a minute", "limits.spawns_per_minute"
            )
        self._recent_starts.append(now)
        self.started += 1

    async def admit_subagent(self, depth: int, *, is_hook: bool = False) -> None:
        """Count the start of a sub-agent at that depth, in the process that counts all starts. Raises LimitExceeded.

        The agent of a hook is not counted: an agent's own calls would use up the starts of a hook that guards them.
        """
        if is_hook:
            return
        self.admit(depth=depth)
        if self.admit_elsewhere is not None:
            await self.admit_elsewhere()

    def check_subagents(self, running: int) -> None:
        """Raise LimitExceeded when no further sub-agent may run besides `running` and those of other processes."""
        running += sum(map(len, self.elsewhere.values()))
        if running >= self.settings.agents:
            raise _limit_error("agents", f"{running} sub-agents are running already", "limits.agents")

    def note_elsewhere(self, member: str, agent: str, *, is_running: bool) -> None:
        """Note that a sub-agent in the process of this member runs, or has ended."""
        running = self.elsewhere.setdefault(member, set())
        (running.add if is_running else running.discard)(agent)

    def forget_elsewhere(self, member: str) -> None:
        """Forget the sub-agents in the process of this member, which has ended."""
        self.elsewhere.pop(member, None)

    def undo(self) -> None:
        """Take back the start that was admitted last, because it failed."""
        self.started -= 1
        if self._recent_starts:
            self._recent_starts.pop()


def _limit_error(name: str, what: str, setting: str) -> LimitExceeded:
    do = ["Give the work to an agent that is there, or do it yourself.", f"The user can raise the setting {setting}."]
    return LimitExceeded("limit", what, looked_at=[("limit", name)], do=do, note="nothing was started")
