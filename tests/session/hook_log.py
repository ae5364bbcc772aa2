"""Hooks for tests: each event of a session leaves a line of JSON in a file."""

import json
from pathlib import Path
from typing import Any

RECORD = 'told=$(cat); printf "%s\\n" "$told" >> {log}'


class HookLog:
    """A settings file whose hooks note every event that they are named for, and perhaps do more."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "hook-events.jsonl"
        self.settings = directory / "hook-settings.json"
        self._hooks: dict[str, list[dict[str, Any]]] = {}

    def on(self, event: str, *more: str, matcher: str = "", timeout: float = 20, **keys: object) -> "HookLog":
        """Note this event; `more` are commands that run after the line was written, with `$told`.

        `keys` are further keys of the hook.
        """
        command = "; ".join([RECORD.format(log=self.log), *more])
        hook = {"type": "command", "command": command, "timeout": timeout, **keys}
        self._hooks.setdefault(event, []).append({"matcher": matcher, "hooks": [hook]})
        self.settings.write_text(json.dumps({"hooks": self._hooks}))
        return self

    @property
    def told(self) -> list[dict[str, Any]]:
        """The events, oldest first."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def of(self, *events: str) -> list[dict[str, Any]]:
        """Those of some kinds."""
        return [one for one in self.told if one["hook_event_name"] in events]


def unbalanced(told: list[dict[str, Any]]) -> dict[str, int]:
    """Agents, and sessions, whose starts and stops are not as many."""
    count: dict[str, int] = {}
    for one in told:
        key = one.get("agent_id", "session")
        if one["hook_event_name"] in {"SubagentStart", "SessionStart"}:
            count[key] = count.get(key, 0) + 1
        elif one["hook_event_name"] in {"SubagentStop", "SessionEnd"}:
            count[key] = count.get(key, 0) - 1
    return {key: number for key, number in count.items() if number}
