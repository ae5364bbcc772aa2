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
    """The options of a run; None means that the settings decide.

    - `mode_unless_kept`: the mode of a session without a saved mode, with precedence over the settings' mode.
    - `resume`: a session id or its beginning, or `latest`. `adopt`: a team without a lead.
    - `interactive`: a person is at a terminal. `headless`: a run of `-p`.
    - `task_list`: the name of a list that several sessions share.
    - `plan_approval`: the approver of members' plans: lead, human or auto.
    - `agents`: definitions of agents by name. `plugin_dirs`: directories of plugins.
    - `ask`: `wait` or `deny`, for requests without a person at a terminal. `ask_timeout_s`: their deadline in seconds.
    - `mcp_config`: MCP servers, as JSON or as files with it; `strict_mcp_config` excludes all others.
    - `backend`: the backend of members: auto, in-process, tmux, detached, or a terminal adapter's name.
    - `trust`: trust the repository's own entries for this run. `given`: names for a script.
    - `only_allowed`: allow only `allowed_tools`. Allow rules of settings files are ignored, their deny rules apply.
    - `hooks`: False disables the hooks of settings and definitions. `own_hooks`: functions of the program.
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
    calls_per_agent: int | None = None
    """The cap on model calls of each agent but the lead in a headless run, where no setting has one."""
    session_id: str | None = None
    resume: str | None = None
    adopt: str | None = None
    append_system_prompt: str = ""
    system_prompt: str = ""
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
