"""The values of all settings that hold for a run, and what was said with flags. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from teamwright.agent.activity import STALLED_AFTER_S
from teamwright.agent.compacting.state import CompactSettings
from teamwright.agent.limits import SpawnSettings
from teamwright.app.checking.settings import CheckSettings
from teamwright.app.serving.said import McpSettings
from teamwright.app.strangers.settings import CommandsSettings
from teamwright.hooks.book import Hook
from teamwright.models.effort import Effort
from teamwright.permissions.rule import Rule
from teamwright.permissions.verdict import Mode
from teamwright.protocol.budget import NO_CAPS, Budget
from teamwright.protocol.values import dataclass
from teamwright.teams.agents.ports import AgentSettings
from teamwright.teams.member.settings import TeamSettings
from teamwright.teams.places.settings import PlacesSettings
from teamwright.tools.shell.bash import BashSettings


@dataclass(frozen=True, slots=True)
class Flags:
    """What was said for this run; None and empty mean nothing was. `only_allowed`: files allow nothing."""

    model: str | None = None
    effort: Effort | None = None
    permission_mode: str | None = None
    plan_approval: str | None = None
    backend: str | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    only_allowed: bool = False
    add_dirs: tuple[Path, ...] = ()
    settings_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that hold. `origins` names the file or flag of each value that is not a default.

    `delegates`: the lead only coordinates; `mode` is then the one that its members follow.

    `each` caps every member and sub-agent; `directories` are additional ones, by real path; `models` holds the
    keys of the models' room as they were written; `skills_off` are names of skills and commands, in small letters;
    `warnings` are lines for people about what was left out; `files` is how many settings files were read.
    """

    rules: tuple[Rule, ...] = ()
    mode: Mode = Mode.DEFAULT
    delegates: bool = False
    directories: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    hooks: tuple[Hook, ...] = ()
    hooks_off: bool = False
    mcp: McpSettings = field(default_factory=McpSettings)
    models: Mapping[str, Any] = field(default_factory=dict[str, Any])
    limits: SpawnSettings = field(default_factory=SpawnSettings)
    each: Budget = NO_CAPS
    team: TeamSettings = field(default_factory=TeamSettings)
    bash: BashSettings = field(default_factory=BashSettings)
    check: CheckSettings = field(default_factory=CheckSettings)
    agents: AgentSettings = field(default_factory=AgentSettings)
    places: PlacesSettings = field(default_factory=PlacesSettings)
    commands: CommandsSettings = field(default_factory=CommandsSettings)
    compact: CompactSettings = field(default_factory=CompactSettings)
    teams: bool = True
    ask_timeout_s: float | None = None
    headless_asks: str = "deny"
    lead_answers: bool = False
    plan_approval: str = "lead"
    git_trailer: str = ""
    retention_days: int = 30
    stalled_after_s: float = STALLED_AFTER_S
    compat: bool = True
    skills: bool = True
    skills_off: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    files: int = 0
