"""Settings files: JSON read and checked against one table of keys, each value with the place it came from.

Reads and checks only; which layer may say what, and which value wins, is decided in `settings`. An unknown key is
a warning, a wrong type an error with file and line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, cast

from teamwright.models.effort import EXPECTED as EFFORTS
from teamwright.models.effort import is_effort
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import nearest
from teamwright.storage.plain import read_plain

MAX_BYTES = 1_000_000


class Origin(Enum):
    """Whose words a file holds. The later one is nearer and wins where only one value can hold."""

    COMPAT_USER = "the user's, of the other product"
    USER = "the user's"
    COMPAT_SHARED = "the repository's, of the other product"
    COMPAT_LOCAL = "the checkout's, of the other product"
    SHARED = "the repository's"
    LOCAL = "the checkout's"
    GIVEN = "given with --settings"

    @property
    def of_repository(self) -> bool:
        """Whether it lies in the repository, so that it may be somebody else's."""
        return self in {Origin.COMPAT_SHARED, Origin.COMPAT_LOCAL, Origin.SHARED, Origin.LOCAL}

    @property
    def compat(self) -> bool:
        """Whether it is a file of the other product."""
        return self in {Origin.COMPAT_USER, Origin.COMPAT_SHARED, Origin.COMPAT_LOCAL}

    @property
    def by_user(self) -> bool:
        """Whether a person wrote it for themselves, once it is trusted."""
        return self not in {Origin.COMPAT_SHARED, Origin.SHARED}


@dataclass(frozen=True, slots=True)
class Key:
    """A setting: what it must be, whether only a person's own files may hold it, and a sentence."""

    kind: str
    meaning: str
    user_only: bool = False


