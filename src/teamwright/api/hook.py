"""A hook of the program itself: a function in the place of a command, for programs that hold a team.

Checked when it is made. Knows the events; fires nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from teamwright.hooks import hook_index
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Hook:
    """Call `function` at an event, for example `Hook("PreToolUse", guard, matcher="Bash")`.

    `event` and the payload that the function gets are those of docs/hooks.md. The function, which may be a coroutine
    function, returns what a command would print as JSON, as a dict, or None. A plain function must not block; what a
    coroutine awaits may take `timeout_s` seconds. A function that raises, or takes longer, counts for nothing.

    Raises UsageError for an event that there is none of, a matcher that is no regular expression, a time not above 0.
    """

    event: str
    function: Callable[[Mapping[str, Any]], object]
    matcher: str = ""
    timeout_s: float = hook_index.TIMEOUT_S

    def __post_init__(self) -> None:
        if self.event not in hook_index.EVENTS:
            near = nearest(self.event, hook_index.EVENTS)
            do = [f"did you mean {near}?"] if near else [f"there are {', '.join(hook_index.EVENTS)}"]
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


def to_hooks(given: Iterable[Hook]) -> tuple[hook_index.HookSpec, ...]:
    """The hooks as the hooks' room has them."""
    return tuple(
        hook_index.HookSpec(
            one.event,
            one.matcher,
            getattr(one.function, "__qualname__", type(one.function).__name__),
            one.timeout_s,
            "the program",
            function=one.function,
        )
        for one in given
    )
