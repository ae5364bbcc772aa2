"""The options of a run: the one value that flags, the Python API and tests fill.

A headless run, which must end without a person watching it, has default caps. Caps of flags, a team file or a program
have precedence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.approvals.request_queue import OnRequest
from teamwright.hooks.hook_index import HookSpec
from teamwright.models.model import Model, ModelCard
from teamwright.protocol.budget import NO_CAPS, Budget

if TYPE_CHECKING:
    from teamwright.session.answer_format import OutputFormat
    from teamwright.team_records.team_stores import TeamStores


class Options(Struct, frozen=True):
    """The options of a run; None means that the settings decide.

    - `mode_unless_kept`: the mode of a session without a saved mode, with precedence over the settings' mode.
    - `resume`: a session id or its beginning, or `latest`. `fork`: continue in a copy of that session.
    - `adopt`: a team without a lead.
    - `interactive`: a person is at a terminal. `headless`: a run of `-p`.
    - `task_list`: the name of a list that several sessions share.
    - `plan_approval`: the approver of members' plans: lead, human or auto.
    - `agents`: definitions of agents by name. `plugin_dirs`: directories of plugins.
    - `ask`: `wait` or `deny`, for requests without a person at a terminal. `ask_timeout_s`: their deadline in seconds.
    - `mcp_config`: MCP servers, as JSON or as files with it; `strict_mcp_config` excludes all others.
    - `database`: the address of a PostgreSQL database for team state; None: the environment or the settings decide.
    - `backend`: the backend of members: auto, in-process, tmux, detached, or a terminal adapter's name.
    - `trust`: trust the repository's own entries for this run. `given`: names for a script.
    - `settings_file`: a file or JSON text. `setting_sources`: the sources of settings files that are read; None: all.
    - `only_allowed`: allow only `allowed_tools`. Allow rules of settings files are ignored, their deny rules apply.
    - `hooks`: False disables the hooks of settings and definitions. `own_hooks`: functions of the program.
    """

    cwd: Path = field(default_factory=Path.cwd)
    home: str | None = None
    model: str | Model | None = None
    fallback_models: tuple[str, ...] = ()
    """The models that agents use, in this order, when their own model is not available."""
    effort: str | int | None = None
    thinking_tokens: int | None = None
    """The tokens that the lead may think with, where no effort is given; 0: it does not think. A model without such a
    budget uses its nearest level of effort."""
    may_bypass: bool = False
    """True: a client may set bypassPermissions while the session runs."""
    permission_mode: str | None = None
    mode_unless_kept: str | None = None
    add_dirs: tuple[Path, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    asked_tools: tuple[str, ...] = ()
    """Rules that ask, as a client names them for its own tools."""
    only_allowed: bool = False
    settings_file: Path | str | None = None
    setting_sources: tuple[str, ...] | None = None
    mcp_config: tuple[str, ...] = ()
    strict_mcp_config: bool = False
    trust: bool = False
    hooks: bool = True
    own_hooks: tuple[HookSpec, ...] = ()
    setup: str = ""
    """The trigger of `Setup` hooks, which run first: init or maintenance; empty: they do not run."""
    output: OutputFormat | None = None
    """The form of the final answer; None for text."""
    worktree: str | None = None
    """The name of the worktree in which the session works; empty: a new one. None: it works in `cwd`."""
    session_worktree: str = ""
    """The path of that worktree in a member process, whose lead's process has its lease."""
    budget: Budget = field(default_factory=Budget)
    has_default_caps: bool = False
    """True for a program that opens the session: it has the default caps of a headless run."""
    assumed: tuple[str, ...] = ()
    """Caps that come from the defaults of a headless run. The default cap on money refuses no unknown price."""
    calls_per_agent: int | None = None
    """The cap on model calls of each agent but the lead in a headless run, where no setting has one."""
    session_id: str | None = None
    resume: str | None = None
    fork: bool = False
    adopt: str | None = None
    append_system_prompt: str = ""
    system_prompt: str = ""
    agent: str = ""
    """The agent type of the lead; empty: the lead has none."""
    title: str = ""
    """The title of the session in lists; empty: unchanged."""
    persists: bool = True
    """False removes the files of the session when it ends."""
    teams: bool | None = None
    tools: Sequence[Callable[..., Any]] = ()
    interactive: bool = False
    headless: bool = False
    ask: str | None = None
    ask_timeout_s: float | None = None
    on_request: OnRequest | None = None
    client_mcp: Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]] | None = None
    """Sends a JSON-RPC message to an MCP server inside the client program, and returns its answer."""
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] | None = None
    team_name: str | None = None
    task_list: str | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugin_dirs: tuple[Path, ...] = ()
    plan_approval: str | None = None
    pace_s: float | None = None
    database: str | None = None
    backend: str | None = None
    markdown: bool | None = None
    plain_terminal: bool | None = None
    """True: text alone at a terminal, without redraws and colours."""
    sandbox: str | None = None
    """The mode of the sandbox; None: that of the environment, else of the settings."""
    sandbox_bounds: Mapping[str, Any] | None = None
    """Sandbox settings that the process does not exceed: in a member process those of the lead; None: no bounds."""
    stores: TeamStores | None = None
    """The stores of the team; None: files in the home."""