KEYS: dict[str, Key] = {
    "model": Key("text", "The model that is used when none is named."),
    "effort": Key("effort", "How hard the lead thinks, and whoever it starts: a level, or a budget in tokens."),
    "teams": Key("bool", "Whether agents may form teams."),
    "env": Key("env", "Variables for commands that agents run."),
    "hooks": Key("map", "Commands that run when something happens."),
    "disableAllHooks": Key("bool", "Whether no hook runs at all."),
    "skills.enabled": Key("bool", "Whether skills and slash commands of files are used.", user_only=True),
    "skills.disabled": Key("texts", "Names of skills and slash commands that are left out."),
    "permissions.allow": Key("texts", "Rules for calls that run without a question."),
    "permissions.ask": Key("texts", "Rules for calls that are asked about."),
    "permissions.deny": Key("texts", "Rules for calls that never run."),
    "permissions.additionalDirectories": Key("texts", "Directories that agents may use besides the working directory."),
    "permissions.defaultMode": Key("text", "The permission mode at the start."),
    "permissions.leadAnswers": Key(
        "bool", "Whether the lead may allow what its members ask for, in the user's place.", user_only=True
    ),
    "plan_approval": Key("text", "Who approves plans of members: lead, human or auto.", user_only=True),
    "members.backend": Key(
        "text", "Where members run: auto, in-process, tmux, detached, or a recipe's name.", user_only=True
    ),
    "members.pane_layout": Key(
        "text", "Members in tmux: split, beside the lead; window, in one of their own.", user_only=True
    ),
    "members.lead_share": Key("share", "The lead's share of the width of its pane, with split.", user_only=True),
    "members.recipes": Key("map", "Terminals of your own, by name: the commands that drive them.", user_only=True),
    "members.grace_s": Key("seconds", "How long a member's process stays when its lead is gone.", user_only=True),
    "members.commands": Key(
        "map", "Other programs that may run members, by name: argv, env, root, start_s.", user_only=True
    ),
    "members.command": Key("text", "The one of them that runs members; none: they are ours.", user_only=True),
    "limits.members": Key("count", "Teammates alive at once."),
    "limits.spawns": Key("count", "Agents started in one run."),
    "limits.spawns_per_minute": Key("count", "Agents started within a minute."),
    "budget.agent.usd": Key("amount", "US dollars that one member or sub-agent may spend."),
    "budget.agent.tokens": Key("positive", "Tokens that one member or sub-agent may use, in and out."),
    "budget.agent.turns": Key("positive", "Model calls that one member or sub-agent may make."),
    "budget.agent.calls": Key("positive", "Tool calls that one member or sub-agent may make."),
    "budget.agent.minutes": Key("amount", "Minutes that one member or sub-agent may work."),
    "limits.agents": Key("count", "Sub-agents running at once."),
    "limits.depth": Key("count", "How deep agents may start agents; a sub-agent of a teammate is 1."),
    "bash.timeout_s": Key("seconds", "How long a command may run when the call does not say."),
    "bash.max_timeout_s": Key("seconds", "How long a command may run at most."),
    "bash.output_chars": Key("count", "Characters of output in a result; the rest is in a file."),
    "bash.shell": Key("text", "The shell of commands: bash, zsh, sh, or a path; none: your $SHELL.", user_only=True),
    "bash.startup": Key("bool", "Whether commands have your shell's functions, aliases and PATH.", user_only=True),
    "bash.startup_s": Key("seconds", "How long the startup of your shell may take.", user_only=True),
    "retries": Key("count", "How often a failed model request is tried again."),
    "stagger_s": Key(
        "seconds or null", "How long a call waits for an equal prompt sent just before, to use its cache; null: never."
    ),
    "stall_s": Key("seconds", "How long an answer may make no progress."),
    "ask_timeout_s": Key("seconds or null", "How long a question waits; null waits for ever at a terminal."),
    "headless_asks": Key("text", "deny: where nobody is at a terminal a request is denied; wait: it waits."),
    "shutdown_objection_s": Key("seconds", "How long a member may take to answer a request to stop."),
    "cancel_grace_s": Key("seconds", "How long a cancelled turn may wind up."),
    "goodbye_s": Key("seconds", "How long leaving waits for members that wind up."),
    "dedupe_names": Key("bool", "Whether a name that is taken becomes name-2."),
    "task_check": Key("text", "A command that must succeed before any task is completed; none by default."),
    "task_check_timeout_s": Key("seconds", "How long the check of a task may take."),
    "git_trailer": Key("text", "A trailer line for commits; none by default."),
    "thinking": Key("text", "adaptive or off."),
    "context_tokens": Key("count", "The model's window, where you know it better."),
    "max_output_tokens": Key("count", "The longest answer."),
    "agents.background": Key("bool", "Whether sub-agents may run in the background."),
    "agents.background_after_s": Key(
        "seconds", "After so long a sub-agent that is waited for goes on in the background."
    ),
    "agents.jobs_wait_s": Key("seconds", "How long a sub-agent that has answered waits for commands of its own."),
    "agents.fork": Key("bool", "Whether a call of Agent that names no kind makes a fork of its caller."),
    "coordinator": Key("bool", "Whether every sub-agent runs in the background, with no model named by a call."),
    "assistant": Key("bool", "Whether every sub-agent runs in the background."),
    "mcpServers": Key("map", "MCP servers by name, as in .mcp.json."),
    "enableAllProjectMcpServers": Key("bool", "false: of .mcp.json only the servers that enabledMcpjsonServers names."),
    "enabledMcpjsonServers": Key("texts", "Servers of .mcp.json that are used though not all are."),
    "disabledMcpjsonServers": Key("texts", "Servers of .mcp.json that are left out."),
    "mcp.start_s": Key("seconds", "How long an MCP server may take until it can be called."),
    "mcp.wait_s": Key("seconds", "How long the first agent waits for MCP servers that were never seen before."),
    "mcp.call_s": Key("seconds", "How long a call of an MCP server may give no sign of itself."),
    "mcp.prefix_tools": Key("count", "Tools of MCP servers in every agent's list; others are called by name."),
    "mcp.prefix_bytes": Key("count", "How many bytes these tools may have together."),
    "compact_at": Key(
        "share or null", "The share of its window at which a conversation is compacted; null: only when it is full."
    ),
    "stalled_after_s": Key("seconds", "How long nothing may come of a member at work before it shows as stalled."),
    "retention_days": Key("count", "How long archived teams and old sessions are kept, in days; 0 for ever."),
    "providers": Key("map", "Your own model services, by name.", user_only=True),
    "prices": Key("map", "Prices by provider/model, in USD per million tokens.", user_only=True),
    "compat.claude": Key("bool", "Whether files of the other product are read.", user_only=True),
}
"""Every setting, with the name it has in a file (a dot is a level of JSON)."""

_NOT_USED_YET = frozenset(
    {
        *("statusLine", "outputStyle", "enabledPlugins", "extraKnownMarketplaces", "cleanupPeriodDays"),
        *("permissions.disableBypassPermissionsMode", "sandbox", "alwaysThinkingEnabled", "includeCoAuthoredBy"),
    }
)
_NEVER_USED = frozenset(
    {"apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "otelHeadersHelper", "forceLoginMethod"}
)
_TOPS = frozenset(name[:at] for name in KEYS for at, char in enumerate(name) if char == ".")


@dataclass(frozen=True, slots=True)
class Layer:
    """One file: its known values by key, warnings, and the raw object for whoever looks for more."""

    path: Path
    origin: Origin
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    warnings: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict[str, Any])


