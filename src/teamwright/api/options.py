"""Keyword options of the Python API: their types, their checks, and their conversion to the options of a session.

The checks find mistakes that Python itself would not report, such as a number for a budget, one function where a list
is needed, and a forgotten `await`. Each raises UsageError before any work starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, cast

from msgspec import Struct

from teamwright.approvals.request_queue import OnRequest
from teamwright.config.settings.merge import lead_mode
from teamwright.config.tool_names import KNOWN_TOOLS
from teamwright.hooks import hook_definitions
from teamwright.models.effort import Effort, parse_optional_effort
from teamwright.models.model import Model, ModelCard
from teamwright.protocol.errors import UsageError
from teamwright.protocol.field_docs import show_fields
from teamwright.protocol.ids import did_you_mean, nearest
from teamwright.protocol.program_log import debug_categories
from teamwright.protocol.usage import Budget
from teamwright.session.options import Options

if TYPE_CHECKING:
    from teamwright.session.answer_schema import OutputFormat


PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "delegate", "dontAsk", "bypassPermissions"]
"""The mode for calls that no rule decides. `default` asks, `acceptEdits` allows edits and asks for the rest, `dontAsk`
denies, `bypassPermissions` allows. `plan` forbids changes until a plan is approved. In `delegate` a lead only
coordinates, and a member may edit and asks its lead for the rest."""


OnExit: TypeAlias = Literal["end", "suspend"]
"""The end of a team's block: `end` waits for running turns and denies open requests, `suspend` stops before the
next model call and leaves open requests open."""


class OptionsWithoutOutput(TypedDict, total=False):
    """The keywords of TeamOptions without `output_type`, the one that gives results their type."""

    model: str | Model | None
    """A name (`sonnet`, `ollama/qwen3-coder`, `scripted:FILE`) or an object with the Model contract, which the caller
    closes. None: the model of the settings, else the default.
    """

    fallback_models: Sequence[str]
    """Names of the models that an agent uses, in this order, when its model is overloaded or not available."""

    effort: Effort | None
    """The thinking effort of the lead and of the agents that it starts: `low` to `max`, or a number of tokens. It wins
    over the settings. Entering the team raises UsageError for a model that does not document it.
    """

    budget: Budget | None
    """Caps on money, tokens, turns and time, from entering the block, over all runs of the team.

    A cap that is not given has the default of the command line: 200 model calls of the lead and of each agent, 5
    million tokens, 120 minutes, 20 USD where the price is known. `Budget.unlimited()` has no caps, and
    `Budget.unlimited(usd=5.0)` only that one.
    """

    tools: Sequence[Callable[..., Any]]
    """Functions that agents may call, sync or async. A call of one is allowed unless a rule for `python__<function>`
    denies it or asks.
    """

    permission_mode: PermissionMode
    """The permission mode; `default`, or for a resumed team the mode in which it was left. In `default` reading is
    allowed; other calls are asked, and denied when no approver answers. `Team.set_mode` changes it later.
    """

    allowed_tools: Sequence[str]
    """Allow rules, such as `Bash(git log:*)`, `Edit(docs/**)`, `python__open_ticket`."""

    disallowed_tools: Sequence[str]
    """Deny rules; they win over all others."""

    add_dirs: Sequence[str | Path]
    """Directories that agents may use in addition to `cwd`."""

    cwd: str | Path
    """The working directory of agents; by default the current directory."""

    worktree: bool | str
    """A name, or True: agents work in a git worktree of `cwd` on a separate branch, the one of that name or a new one.
    """

    home: str | Path | None
    """The state root. None: `TEAMWRIGHT_HOME`, else `~/.teamwright`."""

    on_request: OnRequest | None
    """A function that receives every RequestOpened and answers it with a method of the event. A coroutine function
    awaits the method; a plain function returns its result.
    """

    hooks: Sequence[Hook]
    """Functions that are called at events, in addition to the hooks of the settings: `[Hook("PreToolUse", guard)]`."""

    plan_approval: Literal["lead", "human", "auto"]
    """The approver of members' plans; by default the lead. It wins over the settings."""

    backend: str | None
    """The backend of members: `auto`, `in-process`, `tmux`, `detached`, or the name of a terminal adapter. It wins over
    the settings.
    """

    sandbox: Literal["off", "auto", "required"] | None
    """The mode of the sandbox for commands. It wins over the environment and the settings."""

    task_list: str | None
    """The name of a task list that several teams share and that outlives the team. None: the team's private list."""

    agents: Mapping[str, Mapping[str, Any]]
    """Agent types by name, with the fields of a definition: `{"reviewer": {"description": …, "prompt": …}}`."""

    plugin_dirs: Sequence[str | Path]
    """Directories of plugins; their agent types are named `plugin:agent`."""

    append_system_prompt: str
    """A text that is added to the lead's system prompt."""

    mcp_servers: Mapping[str, Mapping[str, Any]]
    """MCP servers by name, as in `.mcp.json`: `{"db": {"command": "db-server", "args": ["--read-only"]}}`."""

    settings_file: str | Path | None
    """One more settings file, above those of the user and the repository."""

    settings: Mapping[str, Any] | None
    """Settings as a mapping, with the keys and values of a settings file: `{"ask_timeout_s": 3600}`. In place of
    `settings_file`.
    """

    trust: bool
    """True when the repository's settings may widen permissions, for this team."""

    debug: bool | Sequence[str]
    """True, or names of categories: the session keeps a debug log in `debug/` of the state root. By default
    `TEAMWRIGHT_DEBUG` decides. Its facts are also records of the loggers `teamwright.<category>`."""

    env: Mapping[str, str] | None
    """The environment in which model keys are looked up. None: that of the process."""


