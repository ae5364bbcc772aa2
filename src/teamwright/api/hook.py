"""A hook that is a Python function, for programs that use the API.

Its arguments are checked when it is created. Depends on the hook events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from teamwright.hooks import hook_index
from teamwright.protocol.errors import UsageError
from teamwright.protocol.unknown_names import did_you_mean


class Hook(Struct, frozen=True):
    """A function that is called at an event, for example `Hook("PreToolUse", guard, matcher="Bash")`.

    `event` and the payload for the function are documented in docs/reference/hooks.md. The function, which may be a
    coroutine function, returns a dict with the JSON that a hook command would print, or None. A plain function must not
    block; a coroutine may take `timeout_s` seconds. The result of a function that raises or takes longer is ignored.

    Raises UsageError for an unknown event, a matcher that is not a regular expression, a function that cannot be
    called, or a timeout that is not between 0 and 3,600 seconds.
    """

    event: str
    function: Callable[[Mapping[str, Any]], object]
    matcher: str = ""
    timeout_s: float = hook_index.TIMEOUT_S

    def __post_init__(self) -> None:
        if self.event not in hook_index.EVENTS:
            do = did_you_mean(self.event, hook_index.EVENTS, [f"there are {', '.join(hook_index.EVENTS)}"])
            raise UsageError("usage", f"there is no event {self.event[:60]!r}", do=do, note="nothing was started")
        try:
            hook_index.compile_matcher(self.matcher)
        except ValueError as problem:
            what = f"the matcher {self.matcher[:60]!r} is no regular expression: {problem}"
            raise UsageError("usage", what, note="nothing was started") from None
        if not callable(self.function):
            raise UsageError("usage", "a Hook takes a function", note="nothing was started")
        if not 0 < self.timeout_s <= hook_index.MAX_TIMEOUT_S:
            what = f"timeout_s is a number of seconds up to {hook_index.MAX_TIMEOUT_S:g}, not {self.timeout_s!r}"
            raise UsageError("usage", what, note="nothing was started")


def to_hooks(hooks: Iterable[Hook]) -> tuple[hook_index.HookSpec, ...]:
    """Return the hooks as values of the package `hooks`."""
    return tuple(
        hook_index.HookSpec(
            hook.event,
            hook.matcher,
            getattr(hook.function, "__qualname__", type(hook.function).__name__),
            hook.timeout_s,
            "the program",
            function=hook.function,
        )
        for hook in hooks
    )
