"""What the sub-agents of a session need from above, and what they are told: settings, ports, and the call that asks.

Values and protocols; nothing is done here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from teamwright.agent.agent import Agent
from teamwright.protocol.values import dataclass
from teamwright.teams.spawn_spec import SpawnSpec
from teamwright.teams.subagents.run import SubagentRun


@dataclass(frozen=True, slots=True)
class SubagentSettings:
    """How sub-agents are run; all are settings."""

    background: bool = True
    """Whether they may run in the background at all."""

    background_after_s: float | None = None
    """After so long in the foreground one goes on in the background; None: never by itself."""

    jobs_wait_s: float = 600.0
    """How long one that has answered waits for its own background commands; then they are stopped."""

    coordinator: bool = False
    """Every sub-agent runs in the background, with its own or its caller's model: a call cannot name one."""

    assistant: bool = False
    """Every sub-agent runs in the background, so that whoever talks to the lead never waits for one."""

    fork: bool = False
    """A call that names no kind makes a fork of its caller; every agent that a call starts runs in the background."""

    @property
    def always_background(self) -> bool:
        """Whether every sub-agent runs in the background."""
        return self.background and (self.coordinator or self.assistant)

    def fork_refusal(self) -> str:
        """Why other settings exclude forks, which are wanted; empty when they do not, or forks are not wanted."""
        if not self.fork:
            return ""
        if self.coordinator:
            return "a coordinator hands work over by its own rules (coordinator is on)"
        if not self.background:
            return "a fork always runs in the background (agents.background is off)"
        return ""

    @property
    def hidden_parameters(self) -> dict[str, str]:
        """Parameters of a call that cannot be honoured, and why."""
        made = {"isolation": "every agent works in the session's directory"}
        if not self.background:
            made["run_in_background"] = "nothing runs in the background here"
        elif self.coordinator or self.assistant or self.fork:
            made["run_in_background"] = "every sub-agent runs in the background here"
        if self.coordinator:
            made["model"] = "a coordinator's agents have the model of their kind, or its own"
        return made


class SubagentBuilder(Protocol):
    """The port that makes a sub-agent ready to run: filled in `app`."""

    def resolve(self, spec: SpawnSpec) -> SpawnSpec:
        """The spec with what its kind says. Raises UsageError for a kind that nobody knows."""
        ...

    async def build_subagent(self, spec: SpawnSpec, caller: str, run: SubagentRun, *, resumed: bool = False) -> Agent:
        """One that is ready for its first turn, or with all of its conversation.

        Raises TeamwrightError when it cannot be made or a limit forbids it.
        """
        ...

    def transcript_path(self, id: str) -> Path:
        """Where the transcript of a sub-agent of this session lies."""
        ...


class OwnerNotifier(Protocol):
    """The port through which owners hear of ends."""

    def notify(self, owner: str, text: str, key: str) -> bool:
        """Put a notice into the owner's queue and wake it; False when there is no such owner any more."""
        ...

    def withdraw(self, owner: str, key: str) -> bool:
        """Take back a notice that the owner was not told yet; whether it was there."""
        ...

    def notify_change(self) -> None:
        """Something has ended: whoever waits for quiet looks again."""
        ...


@dataclass(frozen=True, slots=True)
class CallRef:
    """The call that asks: the model's own id of it, and its name for good. `again`: a kill cut it off before."""

    tool_use_id: str = ""
    key: str = ""
    is_rerun: bool = False
