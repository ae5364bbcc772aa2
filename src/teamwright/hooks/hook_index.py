"""The hooks of a session by event and matcher."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.hooks.hook_definitions import EVENTS, HookSpec, Matcher, compile_matcher


class HookIndex:
    """The hooks of a session. An event without hooks costs one lookup in a dict."""

    def __init__(self, hooks: Sequence[HookSpec] = ()) -> None:
        self.hooks = tuple(hooks)
        self._by_event: dict[str, list[tuple[Matcher, HookSpec]]] = {}
        for hook in self.hooks:
            self._by_event.setdefault(hook.event, []).append((compile_matcher(hook.matcher), hook))
        self._found: dict[tuple[str, tuple[str, ...]], tuple[HookSpec, ...]] = {}

    def has_hooks(self, *events: str) -> bool:
        """Return True when a hook exists for one of these events, with any matcher."""
        return any(event in self._by_event for event in events)

    def matching_hooks(self, event: str, subjects: tuple[str, ...] = ("",)) -> tuple[HookSpec, ...]:
        """Return the hooks of an event that match one of these names (a tool's name and aliases); each command once."""
        among = self._by_event.get(event)
        if among is None:
            return ()
        key = event, subjects
        found = self._found.get(key)
        if found is None:
            every = not EVENTS[event]
            matching = [hook for fits, hook in among if every or any(map(fits, subjects))]
            once: dict[object, HookSpec] = {}
            for hook in matching:
                once.setdefault(hook.identity, hook)
            found = tuple(once.values())
            if len(self._found) < 1_000:
                self._found[key] = found
        return found
