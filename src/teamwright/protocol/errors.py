"""Errors: what a person or a model is told when something cannot be done.

TeamwrightError                 every error of ours; carries a slug of the table below
├── UsageError                  you called us in a way that we do not understand          exit 2
│   ├── InvalidName             a name that cannot be a name                              exit 2
│   └── UnknownMember           you wrote to somebody who is not in the team              exit 2
├── CannotStart                 something that is needed is missing or unreadable         exit 3
├── LimitExceeded                a cap that was set is spent                               exit 4
├── StorageError                the disk, a lock or a file would not do it                exit 1
│   ├── LockTimeout             somebody else held the lock past the deadline
│   ├── LockLost                our lock was taken from us: nothing was committed
│   └── InboxFull               the recipient is not reading
├── TaskRefused                 the task graph or another owner forbids it                exit 1
├── TeamRefused                 the team's state forbids it                               exit 1
└── ModelFailed                 the model's service failed for good                       exit 1

Tool failures are not here: they are results, for the model to read. The form is one for all surfaces: what
happened, what was looked at, what to do, and a slug that docs/errors.md explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Slug:
    """One row of the table: exit code of the process, kind in the sense of HTTP, and a line for the docs."""

    exit_code: int
    kind: int
    meaning: str


SLUGS: dict[str, Slug] = {
    "usage": Slug(2, 400, "The command line, a parameter or a setting is not one we know."),
    "bad-name": Slug(2, 400, "A name that could not be kept apart from others, or would leave its directory."),
    "unknown-member": Slug(2, 404, "The team has no member of that name; nothing was sent."),
    "unknown-team": Slug(2, 404, "No team of that name is on disk."),
    "unknown-session": Slug(2, 404, "No session of that id is on disk."),
    "unknown-task": Slug(2, 404, "No task of that number is on the list."),
    "not-for-agents": Slug(2, 403, "Only a person does this, and a command of an agent tried."),
    "unknown-request": Slug(2, 404, "No request of that id waits for an answer."),
    "no-model": Slug(3, 401, "No model was named and no key was found."),
    "wrong-key": Slug(3, 401, "The model's service does not accept the key."),
    "no-access": Slug(3, 403, "The model's service refused access, for another reason than a wrong key."),
    "no-network": Slug(3, 503, "The model's service could not be reached."),
    "unknown-model": Slug(3, 404, "The service does not have the model."),
    "unknown-price": Slug(3, 409, "A money cap needs a price, and the model's price is unknown."),
    "bad-settings": Slug(3, 400, "A settings file cannot be read."),
    "bad-script": Slug(3, 400, "A script for the scripted model cannot be read."),
    "mcp-failed": Slug(3, 503, "An MCP server that an agent cannot do without is not there."),
    "read-only-home": Slug(3, 507, "The state root cannot be read or written."),
    "platform": Slug(3, 501, "The platform is not one of Linux, macOS, WSL 2."),
    "no-git": Slug(3, 503, "git is not installed, or will not read the repository."),
    "session-busy": Slug(3, 409, "Another process drives the session."),
    "backend": Slug(3, 503, "The backend that was chosen for members cannot start or reach one."),
    "limit": Slug(4, 429, "A cap on money, tokens, turns, time or spawns is spent; the session can go on later."),
    "model-failed": Slug(1, 502, "The model's service failed, and trying again did not help."),
    "no-answer": Slug(1, 502, "The model ended its answer in a way that leaves nothing to use."),
    "window-too-small": Slug(1, 413, "The server has no room for the prompt, or read less of it than was sent."),
    "context-full": Slug(1, 413, "The conversation no longer fits into the model's window."),
    "disk-full": Slug(1, 507, "A write did not reach the disk."),
    "io-failed": Slug(1, 500, "The operating system would not read or write a file."),
    "lock-timeout": Slug(1, 423, "Another process did not release a lock in time; nothing was written."),
    "lock-lost": Slug(1, 423, "Our lock was taken away while we held it; nothing was written."),
    "inbox-full": Slug(1, 429, "The recipient does not read its mail; nothing was sent."),
    "damaged-file": Slug(1, 422, "A file could not be read and was set aside."),
    "newer-version": Slug(1, 409, "A newer Teamwright wrote the file; this one does not change it."),
    "task-refused": Slug(1, 409, "The task graph, or another owner, forbids the change."),
    "hook-refused": Slug(1, 403, "A hook refused the prompt; it was not delivered."),
    "team-refused": Slug(1, 409, "The state of the team forbids it."),
    "request-closed": Slug(1, 409, "The request was answered already, or no agent waits for it."),
    "undo-refused": Slug(1, 409, "An undo would lose something, or there is nothing to take back."),
    "untrusted": Slug(3, 403, "The repository has not been trusted by a person."),
    "failed": Slug(1, 500, "The run failed."),
    "cut-off": Slug(5, 504, "The run ended with members cut off."),
    "strict": Slug(5, 409, "With --strict: a request was denied, a member failed, or a task stayed open."),
    "interrupted": Slug(130, 499, "Interrupted; everything was saved."),
    "terminated": Slug(143, 499, "Terminated; everything was saved."),
    "bug": Slug(70, 500, "A bug in this program; a crash file was written."),
}
"""Every slug we use. Exit codes are those of docs/exit-codes.md; a test walks the table and the docs."""


class TeamwrightError(Exception):
    """Base of all errors of ours.

    Parameters: `slug`, a key of SLUGS; `what`, one line without blame; `looked_at`, pairs of a label and a value
    (labels at most 11 letters); `do`, commands that can be pasted or plain advice, the best first; `note`, a
    short end of the last line ("nothing was sent").

    What is beside `what` goes along as a note, so that a traceback shows the way out too. Errors survive pickling.
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
        self.do = tuple(do)
        self.note = note
        if self.looked_at or self.do:
            self.add_note("\n".join(self._details()))

    def __reduce__(self) -> tuple[Callable[..., TeamwrightError], tuple[Any, ...]]:
        """Made again of what it holds: an exception's own way calls `__init__` with `args`, which is `what` alone."""
        return _rebuild, (type(self), self.args, self.__dict__)

    @property
    def exit_code(self) -> int:
        """The process's exit code when this error ends it."""
        return SLUGS[self.slug].exit_code

    def render(self) -> str:
        """The error as a person reads it: at most 12 lines, no trailing newline."""
        return "\n".join([f"teamwright: {self.what}", *self._details()])

    def _details(self) -> list[str]:
        lines = [f"  {label:<11} {value}" for label, value in self.looked_at]
        if self.do:
            label = "do" if len(self.do) == 1 else "do one of"
            lines.append(f"  {label:<11} {self.do[0]}")
            lines += [f"  {'':<11} {way}" for way in self.do[1:]]
        return [*lines[:10], f"  [{self.slug}]" + (f"  {self.note}" if self.note else "")]

    def for_model(self) -> str:
        """The error as a model reads it: what happened, then what to do next."""
        facts = "; ".join(f"{label}: {value}" for label, value in self.looked_at)
        first = self.what + (f" ({facts})" if facts else "") + (f"; {self.note}" if self.note else "")
        return first + ("\n" + " Or: ".join(self.do) if self.do else "")