def read_layer(path: Path, origin: Origin) -> Layer | None:
    """The file's values, or None when there is none. Raises CannotStart (`bad-settings`) with file and position."""
    text = _text(path)
    if text is None:
        return None
    try:
        read: Any = json.loads(text) if text.strip() else {}
    except RecursionError:
        raise bad_settings(path, "it is nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise bad_settings(path, problem.msg.lower(), f"line {problem.lineno}, column {problem.colno}") from None
    if not isinstance(read, dict):
        raise bad_settings(path, "it is not a JSON object", "line 1")
    raw = cast("dict[str, Any]", read)
    values: dict[str, Any] = {}
    warnings: list[str] = []
    for name, value in _flat(raw, path, text):
        key = KEYS.get(name)
        if key is None:
            warnings += _unknown(path, name, origin)
        else:
            values[name] = _checked(key.kind, name, value, path, text)
    return Layer(path, origin, values, tuple(warnings), raw)


def bad_settings(path: Path, what: str, where: str = "") -> CannotStart:
    """The error of a settings file that cannot be used."""
    looked_at = [("file", str(path)), *([("at", where)] if where else [])]
    do = ["correct the file, or move it away"]
    return CannotStart("bad-settings", f"a settings file cannot be read: {what}", looked_at=looked_at, do=do)


def line_of(text: str, name: str) -> str:
    """Where a key stands in its file, for errors: the first line that holds its last part."""
    found = re.search(rf'"{re.escape(name.rsplit(".", 1)[-1])}"\s*:', text)
    return f"line {text.count(chr(10), 0, found.start()) + 1}, {name}" if found else name


def _text(path: Path) -> str | None:
    try:
        content = read_plain(path, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as problem:
        raise bad_settings(path, problem.strerror or "it cannot be opened") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise bad_settings(path, "it is not UTF-8", f"byte {problem.start}") from None


def _flat(raw: Mapping[str, Any], path: Path, text: str, above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for part, value in raw.items():
        name = f"{above}{part}"
        if name not in _TOPS:
            found.append((name, value))
        elif isinstance(value, dict):
            found += _flat(cast("dict[str, Any]", value), path, text, f"{name}.")
        else:
            raise bad_settings(path, f"{name} is not an object", line_of(text, name))
    return found


def _unknown(path: Path, name: str, origin: Origin) -> list[str]:
    if name == "$schema" or name.startswith("//"):
        return []
    if name in _NEVER_USED:
        return [f"{path}: {name} is never used: a key is given by its variable only"]
    if name in _NOT_USED_YET:
        return [f"{path}: {name} is not used yet"]
    if origin.compat:
        return [f"{path}: {name} is not used"]
    near = nearest(name, KEYS)
    return [f"{path}: {name} is not a setting" + (f"; did you mean {near}?" if near else "")]


def _checked(kind: str, name: str, value: Any, path: Path, text: str) -> Any:
    if _fits(kind, value):
        return value
    raise bad_settings(path, f"{name} must be {_EXPECTED[kind]}", line_of(text, name))


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "bool":
            return isinstance(value, bool)
        case "count" | "positive":
            return isinstance(value, int) and not isinstance(value, bool) and value >= (kind == "positive")
        case "amount":
            return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10_000_000
        case "seconds" | "seconds or null":
            number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10_000_000
            return number or (kind != "seconds" and value is None)
        case "share" | "share or null":
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return (kind != "share" and value is None) or (number and 0.1 <= value <= 0.95)
        case "effort":
            return is_effort(value)
        case "text":
            return isinstance(value, str)
        case "texts":
            return isinstance(value, list) and all(isinstance(part, str) for part in cast("list[Any]", value))
        case "env":
            return isinstance(value, dict) and all(
                isinstance(part, str) for part in cast("dict[Any, Any]", value).values()
            )
        case _:
            return isinstance(value, dict)


_EXPECTED = {
    "bool": "true or false",
    "count": "a whole number from 0 on",
    "positive": "a whole number above 0",
    "amount": "a number above 0",
    "seconds": "a number of seconds above 0",
    "seconds or null": "a number of seconds above 0, or null",
    "share": "a number from 0.1 to 0.95",
    "share or null": "a number from 0.1 to 0.95, or null",
    "effort": EFFORTS,
    "text": "a text",
    "texts": "a list of texts",
    "env": "an object with texts",
    "map": "an object",
}
