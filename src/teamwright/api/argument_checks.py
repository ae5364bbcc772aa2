"""Checks of the arguments of the Python API, for mistakes that Python itself would not report.

Examples are a number for a budget, one function where a list is needed, and a forgotten `await`. Each check raises
UsageError before any work starts. The meaning of each option is documented in `options`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from itertools import chain
from typing import Any, NamedTuple, cast

from teamwright.api.hook import Hook
from teamwright.models.model import ModelCard
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import UsageError


class OptionType(NamedTuple):
    """The type of an option: a description for errors, a test for the value, and for lists a test for each item."""

    description: str
    fits: Callable[[object], bool]
    items: Callable[[object], bool] | None = None


def _is_list(value: object) -> bool:
    is_one = isinstance(value, str | bytes | os.PathLike | Mapping | Hook) or callable(value)
    return isinstance(value, Iterable) and not is_one


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike)


def _is_function(value: object) -> bool:
    return callable(value)


def _is_budget(value: object) -> bool:
    return isinstance(value, Budget)


def _is_hook(value: object) -> bool:
    return isinstance(value, Hook)


def _is_isolation(value: object) -> bool:
    return value in {None, "worktree", "none"}


def _is_on_exit(value: object) -> bool:
    return isinstance(value, str) and value in {"end", "suspend"}


def _is_name_or_bool(value: object) -> bool:
    return isinstance(value, bool | str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _holds_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, chain(*cast("Mapping[object, object]", value).items())))


def _holds_mappings(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_mapping, cast("Mapping[str, object]", value).values()))


def _is_json(value: object) -> bool:
    with suppress(TypeError, ValueError):
        return isinstance(value, Mapping) and bool(json.dumps(value))
    return False


_OR_NONE = frozenset(
    {"metadata", "model", "effort", "budget", "home", "on_request", "plan_approval", "backend", "task_list", "sandbox"}
) | {
    "settings",
    "settings_file",
    "env",
    "permission_mode",
    "cwd",
    "mode",
}
"""Options for which None means the same as leaving the option out."""

_OPTION_TYPES = {
    "budget": OptionType("a Budget, such as Budget(usd=2.0)", _is_budget),
    "tools": OptionType("a list of functions", _is_list),
    "allowed_tools": OptionType('a list of rules, such as ["Bash(git log:*)"]', _is_list, _is_text),
    "disallowed_tools": OptionType('a list of rules, such as ["Bash(git push:*)"]', _is_list, _is_text),
    "fallback_models": OptionType("a list of names of models", _is_list, _is_text),
    "add_dirs": OptionType("a list of directories", _is_list, _is_path),
    "plugin_dirs": OptionType("a list of directories", _is_list, _is_path),
    "hooks": OptionType('a list of Hook, such as [Hook("PreToolUse", guard)]', _is_list, _is_hook),
    "cwd": OptionType("a directory", _is_path),
    "home": OptionType("a directory", _is_path),
    "settings_file": OptionType("a file", _is_path),
    "settings": OptionType('settings by key, such as {"ask_timeout_s": 3600}', _is_json),
    "on_request": OptionType("a function", _is_function),
    "agents": OptionType("definitions by name, each a mapping of fields", _holds_mappings),
    "mcp_servers": OptionType("servers by name, each a mapping of fields", _holds_mappings),
    "env": OptionType("a mapping of names to texts", _holds_texts),
    "worktree": OptionType("True, False or a name", _is_name_or_bool),
    "trust": OptionType("True or False", _is_bool),
    "replace": OptionType("True or False", _is_bool),
    "on_exit": OptionType("end or suspend", _is_on_exit),
    "keep": OptionType("True or False", _is_bool),
    "permission_mode": OptionType("the name of a mode", _is_text),
    "mode": OptionType("the name of a mode", _is_text),
    "agent_type": OptionType("the name of an agent type", _is_text),
    "command": OptionType("the name of a command of members.commands", _is_text),
    "isolation": OptionType("worktree or none", _is_isolation),
    "plan_approval": OptionType("lead, human or auto", _is_text),
    "backend": OptionType("the name of a backend", _is_text),
    "sandbox": OptionType("off, auto or required", _is_text),
    "task_list": OptionType("a name", _is_text),
    "append_system_prompt": OptionType("a text", _is_text),
    "metadata": OptionType("a mapping that JSON can hold", _is_json),
}


def check_option_types(options: Mapping[str, object]) -> None:
    """Raise UsageError for the first value whose type does not fit its option."""
    for name, value in options.items():
        option_type = _OPTION_TYPES.get(name)
        if name == "model":
            require_model(value)
        elif option_type is not None and not (value is None and name in _OR_NONE):
            if not option_type.fits(value):
                raise option_type_error(name, option_type.description, value)
            wrong = (
                [item for item in cast("Sequence[object]", value) if not option_type.items(item)]
                if option_type.items
                else []
            )
            if wrong:
                raise option_type_error(name, option_type.description, wrong[0], inside="one with ")


def require_model(model: object, *, or_none: bool = True) -> None:
    """Raise UsageError unless `model` is a name or an object with the Model contract. `or_none` accepts None too."""
    description = "a name, or an object with `card`, `stream` and `aclose`"
    if isinstance(model, type):
        raise UsageError(
            "usage",
            f"model= takes {description}, not the class {model.__name__} itself",
            do=[f"model={model.__name__}(…)"],
            note="nothing was started",
        )
    if isinstance(model, str) or (model is None and or_none):
        return
    if not all(hasattr(model, name) for name in ("card", "stream", "aclose")):
        raise option_type_error("model", description, model)
    card, stream = getattr(model, "card", None), getattr(model, "stream", None)
    wrong = "whose `card` is a ModelCard" if not isinstance(card, ModelCard) else ""
    if iscoroutinefunction(stream):
        wrong = "whose `stream` yields its parts, an async generator"
    if wrong:
        what = f"model= takes an object {wrong}; that of {type(model).__name__} is not"
        raise UsageError("usage", what, do=["see “Models” in docs/reference/python.md"], note="nothing was started")


def require_text(what: str, value: Any) -> str:
    """Return `value` if it is a text. Raises UsageError otherwise; `what` names the argument (`a prompt`, `a name`)."""
    if isinstance(value, str):
        return value
    raise UsageError("usage", f"{what} is a text, not {_kind(value)}", note="nothing was started")


def require_prompt(prompt: Any) -> None:
    """Raise UsageError for a prompt that is not a text, or that contains only white space."""
    if not require_text("a prompt", prompt).strip():
        raise UsageError("usage", "a run needs a prompt", note="nothing was started")


def require_budget(value: Any) -> Budget:
    """Return the budget. Raises UsageError when the value is anything else, None included."""
    if not isinstance(value, Budget):
        raise option_type_error("budget", _OPTION_TYPES["budget"].description, value)
    return value


def require_number(what: str, value: Any) -> int:
    """Return `value` if it is a whole number. Raises UsageError otherwise, also for a text of digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise UsageError("usage", f"{what}= takes a number of the log, not {_kind(value)}", do=[f"{what}=int(…)"])


def refuse_coroutine(value: object) -> None:
    """Raise UsageError when `value` is a coroutine: the caller forgot to await the call."""
    if isawaitable(value):
        call = getattr(value, "__qualname__", type(value).__name__)
        if iscoroutine(value):
            value.close()
        raise UsageError("usage", f"{call} was called, but not awaited", do=["put await before the call"])


def option_type_error(name: str, description: str, value: object, inside: str = "") -> UsageError:
    """Return the error for an option that got a value of another type."""
    return UsageError("usage", f"{name}= takes {description}, not {inside}{_kind(value)}", note="nothing was started")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
