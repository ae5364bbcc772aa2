"""The interface of a backend: the launch, the location of a started program, and the operations of every backend.

Depends on the values of `protocol` alone. The choice of a backend is left to `choice`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from msgspec import Struct, field

from teamwright.protocol.members import IN_PROCESS


class Launch(Struct, frozen=True):
    """A program to start in a backend. Never a shell string: arguments, environment and directory are used verbatim.

    Parameters: `name`, the member's name, shown as the title; `team`, the directory name of its team, and `session`,
    the lead's session id, which together form the tag of our panes; `argv`, with the absolute path of the program
    first; `env`, the whole environment of the child, in which a backend sets only variables that name the terminal
    (`TERMINAL_VARIABLES`); `cwd`, an absolute directory; `color`, one of the eight of a team.
    """

    name: str
    team: str
    session: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    color: str = "blue"


TERMINAL_VARIABLES = (
    *("COLUMNS", "LINES", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "WINDOWID"),
    *("TMUX", "TMUX_PANE", "STY", "WINDOW", "ZELLIJ", "ZELLIJ_PANE_ID", "ZELLIJ_SESSION_NAME"),
    *("ITERM_SESSION_ID", "KITTY_PID", "KITTY_WINDOW_ID", "WEZTERM_PANE", "WEZTERM_UNIX_SOCKET"),
)
"""Variables that name the current terminal: the backend's values are used, those of the starting
process are dropped.
"""


class Location(Struct, frozen=True):
    """The location of a started program; enough for another process to probe or close it after a crash.

    `kind` is the backend's name and becomes `backendType`, `id` is the backend's own id (`%12`) and becomes
    `tmuxPaneId`. `facts` are further texts of the backend; `note` is a sentence for people: how to see the program, or
    why it runs elsewhere than requested.
    """

    kind: str
    id: str
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the location as an object of texts, for `from_json`."""
        return {"kind": self.kind, "id": self.id, "facts": dict(self.facts)} | (
            {"note": self.note} if self.note else {}
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Location:
        """Return the location in this object. Raises KeyError or TypeError for an invalid one."""
        facts = cast("dict[object, object]", data.get("facts") or {})
        kind, id = data["kind"], data["id"]
        if not (isinstance(kind, str) and isinstance(id, str)):
            raise TypeError("kind and id of a spot are text")
        return cls(kind, id, {str(key): str(value) for key, value in facts.items()}, str(data.get("note", "")))


class ShownLocation(Struct, frozen=True):
    """A member's location for people and models: its backend, and its id there (`%12`), which are also its text.

    `note` says how to see it, `why` is the reason of `auto` for this backend.
    """

    backend: str = IN_PROCESS
    id: str = ""
    note: str = ""
    why: str = ""

    def __str__(self) -> str:
        return f"{self.backend} {self.id}".strip()

    @classmethod
    def from_location(cls, location: Location | None, why: str = "") -> ShownLocation:
        """Return the shown form of a location; None means the lead's process."""
        return cls(why=why) if location is None else cls(location.kind, location.id, location.note, why)


@runtime_checkable
class HidingBackend(Protocol):
    """A backend that can hide a program from view."""

    async def hide(self, location: Location) -> bool:
        """Hide the program, which continues to run. False when it is gone, or the backend cannot hide it.

        Raises CannotStart (`backend`).
        """
        ...

    async def show(self, location: Location) -> bool:
        """Show the program again. Returns and raises as `hide`."""
        ...


class Backend(Protocol):
    """A backend. Safe to use from many coroutines at once."""

    async def open(self, launch: Launch) -> Location:
        """Start the program and return its location; returns when the program itself runs.

        Raises CannotStart (`backend`) with the reason. No process or pane is left after an error or a cancellation.
        """
        ...

    async def is_alive(self, location: Location) -> bool:
        """Return True while the started program runs, by asking the system now."""
        ...

    async def last_output(self, location: Location) -> str:
        """Return how it ended and its last lines of output; empty when unknown. For the error of a failed start."""
        ...

    async def close(self, location: Location) -> None:
        """End the program and close its location if it has our tag; else, and a second time, do nothing.

        Raises CannotStart (`backend`) when the backend does not answer: the state is then unknown.
        """
