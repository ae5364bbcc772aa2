"""A member that runs in a process of its own: what must be done where it lives is done there, and waited for.

Below it: the member in a place. Refuses to know how its process is reached.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from teamwright.protocol.values import dataclass
from teamwright.teams.member.placed import Placed


@dataclass(slots=True, kw_only=True, eq=False)
class Away(Placed):
    """One whose agent is not here."""

    @abstractmethod
    async def perform(self, act: str, /, **said: Any) -> Mapping[str, Any]:
        """Have its process do this, and wait until it has; what came of it, as JSON has it.

        Raises what its process raised (a TeamwrightError), and TeamRefused when it cannot be reached.
        """
