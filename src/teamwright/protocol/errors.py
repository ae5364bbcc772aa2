"""Errors: one class for each kind of failure, with the texts that a person or a model reads.

TeamwrightError                 the base class; has a slug of the table below
├── UsageError                  a call, command line or setting that is not accepted      exit 2
│   ├── InvalidName             a name that is not valid                                  exit 2
│   └── UnknownMember           a name that is not in the team                            exit 2
├── CannotStart                 something needed is missing or unreadable                 exit 3
├── LimitExceeded               a cap is used up                                          exit 4
├── StorageError                a failure of the disk, a lock or a file                   exit 1
│   ├── LockTimeout             another owner held the lock past the deadline
│   ├── LockLost                another program took the lock: nothing was committed
│   └── InboxFull               the recipient is not reading
├── TaskRefused                 the task graph or another owner forbids it                exit 1
├── TeamRefused                 the team's state forbids it                               exit 1
├── WorktreeRefused             the state of a worktree or branch forbids it              exit 1
└── ModelFailed                 a final failure of the model's service                    exit 1

Tool failures are results for the model, not errors. All errors have one form: what happened, the values that were
checked, what to do, and a slug that docs/reference/errors.md explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct


class Slug(Struct, frozen=True):
    """One row of the table: exit code of the process, kind as an HTTP status, and a line for the docs."""

    exit_code: int
    kind: int
    meaning: str


SLUGS: dict[str, Slug] = {
    "usage": Slug(2, 400, "The command line, a parameter or a setting is unknown or not valid."),
    "bad-name": Slug(2, 400, "A name is reserved or not valid, or would leave its directory."),
    "unknown-member": Slug(2, 404, "The team has no member of that name; nothing was sent."),
    "unknown-team": Slug(2, 404, "No team of that name is on disk."),
    "unknown-session": Slug(2, 404, "No session of that id is on disk."),
    "unknown-task": Slug(2, 404, "No task of that number is on the list."),
    "not-for-agents": Slug(2, 403, "Only a person may do this, and a command of an agent tried it."),
    "unknown-request": Slug(2, 404, "No request of that id waits for an answer."),
    "no-sandbox": Slug(3, 503, "A sandbox is required, and none works on this system."),
    "no-model": Slug(3, 401, "No model was named and no key was found."),
    "wrong-key": Slug(3, 401, "The model's service does not accept the key."),
    "no-access": Slug(3, 403, "The model's service refused access, for another reason than a wrong key."),
    "no-network": Slug(3, 503, "The model's service could not be reached."),
    "unknown-model": Slug(3, 404, "The service does not have the model."),
    "unknown-price": Slug(3, 409, "A money cap needs a price, and the model's price is unknown."),
    "bad-settings": Slug(3, 400, "A settings file cannot be read."),
    "bad-script": Slug(3, 400, "A script for the scripted model cannot be read."),
    "mcp-failed": Slug(3, 503, "An MCP server that an agent type requires is not available."),
    "read-only-home": Slug(3, 507, "The state root cannot be read or written."),
    "platform": Slug(3, 501, "The platform is not one of Linux, macOS, WSL 2."),
    "no-git": Slug(3, 503, "git is not installed, or will not read the repository."),
    "session-busy": Slug(3, 409, "Another process drives the session."),
    "database": Slug(3, 503, "The database of the team cannot be used: the server, its schema or its address."),
    "backend": Slug(3, 503, "The backend that was chosen for members cannot start or reach one."),
    "limit": Slug(4, 429, "A cap on money, tokens, turns, time or spawns is spent; the session can be resumed later."),
    "model-failed": Slug(1, 502, "The model's service failed, and trying again did not help."),
    "no-answer": Slug(1, 502, "The model ended its answer in a way that leaves nothing to use."),
    "invalid-output": Slug(1, 502, "The final answer does not fit the schema that the run was given."),
    "window-too-small": Slug(1, 413, "The server has no room for the prompt, or read less of it than was sent."),
    "context-full": Slug(1, 413, "The conversation no longer fits into the model's window."),
    "disk-full": Slug(1, 507, "A write did not reach the disk."),
    "io-failed": Slug(1, 500, "The operating system did not read or write a file."),
    "database-failed": Slug(1, 503, "The database of the team did not do its work; nothing was written."),
    "fenced": Slug(1, 409, "Another process has taken the session over; this one may no longer write."),
    "lock-timeout": Slug(1, 423, "Another process did not release a lock in time; nothing was written."),
    "lock-lost": Slug(1, 423, "Another program took over a lock of this process; nothing was written."),
    "inbox-full": Slug(1, 429, "The recipient does not read its mail; nothing was sent."),
    "damaged-file": Slug(1, 422, "A file could not be read and was set aside."),
    "newer-version": Slug(1, 409, "A newer Teamwright wrote the file; this one does not change it."),
    "task-refused": Slug(1, 409, "The task graph, or another owner, forbids the change."),
    "hook-refused": Slug(1, 403, "A hook refused the prompt; it was not delivered."),
    "team-refused": Slug(1, 409, "The state of the team forbids it."),
    "request-closed": Slug(1, 409, "The request was answered already, or no agent waits for it."),
    "undo-refused": Slug(1, 409, "An undo would lose later changes, or there is nothing to undo."),
    "worktree-changed": Slug(1, 409, "The directory is not the worktree that was made, or git sees another one."),
    "branch-in-use": Slug(1, 409, "The branch is checked out somewhere, so it is not moved."),
    "worktree-refused": Slug(1, 409, "A worktree or the integration branch is in a state that forbids the change."),
    "untrusted": Slug(3, 403, "The repository has not been trusted by a person."),
    "failed": Slug(1, 500, "The run failed."),
    "cut-off": Slug(5, 504, "The run ended with members or background commands cut off."),
    "strict": Slug(5, 409, "With --strict: a request was denied, a member failed, or a task stayed open."),
    "interrupted": Slug(130, 499, "Interrupted; everything was saved."),
    "terminated": Slug(143, 499, "Terminated; everything was saved."),
    "bug": Slug(70, 500, "A bug in this program; a crash file was written."),
}
"""Every slug in use. Exit codes are those of docs/reference/exit-codes.md; a test compares the table with the docs."""


class TeamwrightError(Exception):
    """Base of all errors of Teamwright.

    Parameters: `slug`, a key of SLUGS; `what`, one line without blame; `looked_at`, pairs of a label and a value
    (labels at most 11 letters); `do`, commands that can be pasted or plain advice, the best first; `note`, a short end
    of the last line ("nothing was sent").

    When the error has facts or advice, they are attached as a note of the exception with the slug and `note`, so that a
    traceback shows them too. Errors survive pickling.
    """

    def __init__(
        self,
        slug: str,
        what: str,
        *,
        looked_at: Iterable[tuple[str, str]] = (),
        do: Iterable[str] = (),
        note: str = "",
    ) -> None:
        super().__init__(what)
        self.slug = slug
        self.what = what
        self.looked_at = tuple(looked_at)
        self.do = tuple(filter(None, do))
        self.note = note
        if self.looked_at or self.do:
            self.add_note("\n".join(self._details()))

    def __reduce__(self) -> tuple[Callable[..., TeamwrightError], tuple[Any, ...]]:
        """Return how to unpickle the error: the default calls `__init__` with `args`, which contains `what` alone."""
        return _rebuild, (type(self), self.args, self.__dict__)

    def replace_advice(self, do: Iterable[str]) -> None:
        """Replace the commands and the advice that the error shows, also in its note of a traceback."""
        shown = "\n".join(self._details())
        self.do = tuple(filter(None, do))
        self.__notes__ = [one for one in getattr(self, "__notes__", ()) if one != shown]
        if self.looked_at or self.do:
            self.add_note("\n".join(self._details()))

    @property
    def exit_code(self) -> int:
        """The process's exit code when this error ends it."""
        return SLUGS[self.slug].exit_code

    def render(self) -> str:
        """Return the error as a person reads it: at most 12 lines, no trailing newline."""
        return "\n".join([f"teamwright: {self.what}", *self._details()])

    def _details(self) -> list[str]:
        lines = [f"  {label:<11} {value}" for label, value in self.looked_at]
        if self.do:
            label = "do" if len(self.do) == 1 else "do one of"
            lines.append(f"  {label:<11} {self.do[0]}")
            lines += [f"  {'':<11} {way}" for way in self.do[1:]]
        return [*lines[:10], f"  [{self.slug}]" + (f"  {self.note}" if self.note else "")]

    def for_model(self) -> str:
        """Return the error as a model reads it: what happened, then what to do next."""
        facts = "; ".join(f"{label}: {value}" for label, value in self.looked_at)
        first = self.what + (f" ({facts})" if facts else "") + (f"; {self.note}" if self.note else "")
        return first + ("\n" + " Or: ".join(self.do) if self.do else "")