class TeamOptions(OptionsWithoutOutput, total=False):
    """The keywords of `Team` and `run`, all optional."""

    output_type: Any
    """A pydantic model, a TypedDict or a dataclass. The final answer of each run is JSON of this type, and
    `Result.output` its value. An answer that does not fit is asked for once more; then the run is `failed`.
    """


class SpawnOptions(TypedDict, total=False):
    """The keywords of `Team.spawn`, all optional."""

    agent_type: str
    """An agent type; by default `general-purpose`. `Explore` and `Plan` only read."""

    model: str | Model | None
    """A name or an object; by default the model of the agent type, else the lead's."""

    effort: Effort | None
    """The thinking effort, `low` to `max` or a number of tokens; by default that of the agent type, else the lead's."""

    tools: Sequence[str | Callable[..., Any]]
    """The only tools of the member besides mail and the task list: names (`Read`, `mcp__db__query`), and functions of
    `Team(tools=…)`. By default those of the agent type.
    """

    mode: PermissionMode | None
    """The member's permission mode; the member is never allowed more than the lead."""

    budget: Budget | None
    """Caps on the member and its sub-agents, from start to end; `budget.agent` of the settings applies too."""

    isolation: Literal["worktree", "none"] | None
    """`worktree`: a git worktree on a separate branch; by default that of the agent type or the team file."""

    command: str
    """The command of `members.commands` that runs the member instead of this program; `teamwright` means this program.
    """


show_fields(TeamOptions, SpawnOptions)


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
    timeout_s: float = hook_definitions.TIMEOUT_S

    def __post_init__(self) -> None:
        if self.event not in hook_definitions.EVENTS:
            do = did_you_mean(self.event, hook_definitions.EVENTS, [f"there are {', '.join(hook_definitions.EVENTS)}"])
            raise UsageError("usage", f"there is no event {self.event[:60]!r}", do=do, note="nothing was started")
        try:
            hook_definitions.compile_matcher(self.matcher)
        except ValueError as problem:
            what = f"the matcher {self.matcher[:60]!r} is no regular expression: {problem}"
            raise UsageError("usage", what, note="nothing was started") from None
        if not callable(self.function):
            raise UsageError("usage", "a Hook takes a function", note="nothing was started")
        if not 0 < self.timeout_s <= hook_definitions.MAX_TIMEOUT_S:
            what = f"timeout_s is a number of seconds up to {hook_definitions.MAX_TIMEOUT_S:g}, not {self.timeout_s!r}"
            raise UsageError("usage", what, note="nothing was started")


def to_hooks(hooks: Iterable[Hook]) -> tuple[hook_definitions.HookSpec, ...]:
    """Return the hooks as values of the package `hooks`."""
    return tuple(
        hook_definitions.HookSpec(
            hook.event,
            hook.matcher,
            getattr(hook.function, "__qualname__", type(hook.function).__name__),
            hook.timeout_s,
            "the program",
            function=hook.function,
        )
        for hook in hooks
    )


