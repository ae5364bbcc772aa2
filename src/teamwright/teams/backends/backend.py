"""The contract of a place: what is started, where it is then, and the three things that every place can do.

Below is nothing. Refuses to know which places there are, who chooses one, and whether what was started answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Launch:
    """What is started in a place. Never a shell string: arguments, environment and directory are taken as they are.

    Parameters: `name`, the member's, shown as the title; `team`, the directory name of its team, and `session`, the
    lead's session id: both make the tag by which a place knows its own; `argv`, the absolute path of the program first;
    `env`, the whole environment of the child: a place adds and replaces nothing but what names the terminal
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
"""Variables that say which terminal one is in: those of the place hold, those of the starting process are dropped."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where something was started; enough for another process to probe or close it after a crash.

    `kind` is the backend's name and becomes `backendType`, `id` is its own id (`%12`) and becomes `tmuxPaneId`. `facts`
    is what the place needs besides, all text; `note` is a sentence for people: how to see it, or why it is elsewhere
    than asked for.
    """

    kind: str
    id: str
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The spot as an object of text, for `from_json`."""
        return {"kind": self.kind, "id": self.id, "facts": dict(self.facts)} | (
            {"note": self.note} if self.note else {}
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Location:
        """The spot in this object. Raises KeyError or TypeError for what is none."""
        facts = cast("dict[object, object]", data.get("facts") or {})
        kind, id = data["kind"], data["id"]
        if not (isinstance(kind, str) and isinstance(id, str)):
            raise TypeError("kind and id of a spot are text")
        return cls(kind, id, {str(key): str(value) for key, value in facts.items()}, str(data.get("note", "")))


IN_PROCESS_BACKEND = "in-process"
"""How a member is shown to live that has no place of its own."""


@dataclass(frozen=True, slots=True)
class ShownLocation:
    """Where a member lives, for people and models: its backend, and its id there (`%12`); as a text it is these two.

    `note` says how to see it, `why` why `auto` chose it.
    """

    backend: str = IN_PROCESS_BACKEND
    id: str = ""
    note: str = ""
    why: str = ""

    def __str__(self) -> str:
        return f"{self.backend} {self.id}".strip()

    @classmethod
    def from_location(cls, location: Location | None, why: str = "") -> ShownLocation:
        """Of a member that was started at this spot; None: in its lead's process."""
        return cls(why=why) if location is None else cls(location.kind, location.id, location.note, why)


@runtime_checkable
class HidingBackend(Protocol):
    """A place that can put what runs there out of sight."""

    async def hide(self, location: Location) -> bool:
        """Put it out of sight, where it goes on. False when it is gone, or that cannot be done there.

        Raises CannotStart (`backend`).
        """
        ...

    async def show(self, location: Location) -> bool:
        """Bring it back. Returns and raises as `hide`."""
        ...


class Backend(Protocol):
    """A backend. Safe to use from many coroutines at once."""

    async def open(self, launch: Launch) -> Location:
        """Start it and say where; returns when the program itself runs.

        Raises CannotStart (`backend`) with the reason; nothing is left behind then, nor when it is cancelled.
        """
        ...

    async def is_alive(self, location: Location) -> bool:
        """Whether what was started there still runs: asked of the system now, never remembered."""
        ...

    async def last_output(self, location: Location) -> str:
        """How it ended and the last lines that it wrote; empty when that cannot be known. For a start that failed."""
        ...

    async def close(self, location: Location) -> None:
        """End it and take its place away, if it carries our tag; else, or a second time, nothing is done.

        Raises CannotStart (`backend`) when the backend does not answer: then nobody knows.
        """
        ...
