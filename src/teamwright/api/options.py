"""What a program may say about a team, as keywords: checked, and turned into the options of a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, cast

from teamwright.api.argument_checks import check_option_types
from teamwright.api.hook import Hook, to_hooks
from teamwright.approvals.request_queue import OnRequest
from teamwright.config.settings.merge import lead_mode
from teamwright.models.effort import Effort, parse_optional_effort
from teamwright.models.model import Model
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest
from teamwright.session.options import Options

PermissionMode: TypeAlias = Literal["default", "acceptEdits", "plan", "delegate", "dontAsk", "bypassPermissions"]
"""What happens to calls that no rule decides: ask; ask, but let files be edited; deny; allow. In `plan` nothing is
changed until a plan was approved; a lead in `delegate` only coordinates, a member edits and asks its lead."""


class TeamOptions(TypedDict, total=False):
    """What `Team` and `run` take, all of it optional."""

    model: str | Model | None
    """A name (`sonnet`, `ollama/qwen3-coder`, `scripted:FILE`) or an object with the Model contract, which its owner
    closes. None: what the settings say, else the default."""

    effort: Effort | None
    """How hard the lead thinks, and whoever it starts: `low` to `max`, or a number of tokens; above the settings.
    Entering raises UsageError for a model that does not document it."""

    budget: Budget | None
    """Caps on money, tokens, turns and time, from entering on and over all runs of the team."""

    tools: Sequence[Callable[..., Any]]
    """Functions that agents may call, sync or async; permission rules name them `python__<function>`."""

    permission_mode: PermissionMode
    """`default` unless said otherwise, or as a team that goes on was left: reading is allowed, the rest is asked, and
    denied where nobody answers. `Team.set_mode` changes it in life."""

    allowed_tools: Sequence[str]
    """Allow rules, such as `Bash(git log:*)`, `Edit(docs/**)`, `python__open_ticket`."""

    disallowed_tools: Sequence[str]
    """Deny rules; they win over all others."""

    add_dirs: Sequence[str | Path]
    """Directories that agents may use besides `cwd`."""

    cwd: str | Path
    """Where agents work; the current directory unless said otherwise."""

    home: str | Path | None
    """The state root; None: `TEAMWRIGHT_HOME`, else `~/.teamwright`."""

    on_request: OnRequest | None
    """Called with every RequestOpened; answers through its methods. A plain function returns what they return."""

    hooks: Sequence[Hook]
    """Functions that are called at events, besides the hooks of the settings: `[Hook("PreToolUse", guard)]`."""

    plan_approval: Literal["lead", "human", "auto"]
    """Who approves plans of members, above the settings: the lead does unless said otherwise."""

    backend: str | None
    """Where members run, above the settings: `auto`, `in-process`, `tmux`, `detached`, or the name of a recipe."""

    task_list: str | None
    """The name of a task list that several teams share; it is kept when the team is not. None: a list of its own."""

    agents: Mapping[str, Mapping[str, Any]]
    """Kinds of agents by name, with the fields of a definition: `{"reviewer": {"description": …, "prompt": …}}`."""

    plugin_dirs: Sequence[str | Path]
    """Directories of plugins: their agents are used, as `plugin:agent`."""

    append_system_prompt: str
    """Added to what the lead is told before anything else."""

    mcp_servers: Mapping[str, Mapping[str, Any]]
    """MCP servers by name, as in `.mcp.json`: `{"db": {"command": "db-server", "args": ["--read-only"]}}`."""

    settings_file: str | Path | None
    """One more settings file, above those of the user and the repository."""

    trust: bool
    """Whether the repository's own settings may widen what is allowed, for this team."""

    env: Mapping[str, str] | None
    """The environment in which keys of models are looked up; None: that of the process."""


class SpawnOptions(TypedDict, total=False):
    """How `Team.spawn` starts a teammate, all of it optional."""

    agent_type: str
    """A kind of agent: `general-purpose` unless said otherwise; `Explore` and `UndoPlan` only read."""

    model: str | Model | None
    """A name or an object; by default as the role says, else the lead's."""

    effort: Effort | None
    """How hard it thinks, `low` to `max` or a number of tokens; by default as the role says, else as the lead."""

    mode: PermissionMode | None
    """Its permission mode; it may only narrow the team's."""

    budget: Budget | None
    """What it may use in its life, its sub-agents included; `budget.agent` of the settings holds too."""

    command: str
    """The command of `members.commands` that runs it, in the place of this program; `teamwright`: this one."""


def to_session_options(given: TeamOptions) -> Options:
    """The options of a session from the keywords of the API. Raises UsageError for what is not understood."""
    refuse_unknown(given, list(TeamOptions.__annotations__))
    check_option_types(cast("Mapping[str, object]", given))
    if (mode := given.get("permission_mode")) is not None:
        lead_mode(mode, "permission_mode=")
    home, settings = given.get("home"), given.get("settings_file")
    return Options(
        cwd=Path(given.get("cwd") or Path.cwd()),
        home=str(home) if home is not None else None,
        model=given.get("model"),
        effort=parse_optional_effort(given.get("effort")),
        permission_mode=given.get("permission_mode"),
        mode_unless_kept="default",
        add_dirs=tuple(Path(one) for one in given.get("add_dirs", ())),
        allowed_tools=tuple(given.get("allowed_tools", ())),
        disallowed_tools=tuple(given.get("disallowed_tools", ())),
        settings_file=Path(settings) if settings is not None else None,
        mcp_config=(json.dumps({"mcpServers": servers}),) if (servers := given.get("mcp_servers")) else (),
        trust=given.get("trust", False),
        budget=given.get("budget") or Budget(),
        agents={name: dict(said) for name, said in given.get("agents", {}).items()},
        plugin_dirs=tuple(Path(one) for one in given.get("plugin_dirs", ())),
        append_system_prompt=given.get("append_system_prompt", ""),
        task_list=given.get("task_list"),
        plan_approval=given.get("plan_approval"),
        backend=given.get("backend"),
        tools=tuple(given.get("tools", ())),
        on_request=given.get("on_request"),
        own_hooks=to_hooks(given.get("hooks", ())),
        env=given.get("env"),
    )


def refuse_unknown(given: Mapping[str, object], known: Sequence[str]) -> None:
    """Raises UsageError for a keyword that is none of these."""
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return
    close = nearest(unknown[0], known)
    raise UsageError(
        "usage",
        f"{unknown[0]}= is not an option here",
        looked_at=[("options", " ".join(f"{name}=" for name in known))],
        do=[f"did you mean {close}=?"] if close else [],
        note="nothing was started",
    )
