"""The stores of the teams in one home together with their catalogue: what a session on files uses.

Depends on the stores on files and the catalogue.
"""

from __future__ import annotations

from teamwright.teams.catalogue import Teams
from teamwright.teams.file_stores import FileStores


class HomeStores(FileStores):
    """The stores and the teams of one home; see TeamStores."""

    @property
    def teams(self) -> Teams:
        """See TeamStores."""
        return Teams(self._home)
