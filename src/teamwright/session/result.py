"""The result of a run, with the same five endings as the exit codes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, cast

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from teamwright.protocol.errors import LimitExceeded, TeamwrightError
from teamwright.protocol.events import ModelChanged
from teamwright.protocol.members import MemberState
from teamwright.protocol.task import IntegrationState
from teamwright.protocol.usage import Usage
from teamwright.tasks.completion_conditions import task_notes

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # the one with a default, which only a type checker needs

    from teamwright.tasks.task_list import TaskList
    from teamwright.tasks.task_store import TaskSnapshot

    OutputT = TypeVar("OutputT", default=Any, covariant=True)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")

Stop: TypeAlias = Literal["done", "failed", "limit", "cut_off", "cancelled", "suspended"]
"""The ending of a run: a closed set, so that a type checker finds a `match` without one of them."""

EXIT_CODES: dict[Stop, int] = {"done": 0, "failed": 1, "limit": 4, "cut_off": 5, "cancelled": 130, "suspended": 130}
"""The exit code of each ending."""

_LARGER = {
    "money": " --max-budget-usd USD",
    "tokens": " --max-tokens N",
    "turns": " --max-turns N",
    "time": " --timeout TIME",
}
"""The flag that raises a cap that was reached."""

_UNDONE = {
    "failed": ("failed", "the run failed"),
    "cut_off": ("cut-off", "the run ended with work cut off"),
    "cancelled": ("interrupted", "the run was cancelled"),
    "suspended": ("interrupted", "the run was suspended"),
}
"""Slug and sentence of an ending without an error."""


class TaskResult(Struct, frozen=True):
    """A task in a result. `unverified`: it is completed without a successful check.

    `others`: it is on a list that several sessions share, and no member of this session created or changed it.
    `integration` is the state of its commit, if its owner works in a worktree. `notes` are texts about its review and
    about tasks at work that change the same paths.
    """

    id: str
    subject: str
    status: str
    owner: str | None = None
    unverified: bool = False
    others: bool = False
    integration: IntegrationState | None = None
    notes: tuple[str, ...] = ()

    @property
    def shown_status(self) -> str:
        """The status as shown to people."""
        notes = ["unverified"] * self.unverified + ([str(self.integration)] if self.integration is not None else [])
        return ", ".join((self.status, *notes, *self.notes))

    @property
    def is_open(self) -> bool:
        """True when it is not completed, or its commit is not integrated yet."""
        return self.status != "completed" or self.integration is IntegrationState.QUEUED


def task_results(tasks: TaskList, found: TaskSnapshot, others: Collection[str]) -> tuple[TaskResult, ...]:
    """Return the tasks of a list as results; `others` are the ids of those of other sessions."""
    damaged = {one.id: TaskResult(one.id, str(one), "damaged") for one in found.damaged}
    whole = [
        TaskResult(
            task.id,
            task.subject,
            str(task.status),
            task.owner,
            tasks.is_unverified(task),
            task.id in others,
            task.integration.state if task.integration is not None else None,
            task_notes(task, found.tasks),
        )
        for task in found.tasks
    ]
    return (*(one for one in whole if one.id not in damaged), *damaged.values())


class MemberResult(Struct, frozen=True):
    """A member in a result: its ending, its model, its usage, its context in tokens.

    `error`: why its last turn or its process failed; empty after a success. `ended`: why it failed, crashed or was
    stopped; empty when it ended in order.
    """

    name: str
    state: MemberState
    model: str
    usage: Usage
    turns: int = 0
    context: int = 0
    error: str = ""
    ended: str = ""


class Result(Struct, Generic[OutputT], frozen=True):
    """The result of a run. Only a failed start raises; every other end is a result.

    For a type checker `Result[Report]` is the result of a run with `output_type=Report`.
    """

    text: str
    """The final text of the lead; after another end than done the text so far."""
    stop: Stop
    """The end of the run: done, failed, limit, cut_off (members or background commands were stopped at work, or all
    members failed), cancelled or suspended."""
    usage: Usage
    """The usage of all agents since the team's block was entered."""
    by_member: dict[str, Usage] = field(default_factory=dict[str, Usage])
    """The usage of each agent by name; sub-agents are under their ids."""
    tasks: tuple[TaskResult, ...] = ()
    """The tasks of the team's list, in numeric order."""
    denials: tuple[dict[str, Any], ...] = ()
    """The calls that were denied, each with `tool_name tool_use_id tool_input member rule reason`."""
    resume_command: str = ""
    """The command that resumes the session; empty when nothing is stored."""
    session_id: str = ""
    """The id of the lead's session."""
    team: str = ""
    """The name of the team; empty without a team."""
    members: tuple[MemberResult, ...] = ()
    """The lead and all members, also those that ended."""
    turns: int = 0
    """The number of model calls of the lead."""
    duration_ms: int = 0
    """Milliseconds since the block was entered."""
    api_ms: int = 0
    """Milliseconds of all model calls together."""
    limit: str = ""
    """The cap that ended the run: money, tokens, turns, time or repeats; empty for none."""
    limit_detail: str = ""
    """The used part of that cap, as a text."""
    cut_off: tuple[str, ...] = ()
    """The names of the members that were stopped at work, and the background commands that were stopped."""
    messages_sent: int = 0
    """The number of messages that members and lead sent each other."""
    messages_seen: int = 0
    """The number of those that a conversation has received."""
    messages_undelivered: int = 0
    """The number of those that no conversation has received yet."""
    error: TeamwrightError | None = None
    """The reason why the run is not done; None for a run that is done. At a limit, and when members were cut
    off, `raise_for_stop` makes it."""
    end: str = ""
    """The end of the lead's newest answer, as in docs/reference/answer-ends.md."""
    output: OutputT = field(default=cast("OutputT", None))
    """The value of the final answer: of the `output_type`, or of the schema. None without either, and in a run that
    ended before it had such an answer: look at `ok` first, or call `raise_for_stop()`."""
    fallbacks: tuple[ModelChanged, ...] = ()
    """The agents that changed to a fallback model, in the order of the changes."""
    api_status: int = 0
    """The HTTP status with which a service of models refused the request that ended the run; 0 without one."""

    @property
    def larger_command(self) -> str:
        """The command that resumes with a higher cap; its capital letters are a placeholder for a number."""
        return f"{self.resume_command}{_LARGER.get(self.limit, '')}"

    @property
    def ok(self) -> bool:
        """True when the run is done."""
        return self.stop == "done"

    @property
    def open_tasks(self) -> tuple[TaskResult, ...]:
        """The tasks that are open; on a shared list those of this session."""
        return tuple(task for task in self.tasks if task.is_open and not task.others)

    @property
    def failed_members(self) -> tuple[MemberResult, ...]:
        """The members whose last turn or process failed; the lead's failure is the run's."""
        return tuple(one for one in self.members if one.error)

    @property
    def all_failed(self) -> bool:
        """True when there were members besides the lead, and all of them failed."""
        return len(self.members) > 1 and all(one.error for one in self.members[1:])

    @property
    def exit_code(self) -> int:
        """The exit code of this ending; an error before the start has its own."""
        if self.error is not None and self.stop == "failed":
            return self.error.exit_code
        return EXIT_CODES[self.stop]

    def as_json(self) -> dict[str, Any]:
        """Return the result as an object that JSON can hold, with `ok` and `exit_code`.

        A usage has the token counts, `requests` and `usd`; an error its `slug` and `what`. A pydantic model or a
        dataclass in `output` becomes an object.
        """
        from pydantic_core import to_jsonable_python

        out = {name: getattr(self, name) for name in self.__struct_fields__}
        error = None if self.error is None else {"slug": self.error.slug, "what": self.error.what}
        return out | {
            "ok": self.ok,
            "exit_code": self.exit_code,
            "usage": self.usage.as_priced_json(),
            "by_member": {name: usage.as_priced_json() for name, usage in self.by_member.items()},
            "tasks": [to_builtins(task) for task in self.tasks],
            "denials": [to_jsonable_python(denial, fallback=str) for denial in self.denials],
            "members": [to_builtins(one) | {"usage": one.usage.as_priced_json()} for one in self.members],
            "cut_off": list(self.cut_off),
            "error": error,
            "output": to_jsonable_python(self.output, fallback=str),
            "fallbacks": [event.as_json() for event in self.fallbacks],
        }

    def raise_for_stop(self) -> None:
        """Raise the error that stopped the run; do nothing when it is `ok`.

        Raises LimitExceeded (`limit`), ModelFailed or another TeamwrightError (`failed`), TeamwrightError with the slug
        `cut-off` or `interrupted`.
        """
        if self.ok:
            return
        if self.error is not None:
            raise self.error
        if self.stop == "limit":
            raise LimitExceeded("limit", f"the run reached its limit: {self.limit}", do=[self.resume_command])
        slug, what = _UNDONE[self.stop]
        raise TeamwrightError(slug, what, do=[self.resume_command])


def judged(result: Result) -> Result:
    """Return the result with its final ending: a run that cut members off, or whose members all failed, is no
    success.
    """
    if result.stop == "done" and result.cut_off:
        return replace(result, stop="cut_off")
    if result.stop != "done" or not result.all_failed:
        return result
    why = "; ".join(f"{one.name}: {one.error}" for one in result.members[1:])
    error = TeamwrightError("cut-off", f"every member failed: {why}", do=[result.resume_command])
    return replace(result, stop="cut_off", error=error)