def _rebuild(kind: type[TeamwrightError], args: tuple[Any, ...], attributes: dict[str, Any]) -> TeamwrightError:
    error = kind.__new__(kind, *args)
    super(TeamwrightError, error).__init__(*args)  # an OSError takes its arguments here, any other has them already
    error.__dict__.update(attributes)
    return error


class UsageError(TeamwrightError, ValueError):
    """A call, command line or setting that Teamwright does not accept."""


class InvalidName(UsageError):
    """A name that is not valid."""


class UnknownMember(UsageError):
    """A name that is not in the team."""


class CannotStart(TeamwrightError, RuntimeError):
    """A failure before the first model call: something needed is missing or unreadable."""


class LimitExceeded(TeamwrightError, RuntimeError):
    """A cap that is used up."""


class StorageError(TeamwrightError, OSError):
    """A failure of the disk, a lock or a file."""


class LockTimeout(StorageError):
    """A lock that another owner held past the deadline."""


class LockLost(StorageError):
    """A lock that another program took over; nothing was committed."""


class InboxFull(StorageError):
    """A full inbox: the recipient is not reading its mail."""


class TaskRefused(TeamwrightError, RuntimeError):
    """A change that the task graph or another owner forbids.

    `code` is one of `task_not_found already_claimed already_resolved blocked cycle self_edge reserved check_failed
    check_kept changed work_not_committed writes_overlap not_in_review review_kept`.
    """

    def __init__(self, code: str, what: str, *, do: Iterable[str] = (), note: str = "nothing was changed") -> None:
        super().__init__("task-refused", what, do=do, note=note)
        self.code = code


