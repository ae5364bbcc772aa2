"""The other product's config.json: read, changed, rewritten whole; without a lock in 2.1.41, under one in 2.1.329."""

from collections.abc import Callable
from typing import Any

from simulated_product.disk import Disk, as_file

_OLDER = "agentId name agentType model prompt color planModeRequired joinedAt tmuxPaneId cwd subscriptions backendType"
_NEWER = "agentId name color joinedAt tmuxPaneId subscriptions agentType model prompt planModeRequired cwd backendType"
"""The order of a member's keys; `isActive` comes last, once there is one."""


class Roster:
    """The members of one team."""

    def __init__(self, disk: Disk, team: str) -> None:
        self._disk = disk
        self.path = disk.config(team)

    def read(self) -> dict[str, Any] | None:
        """None when the file is missing, empty or cut this moment."""
        found = self._disk.read(self.path)
        return found if isinstance(found, dict) else None

    def find(self, name: str) -> dict[str, Any] | None:
        config = self.read() or {"members": []}
        return next((one for one in config["members"] if one["name"] == name), None)

    def others(self, name: str) -> list[str]:
        """Everybody but this one."""
        return [one["name"] for one in (self.read() or {"members": []})["members"] if one["name"] != name]

    def change(self, change: Callable[[dict[str, Any]], None]) -> bool:
        """False, and nothing done, when the file cannot be read, or (newer) its lock is held too long."""
        if not self._disk.newer:
            return self._changed(change)
        if not self.path.parent.is_dir():
            return False
        with self._disk.lock(self.path) as got:
            return got and self._changed(change)

    def _changed(self, change: Callable[[dict[str, Any]], None]) -> bool:
        config = self.read()
        if config is None:
            return False
        change(config)
        self._disk.write(self.path, as_file(config))
        return True

    def set_active(self, name: str, active: bool) -> bool:
        """A member notes that its turn begins or is over; one that is not on the roster is not put there."""

        def noted(config: dict[str, Any]) -> None:
            for one in config["members"]:
                if one["name"] == name:
                    one["isActive"] = active

        return self.change(noted)

    def ordered(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The entry with its keys in the order of this format; absent keys stay absent."""
        order = [*(_NEWER if self._disk.newer else _OLDER).split(), "isActive"]
        return {key: entry[key] for key in order if key in entry}