HEADLESS = Budget(usd=20.0, tokens=5_000_000, turns=200, minutes=120)
"""The default caps. Model calls are the lead's; every other agent may make as many."""

_CAP_FLAGS = {
    "turns": "--max-turns",
    "tokens": "--max-tokens",
    "minutes": "--timeout",
    "usd": "--max-budget-usd",
}


def with_default_caps(options: Options, of_user: Budget) -> Options:
    """Return the options of a headless run or a program with a cap of each kind; other options unchanged.

    `of_user` are the settings `budget.run`, which replace default caps. An unlimited budget gets none.
    """
    requested = options.budget
    if requested.is_unlimited or not (options.headless or options.has_default_caps):
        return options
    caps = requested.with_defaults(of_user.with_defaults(HEADLESS))
    assumed = tuple(name for name in _CAP_FLAGS if not requested.has(name))
    calls = options.calls_per_agent or max(HEADLESS.turns or 0, caps.turns or 0)
    return replace(options, budget=caps, assumed=assumed, calls_per_agent=calls)


def mark_portions(options: Options, of_user: Budget) -> Budget:
    """Return the amounts after each of which the user at a terminal is asked: the default caps of a headless run.

    `of_user` are the settings `budget.run`, which replace them. A cap of a flag has no mark.
    """
    if not options.interactive:
        return NO_CAPS
    portions = of_user.with_defaults(HEADLESS).as_json()
    return Budget(**{name: cap for name, cap in portions.items() if not options.budget.has(name)})


def calls_per_agent(options: Options, defaults: Budget) -> int | None:
    """Return the cap on model calls of each agent but the lead, where no setting has one; None: no cap.

    A member process has the cap of its lead's process among its options.
    """
    return options.calls_per_agent if defaults.turns is None else None


def default_caps_line(budget: Budget, assumed: Sequence[str], card: ModelCard) -> str:
    """Return a line with the run's default caps and the flags that raise them; empty when all caps were given."""
    words = {
        "turns": f"{budget.turns or 0} model calls of the lead and of each agent",
        "tokens": f"{budget.tokens or 0:,} tokens",
        "minutes": f"{(budget.minutes or 0) / 60:g} h",
        "usd": f"{budget.usd or 0:g} USD" if card.usd_in else "",
    }
    names = [name for name in assumed if words[name]]
    if not names:
        return ""
    return (
        f"default caps: {', '.join(words[one] for one in names)} (raise: {' '.join(_CAP_FLAGS[one] for one in names)})"
    )
