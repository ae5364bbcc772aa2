"""Where a command looks: the directory, the home, the settings, as the flags before or behind it said.

One value read from the click context. Knows click; opens nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.values import dataclass
from teamwright.ui.cli.flags import PLACE_KEY
from teamwright.ui.cli.output import note

if TYPE_CHECKING:
    from teamwright.app.inspect import Home


@dataclass(frozen=True, slots=True)
class Place:
    """`cwd` is absolute. `home` and `settings` are None when the flags did not name them."""

    cwd: Path
    home: str | None = None
    settings: Path | None = None
    debug: bool = False

    def path(self, given: str) -> Path:
        """A path of the command line: relative ones begin at `cwd`."""
        return self.cwd / os.path.expanduser(given)


def place_of(ctx: click.Context) -> Place:
    """The place of a command. Raises UsageError for a directory that is not there."""
    said = cast("dict[str, Any]", ctx.meta.get(PLACE_KEY, {}))
    here = _here()
    cwd = Path(os.path.normpath(here / os.path.expanduser(said.get("cwd", ""))))
    if not os.path.isdir(cwd):
        raise UsageError(
            "usage", f"there is no directory {cwd}", looked_at=[("flag", "-C")], note="nothing was started"
        )
    settings = said.get("settings")
    return Place(
        cwd=cwd,
        home=os.path.join(cwd, os.path.expanduser(said["home"])) if said.get("home") else None,
        settings=cwd / os.path.expanduser(settings) if settings is not None else None,
        debug=bool(said.get("debug")),
    )


def home_of_teams(place: Place, word: str | None = None) -> Home:
    """The home of a command about teams. Damaged files of teams without a lead are rebuilt first; stderr says so.

    `word` is the team's name, a member's address or the id of a session: teams that it cannot name are left alone.

    Raises CannotStart (`read-only-home`) for a home that cannot be read.
    """
    from teamwright.app.ended.recovering import recovered_home

    home, rebuilt = recovered_home(place.home, word or "")
    for sentence in rebuilt:
        note(f"teamwright: {sentence}")
    return home


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise CannotStart(
            "failed", "the directory that this was started in is gone", do=["cd to another one"]
        ) from None
