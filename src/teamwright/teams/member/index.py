"""The members of a team by name, for one look-up however many they are.

Depends on what a member is. Leaves to the team who joins and who is alive.
"""

from __future__ import annotations

from teamwright.teams.member.mate import Mate


class Members(dict[str, Mate]):
    """Members by name, which are also found without regard to case."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}

    def __setitem__(self, name: str, mate: Mate) -> None:
        self._names[name.lower()] = name
        super().__setitem__(name, mate)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if self._names.get(name.lower()) == name:
            del self._names[name.lower()]

    def clear(self) -> None:
        """Forget all members."""
        self._names.clear()
        super().clear()

    def nearest(self, name: str) -> Mate | None:
        """The member that joined last under that name, in any case."""
        return self.get(self._names.get(name.lower(), name))