class WorktreeRefused(TeamwrightError):
    """A change that the state of a worktree, a branch or the integration queue forbids."""


class TeamRefused(TeamwrightError, RuntimeError):
    """A request that the team's state forbids."""


class ModelFailed(TeamwrightError, RuntimeError):
    """A final failure of the model's service, after all retries."""


_BY_NAME = {
    name: kind
    for name, kind in globals().items()
    if isinstance(kind, type) and issubclass(kind, TeamwrightError) and kind is not TaskRefused
}


def error_to_json(problem: Exception) -> dict[str, Any]:
    """Return the error as an object; any error other than a TeamwrightError is a bug of Teamwright (`bug`)."""
    if not isinstance(problem, TeamwrightError):
        return {"kind": "TeamwrightError", "slug": "bug", "what": f"{type(problem).__name__}: {problem}"}
    return {
        "kind": type(problem).__name__,
        "slug": problem.slug,
        "what": problem.what,
        "looked_at": [list(pair) for pair in problem.looked_at],
        "do": list(problem.do),
        "note": problem.note,
    } | ({"code": problem.code} if isinstance(problem, TaskRefused) else {})


def error_from_json(data: Mapping[str, Any]) -> TeamwrightError:
    """Return the error that `error_to_json` encoded; an unknown kind or slug becomes the base class or the general
    slug."""
    what = str(data.get("what", ""))
    do = [str(way) for way in data.get("do") or ()]
    note = str(data.get("note", ""))
    if data.get("kind") == TaskRefused.__name__:
        return TaskRefused(str(data.get("code", "")), what, do=do, note=note)
    slug = str(data.get("slug"))
    kind = _BY_NAME.get(str(data.get("kind")), TeamwrightError)
    looked_at = [(str(label), str(value)) for label, value in data.get("looked_at") or ()]
    return kind(slug if slug in SLUGS else "failed", what, looked_at=looked_at, do=do, note=note)