def to_session_options(options: TeamOptions) -> Options:
    """Convert keywords of the API to the options of a session. Raises UsageError for an unknown or invalid option."""
    refuse_unknown(options, list(TeamOptions.__annotations__))
    check_option_types(cast("Mapping[str, object]", options))
    if (mode := options.get("permission_mode")) is not None:
        lead_mode(mode, "permission_mode=")
    home = options.get("home")
    return Options(
        cwd=Path(options.get("cwd") or Path.cwd()),
        worktree=_worktree_name(options.get("worktree", False)),
        home=str(home) if home is not None else None,
        model=options.get("model"),
        fallback_models=tuple(options.get("fallback_models", ())),
        effort=parse_optional_effort(options.get("effort")),
        permission_mode=options.get("permission_mode"),
        mode_unless_kept="default",
        add_dirs=tuple(Path(one) for one in options.get("add_dirs", ())),
        allowed_tools=(*options.get("allowed_tools", ()), *(["python__*"] if options.get("tools") else [])),
        disallowed_tools=tuple(options.get("disallowed_tools", ())),
        settings_file=_settings_file(options),
        mcp_config=(json.dumps({"mcpServers": servers}),) if (servers := options.get("mcp_servers")) else (),
        trust=options.get("trust", False),
        output=_output_format(options.get("output_type")),
        budget=Budget() if (budget := options.get("budget")) is None else budget,
        has_default_caps=True,
        agents={name: dict(definition) for name, definition in options.get("agents", {}).items()},
        plugin_dirs=tuple(Path(one) for one in options.get("plugin_dirs", ())),
        append_system_prompt=options.get("append_system_prompt", ""),
        task_list=options.get("task_list"),
        plan_approval=options.get("plan_approval"),
        backend=options.get("backend"),
        sandbox=options.get("sandbox"),
        tools=tuple(options.get("tools", ())),
        on_request=options.get("on_request"),
        own_hooks=to_hooks(options.get("hooks", ())),
        env=options.get("env"),
        debug=_debug(options.get("debug", False)),
    )


def _debug(option: bool | Sequence[str]) -> str:
    """Return the value of the session's option. Raises UsageError for an unknown category."""
    value = ("all" if option else "") if isinstance(option, bool) else ",".join(option)
    debug_categories(value, {})
    return value


def _settings_file(options: TeamOptions) -> Path | str | None:
    """Return the settings file, or settings as JSON text. Raises UsageError for both."""
    file = options.get("settings_file")
    settings = options.get("settings")
    if file is not None and settings is not None:
        raise UsageError("usage", "settings= and settings_file= exclude each other", note="nothing was started")
    return json.dumps(settings) if settings is not None else None if file is None else Path(file)


def _worktree_name(option: bool | str) -> str | None:
    return option if isinstance(option, str) else "" if option else None


def _output_format(output_type: Any) -> OutputFormat | None:
    """Return the form of the final answer. Raises UsageError for a type without a JSON form."""
    if output_type is None:
        return None
    from teamwright.session.answer_schema import type_format  # loaded only for typed results

    return type_format(output_type)


def tool_names(tools: Sequence[str | Callable[..., Any]] | None) -> tuple[str, ...] | None:
    """Return the names of a member's tools; None for None. Raises UsageError for a name that no tool can have."""
    if tools is None:
        return None
    names = tuple(one if isinstance(one, str) else f"python__{getattr(one, '__name__', '')}" for one in tools)
    for name in names:
        if name not in KNOWN_TOOLS and "*" not in name and not name.startswith(("mcp__", "python__")):
            do = did_you_mean(name, KNOWN_TOOLS, [f"the tools are {', '.join(sorted(KNOWN_TOOLS))}"])
            raise UsageError("usage", f"there is no tool {name[:60]!r}", do=do, note="nothing was started")
    return names


SDK_OPTIONS = {
    "can_use_tool": "on_request=FUNCTION",
    "continue_conversation": 'Team.resume("NAME")',
    "fallback_model": 'fallback_models=["NAME"]',
    "max_budget_usd": "budget=Budget(usd=2.0)",
    "max_thinking_tokens": "effort=NUMBER_OF_TOKENS",
    "max_turns": "budget=Budget(turns=3)",
    "output_format": "output_type=TYPE",
    "plugins": "plugin_dirs=[DIRECTORY]",
    "resume": 'Team.resume("NAME")',
    "session_id": 'Team.resume("NAME")',
    "system_prompt": "append_system_prompt=TEXT",
    "thinking": 'effort="high"',
}
"""Keywords of the Python SDK for Claude Code and of the flags, and what to write here.

Source: the SDK's public reference, read in November 2026.
"""


