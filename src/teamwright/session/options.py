"""The options of a run: the one value that flags, the Python API and tests fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from teamwright.approvals.request_queue import OnRequest
from teamwright.hooks.hook_index import HookSpec
from teamwright.models.model import Model
from teamwright.protocol.budget import Budget
from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a run can be told; None means "as the settings say".

    `mode_unless_kept` is the mode of a session that was not left in one, above the settings'.
    `resume` is a session id or its beginning, or `latest`; `adopt` a team whose lead is gone. `interactive` says that
    a person is at a terminal, `headless` that it is one of `-p`. `task_list` names a list that several sessions
    share;
    `plan_approval` says who approves plans of members: lead, human or auto.
    `agents` are definitions of agents by name, `plugin_dirs` directories of plugins.
    `ask` is `wait` or `deny`: whether a request waits for another process where nobody is at a terminal;
    `ask_timeout_s` how long one waits at most, in seconds.
    `mcp_config` are MCP servers, as JSON or as files with it; with `strict_mcp_config` there are no others.
    `backend` says where members live: auto, in-process, tmux, detached, or a recipe's name.
    `trust` trusts the repository's own entries for this run. `given` supplies names to a script. `only_allowed` leaves
    out what settings files allow: only `allowed_tools` are allowed, and what they deny stays denied. `hooks` False
    runs none of the settings nor of definitions; `own_hooks` are functions of the program.
    """

    cwd: Path = field(default_factory=Path.cwd)
    home: str | None = None
    model: str | Model | None = None
    effort: str | int | None = None
    permission_mode: str | None = None
    mode_unless_kept: str | None = None
    add_dirs: tuple[Path, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    only_allowed: bool = False
    settings_file: Path | None = None
    mcp_config: tuple[str, ...] = ()
    strict_mcp_config: bool = False
    trust: bool = False
    hooks: bool = True
    own_hooks: tuple[HookSpec, ...] = ()
    budget: Budget = field(default_factory=Budget)
    assumed: tuple[str, ...] = ()
    """Caps that come from the defaults of a headless run. The default cap on money refuses no unknown price."""
    session_id: str | None = None
    resume: str | None = None
    adopt: str | None = None
    append_system_prompt: str = ""
    teams: bool | None = None
    tools: Sequence[Callable[..., Any]] = ()
    interactive: bool = False
    headless: bool = False
    ask: str | None = None
    ask_timeout_s: float | None = None
    on_request: OnRequest | None = None
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] | None = None
    team_name: str | None = None
    task_list: str | None = None
    agents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plugin_dirs: tuple[Path, ...] = ()
    plan_approval: str | None = None
    pace_s: float | None = None
    backend: str | None = None
