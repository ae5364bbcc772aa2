"""The stores of the teams in one home together with their catalogue: what a session on files uses.

Depends on the stores on files and the catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.teams.file_stores import FileStores

if TYPE_CHECKING:
    from teamwright.teams.team_catalogue import Teams


class HomeStores(FileStores):
    """The stores and the teams of one home; see TeamStores."""

    @property
    def teams(self) -> Teams:
        """See TeamStores. The catalogue is imported with the first team."""
        from teamwright.teams.team_catalogue import Teams

        return Teams(self._home)
