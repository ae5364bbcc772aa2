"""The hooks of an agent definition: hook events that can concern one agent.

The format is that of hooks in settings. `Stop` means the stop of the agent that was started.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from teamwright.hooks.hook_index import (
    NOTIFICATION,
    SESSION_END,
    SESSION_START,
    STOP,
    SUBAGENT_STOP,
    USER_PROMPT,
    HookSpec,
    parse_hooks,
)

_OF_SESSIONS = frozenset({SESSION_START, SESSION_END, USER_PROMPT, NOTIFICATION})
"""Events of a session, which never concern one agent of it."""


def parse_definition_hooks(value: object, source: str, warn: Callable[[str], None]) -> tuple[HookSpec, ...]:
    """Return the hooks in this value; `warn` receives a line for each part that cannot be used."""
    found, warnings = parse_hooks(value, source)
    for text in warnings:
        warn(text.removeprefix(f"{source}: "))
    kept: list[HookSpec] = []
    for hook in found:
        if hook.event in _OF_SESSIONS:
            warn(f"hooks of {hook.event} never run for one agent")
        else:
            kept.append(replace(hook, event=SUBAGENT_STOP) if hook.event == STOP else hook)
    return tuple(kept)
