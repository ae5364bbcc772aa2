"""The hooks of a definition: those of the ecosystem that can concern one agent.

Read like the hooks of settings. Its `Stop` is the stop of an agent that somebody started. Runs nothing.
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
"""Events that happen to a session, never to one agent of it."""


def parse_definition_hooks(value: object, source: str, warn: Callable[[str], None]) -> tuple[HookSpec, ...]:
    """The hooks in this value; what of it cannot be used is warned of."""
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
