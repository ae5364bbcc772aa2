"""What a team knows of other programs on its files, and of what is shared with them.

Filled by the scribe, which watches, and by whoever starts members; read where mail is sent and tasks are kept. Plain
values: refuses to know how any of it was noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from teamwright.protocol.mail import PermissionRequest
from teamwright.protocol.roster import Member

OUTSIDE: Final = "outside"
"""The member of an event whose doer is another program that nobody can name."""


@dataclass(slots=True)
class Outside:
    """`shared_list`: the task list that the team uses in the place of its own; several sessions may.

    `strangers` are members that another program put on the roster, in lower case; `entries` are those of our own
    members as we wrote them; `removed` says that another program removed the team's files, `listless` that its task
    list went along, so that the session's own stands in.
    """

    shared_list: str = ""
    strangers: set[str] = field(default_factory=set[str])
    entries: dict[str, Member] = field(default_factory=dict[str, Member])
    removed: bool = False
    listless: bool = False
    on_asked: Callable[[str, PermissionRequest], None] | None = None
    """Called when a member that another program runs asks its lead for a permission."""
    on_moved: Callable[[], None] | None = None
    """Called when the team's files are others now: it was made, or is no more."""

    def moved(self) -> None:
        """The team was made, or is no more."""
        self.strangers.clear()
        self.entries.clear()
        self.removed = self.listless = False
        if self.on_moved is not None:
            self.on_moved()
