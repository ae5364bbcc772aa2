"""The stores of the teams in one home together with their catalogue: what a session on files uses.

Depends on the stores on files and the catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from teamwright.team_records.file_stores import FileStores

if TYPE_CHECKING:
    from teamwright.models.endpoint import Endpoint
    from teamwright.models.rate_limit import RateLimiter
    from teamwright.team_records.team_catalogue import Teams


class HomeStores(FileStores):
    """The stores and the teams of one home; see TeamStores."""

    @property
    def teams(self) -> Teams:
        """See TeamStores. The catalogue is imported with the first team."""
        from teamwright.team_records.team_catalogue import Teams

        return Teams(self._home)

    async def share_rate_limit(self, endpoint: Endpoint, limiter: RateLimiter) -> None:
        """See TeamStores. The processes of a home share the page of a credential already."""
