"""The settings and ports of a session's sub-agents, and the reference to a call.

Values and protocols only.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from msgspec import Meta, Struct

from teamwright.agent.tool import HiddenParameter
from teamwright.protocol.runtime_tags import TaskEnd
from teamwright.protocol.setting_types import Seconds, Setting, Switch

if TYPE_CHECKING:
    from teamwright.agent.agent import Agent
    from teamwright.protocol.events import Emit
    from teamwright.subagents.subagent_run import SubagentRun
    from teamwright.team_records.spawn_spec import SpawnSpec


class SubagentSettings(Struct, frozen=True):
    """The settings of sub-agents."""

    background: Annotated[
        bool | Literal["always"],
        Meta(extra={"expected": 'true, false or "always"', "sample": "true"}),
        Setting(
            "agents.background",
            "Whether sub-agents may run in the background; always: every sub-agent does.",
        ),
    ] = True
    background_after_s: (
        Annotated[
            Seconds,
            Setting("agents.background_after_s", "Time after which a foreground sub-agent moves to the background."),
        ]
        | None
    ) = None
    """None: never automatically."""
    jobs_wait_s: Annotated[
        Seconds,
        Setting(
            "agents.jobs_wait_s",
            "How long a sub-agent that has answered, or a headless run that is done, waits for background commands.",
        ),
    ] = 600.0
    fork: Annotated[
        Switch,
        Setting("agents.fork", "Whether a call of Agent without an agent type starts a fork of its caller."),
    ] = False
    """True: every agent that a call starts runs in the background."""
    coordinator: Annotated[
        Switch,
        Setting("coordinator", "Whether every sub-agent runs in the background, and a call cannot name a model."),
    ] = False

    @property
    def always_background(self) -> bool:
        """True when every sub-agent runs in the background."""
        return self.background == "always" or (self.background and self.coordinator)

    def fork_refusal(self) -> str:
        """Return why other settings exclude the enabled forks; empty when they do not, or forks are disabled."""
        if not self.fork:
            return ""
        if self.coordinator:
            return "a coordinator hands work over by its own rules (coordinator is on)"
        if not self.background:
            return "a fork always runs in the background (agents.background is off)"
        return ""

    def hidden_parameters(self, *, allow_names: bool = True) -> dict[str, HiddenParameter]:
        """Return the parameters of a call that cannot be honoured, and why."""
        reasons: dict[str, HiddenParameter] = {}
        if not self.background:
            reasons["run_in_background"] = HiddenParameter("nothing runs in the background here", False)
        elif self.always_background or self.fork:
            reasons["run_in_background"] = HiddenParameter("every sub-agent runs in the background here", True)
        if self.coordinator:
            reasons["model"] = HiddenParameter("a coordinator's agents have the model of their kind, or its own")
        if not allow_names:
            reasons["name"] = HiddenParameter("a sub-agent of yours has an id alone")
        return reasons


class SubagentBuilder(Protocol):
    """The port that builds a sub-agent, implemented in `session`."""

    def resolve(self, spec: SpawnSpec) -> SpawnSpec:
        """Return the spec with the values of its agent type. Raises UsageError for an unknown type."""
        ...

    async def build_subagent(
        self, spec: SpawnSpec, caller: str, run: SubagentRun, emit: Emit, *, resumed: bool = False
    ) -> Agent:
        """Return an agent that is ready for its first turn, or has its whole conversation. `emit` takes its events.

        Raises TeamwrightError when it cannot be built or a limit forbids it.
        """
        ...

    async def end_subagent(self, run: SubagentRun) -> None:
        """Release what the ended sub-agent had, and add to its text what its caller must know."""

    def transcript_path(self, id: str) -> Path:
        """Return the path of a sub-agent's transcript in this session."""
        ...


class OwnerNotifier(Protocol):
    """The port that notifies owners of ends."""

    def notify(self, owner: str, end: TaskEnd, key: str) -> bool:
        """Put the end into the owner's queue and wake it; False when that owner has ended."""
        ...

    def withdraw(self, owner: str, key: str) -> bool:
        """Withdraw an undelivered notice. Returns True when there was one."""
        ...

    def notify_change(self) -> None:
        """Signal an end, so that waits for a quiet team check again."""


class CallRef(Struct, frozen=True):
    """A reference to a call: the model's own id, and its permanent name. `is_rerun`: a kill interrupted it before."""

    tool_use_id: str = ""
    key: str = ""
    is_rerun: bool = False