def _rebuild(kind: type[TeamwrightError], args: tuple[Any, ...], held: dict[str, Any]) -> TeamwrightError:
    error = kind.__new__(kind, *args)
    super(TeamwrightError, error).__init__(*args)  # an OSError takes its arguments here, any other has them already
    error.__dict__.update(held)
    return error


class UsageError(TeamwrightError, ValueError):
    """You called us in a way that we do not understand."""


class InvalidName(UsageError):
    """A name that cannot be a name."""


class UnknownMember(UsageError):
    """You wrote to somebody who is not in the team."""


class CannotStart(TeamwrightError, RuntimeError):
    """Something that is needed before the first model call is missing or unreadable."""


class LimitExceeded(TeamwrightError, RuntimeError):
    """A cap that was set is spent."""


class StorageError(TeamwrightError, OSError):
    """The disk, a lock or a file would not do it."""


class LockTimeout(StorageError):
    """Somebody else held the lock past the deadline."""


class LockLost(StorageError):
    """Our lock was taken from us; nothing was committed."""


class InboxFull(StorageError):
    """The recipient is not reading its mail."""


class TaskRefused(TeamwrightError, RuntimeError):
    """The task graph or another owner forbids the change.

    `code` is one of `task_not_found already_claimed already_resolved blocked cycle self_edge reserved
    check_failed check_kept changed`.
    """

    def __init__(self, code: str, what: str, *, do: Iterable[str] = (), note: str = "nothing was changed") -> None:
        super().__init__("task-refused", what, do=do, note=note)
        self.code = code


class TeamRefused(TeamwrightError, RuntimeError):
    """The team's state forbids it."""


class ModelFailed(TeamwrightError, RuntimeError):
    """The model's service failed, and trying again did not help."""