def refuse_unknown(options: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise UsageError for a keyword that is not in `known`, with what to write in its place."""
    unknown = sorted(set(options) - set(known))
    if not unknown:
        return
    close = nearest(unknown[0], known)
    instead = SDK_OPTIONS.get(unknown[0], "")
    if instead.partition("=")[0] not in known and "Team." not in instead:
        instead = ""
    raise UsageError(
        "usage",
        f"{unknown[0]}= is not an option here",
        looked_at=[("options", " ".join(f"{name}=" for name in known))],
        do=[instead] if instead else [f"did you mean {close}=?"] if close else [],
        note="nothing was started",
    )


class OptionType(NamedTuple):
    """The type of an option: a description for errors, a test for the value, and for lists a test for each item."""

    description: str
    fits: Callable[[object], bool]
    items: Callable[[object], bool] | None = None


def _is_list(value: object) -> bool:
    is_one = isinstance(value, str | bytes | os.PathLike | Mapping | Hook) or callable(value)
    return isinstance(value, Iterable) and not is_one


def _is_a(*kinds: type) -> Callable[[object], bool]:
    """Return the test for instances of these classes."""
    return lambda value: isinstance(value, kinds)


_is_text = _is_a(str)
_is_path = _is_a(str, os.PathLike)
_is_bool = _is_a(bool)
_is_mapping = _is_a(Mapping)


def _is_isolation(value: object) -> bool:
    return value is None or (isinstance(value, str) and value in {"worktree", "none"})


def _is_on_exit(value: object) -> bool:
    return isinstance(value, str) and value in {"end", "suspend"}


def _holds_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, chain(*cast("Mapping[object, object]", value).items())))


def _holds_mappings(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_mapping, cast("Mapping[str, object]", value).values()))


def _is_json(value: object) -> bool:
    with suppress(TypeError, ValueError):
        return isinstance(value, Mapping) and bool(json.dumps(value))
    return False


def _is_debug(value: object) -> bool:
    return _is_bool(value) or (_is_list(value) and all(map(_is_text, cast("Iterable[object]", value))))


_OR_NONE = frozenset(
    {
        *("metadata", "model", "effort", "budget", "home", "on_request", "plan_approval", "backend", "task_list"),
        *("sandbox", "settings", "settings_file", "env", "permission_mode", "cwd", "mode"),
    }
)
"""Options for which None means the same as leaving the option out."""

_OPTION_TYPES = {
    "budget": OptionType("a Budget, such as Budget(usd=2.0)", _is_a(Budget)),
    "tools": OptionType("a list of functions", _is_list),
    "allowed_tools": OptionType('a list of rules, such as ["Bash(git log:*)"]', _is_list, _is_text),
    "disallowed_tools": OptionType('a list of rules, such as ["Bash(git push:*)"]', _is_list, _is_text),
    "fallback_models": OptionType("a list of names of models", _is_list, _is_text),
    "add_dirs": OptionType("a list of directories", _is_list, _is_path),
    "plugin_dirs": OptionType("a list of directories", _is_list, _is_path),
    "hooks": OptionType('a list of Hook, such as [Hook("PreToolUse", guard)]', _is_list, _is_a(Hook)),
    "cwd": OptionType("a directory", _is_path),
    "home": OptionType("a directory", _is_path),
    "settings_file": OptionType("a file", _is_path),
    "settings": OptionType('settings by key, such as {"ask_timeout_s": 3600}', _is_json),
    "on_request": OptionType("a function", callable),
    "agents": OptionType("definitions by name, each a mapping of fields", _holds_mappings),
    "mcp_servers": OptionType("servers by name, each a mapping of fields", _holds_mappings),
    "env": OptionType("a mapping of names to texts", _holds_texts),
    "worktree": OptionType("True, False or a name", _is_a(bool, str)),
    "trust": OptionType("True or False", _is_bool),
    "debug": OptionType("True, False or a list of categories", _is_debug),
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


_CHOICES = frozenset({"on_exit", "isolation"})
"""Options that take some texts only: the error shows another text, which is no secret."""


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
    card = getattr(model, "card", None)
    stream = getattr(model, "stream", None)
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
    given = f"{value!r:.60}" if name in _CHOICES and isinstance(value, str) else _kind(value)
    return UsageError("usage", f"{name}= takes {description}, not {inside}{given}", note="nothing was started")


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
