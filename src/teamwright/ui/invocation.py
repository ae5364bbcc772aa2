"""The call of the program as a value, built from its flags and given to the interface that runs it.

Depends on session options and prompts.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.agent_types import parse_agents_flag
from teamwright.config.plugins import MANIFEST
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import directory_name, session_id
from teamwright.protocol.messages import Block
from teamwright.protocol.runtime_tags import split_rules
from teamwright.protocol.usage import Budget
from teamwright.session.options import Options, parse_slash_command, read_prompt
from teamwright.ui.cli.run_location import RunLocation

if TYPE_CHECKING:
    from teamwright.session.answer_schema import OutputFormat

MAX_STDIN = 10_000_000
"""The maximum size of a prompt on stdin, in bytes."""

MAX_TITLE = 120
"""The most characters of a session's title."""

STDIN_WAIT_S = 3.0
"""Seconds to wait for a silent pipe when the prompt was given as an argument; the parent may never close the pipe."""

BYPASS_MODE = "bypassPermissions"


class Invocation(Struct, frozen=True):
    """A call of the program. `prompt` is the typed prompt; with `piped`, stdin may add to it. `report` is the report
    file.

    `blocks` is the prompt after it was read, before the run starts where possible. A resumed session may have none. A
    prompt that calls a command has no blocks yet; `stdin` is the text before its words.
    """

    options: Options
    prompt: str | None = None
    piped: bool = False
    output_format: str = "text"
    input_format: str = "text"
    verbose: bool = False
    report: Path | None = None
    strict: bool = False
    permission_prompt_tool: str = ""
    replay_user_messages: bool = False
    include_partial_messages: bool = False
    session_mirror: bool = False
    blocks: tuple[Block, ...] | None = None
    stdin: str = ""

    @property
    def slash_command(self) -> tuple[str, str] | None:
        """The command that the prompt calls, and its arguments; None for other prompts."""
        return parse_slash_command(self.prompt) if self.prompt and self.input_format == "text" else None

    async def read_prompt(self) -> list[Block]:
        """Return the blocks of the prompt, stdin first. Raises UsageError, StorageError."""
        read = self if self.blocks is not None else await asyncio.to_thread(self.with_prompt_read)
        return list(read.blocks or ())

    def with_prompt_read(self) -> Invocation:
        """Return the same call with its prompt read, after waiting for stdin. Raises UsageError, StorageError."""
        piped = self._read_stdin() if self.piped else ""
        if self.slash_command is not None:
            return replace(self, blocks=(), stdin=piped)
        if (self.options.resume or self.options.adopt) and not ((self.prompt or "") + piped).strip():
            return replace(self, blocks=())
        return replace(self, blocks=tuple(read_prompt(self.prompt, piped, self.options.cwd)))

    def _read_stdin(self) -> str:
        fd = sys.stdin.fileno()
        if self.prompt and not select.select([fd], [], [], STDIN_WAIT_S)[0]:
            sys.stderr.write(f"teamwright: stdin said nothing within {STDIN_WAIT_S:.0f} s and is left out\n")
            return ""
        with os.fdopen(os.dup(fd), "rb") as source:
            raw = source.read(MAX_STDIN + 1)
        if len(raw) > MAX_STDIN:
            raise UsageError(
                "usage",
                f"stdin brought more than {MAX_STDIN // 1_000_000} MB",
                do=["write it to a file and name the file in the prompt"],
                note="nothing was started",
            )
        if b"\0" in raw:
            raise UsageError(
                "usage",
                f"stdin is not text: byte {raw.index(0) + 1:,} is NUL",
                do=["write it to a file and name the file in the prompt"],
                note="nothing was started",
            )
        return raw.decode("utf-8", "replace")


def is_stdin_piped() -> bool:
    """Return True when stdin is a pipe, a file or a socket, which may contain a prompt."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def build_invocation(
    where: RunLocation, flags: Mapping[str, Any], prompt: str | None, *, interactive: bool
) -> Invocation:
    """Build the call from the flags of a run. Raises UsageError for flags that contradict each other."""
    return Invocation(
        options=_options(where, flags, interactive=interactive),
        prompt=prompt,
        piped=not interactive and is_stdin_piped(),
        output_format=flags.get("output_format") or "text",
        input_format=flags.get("input_format") or "text",
        verbose=bool(flags.get("verbose")),
        report=_report_path(where, flags.get("report")),
        strict=bool(flags.get("strict")),
        permission_prompt_tool=_permission_prompt_tool(flags),
        replay_user_messages=_stream_flag(flags, "replay_user_messages", "input_format", "output_format"),
        include_partial_messages=_stream_flag(flags, "include_partial_messages", "output_format"),
        session_mirror=_stream_flag(flags, "session_mirror", "output_format"),
    )


def _stream_flag(flags: Mapping[str, Any], name: str, *needed: str) -> bool:
    """Return the value of a flag that needs the format `stream-json`. Raises UsageError with another format."""
    missing = [one for one in needed if flags.get(one) != "stream-json"]
    if not flags.get(name) or not missing:
        return bool(flags.get(name))
    formats = " and ".join(f"--{one.replace('_', '-')} stream-json" for one in missing)
    raise UsageError(
        "usage",
        f"--{name.replace('_', '-')} needs {formats}",
        note="nothing was started",
    )


def _permission_prompt_tool(flags: Mapping[str, Any]) -> str:
    """Return the approver of a run: `stdio`, the tool of an MCP server, or empty. Raises UsageError for others."""
    tool = flags.get("permission_prompt_tool") or ""
    if tool == "stdio" and flags.get("input_format") != "stream-json":
        raise UsageError("usage", "--permission-prompt-tool stdio needs --input-format stream-json")
    if tool and tool != "stdio" and not (tool.startswith("mcp__") and tool.count("__") > 1):
        raise UsageError(
            "usage",
            f"{tool[:80]!r} is no tool of an MCP server",
            looked_at=[("flag", "--permission-prompt-tool")],
            do=["--permission-prompt-tool mcp__SERVER__TOOL", "--permission-prompt-tool stdio"],
            note="nothing was started",
        )
    return tool


def _report_path(where: RunLocation, value: str | None) -> Path | None:
    if value == "-":
        raise UsageError(
            "usage",
            "a report goes to a file: stdout is for the answer alone",
            do=["--report report.md", "--report /dev/stderr"],
            note="nothing was started",
        )
    return where.resolve(value) if value is not None else None


_THINKING_TOKENS: Mapping[str, int | None] = {"disabled": 0, "adaptive": None}
"""Ways of `--thinking` that decide alone; else `--max-thinking-tokens` or its variable does."""


def _options(where: RunLocation, flags: Mapping[str, Any], *, interactive: bool) -> Options:
    seconds = flags.get("timeout")
    session = flags.get("session_id")
    return Options(
        cwd=where.cwd,
        home=where.home,
        model=flags.get("model"),
        fallback_models=_fallback_models(flags.get("fallback_model")),
        effort=flags.get("effort"),
        thinking_tokens=_THINKING_TOKENS.get(flags.get("thinking") or "", flags.get("max_thinking_tokens")),
        may_bypass=bool(flags.get("allow_dangerously_skip_permissions")),
        permission_mode=_mode(flags),
        add_dirs=tuple(_directory(where, value) for value in flags.get("add_dir") or ()),
        allowed_tools=_rules(flags.get("allowed_tools") or ()),
        disallowed_tools=(*_rules(flags.get("disallowed_tools") or ()), *_tools_left_out(flags.get("tools") or ())),
        settings_file=where.settings,
        setting_sources=_setting_sources(flags.get("setting_sources")),
        mcp_config=tuple(_json_or_path(where, value) for value in flags.get("mcp_config") or ()),
        strict_mcp_config=bool(flags.get("strict_mcp_config")),
        trust=bool(flags.get("trust")),
        setup=next((name for name in ("init", "maintenance") if flags.get(name)), ""),
        budget=Budget(
            usd=flags.get("max_budget_usd"),
            tokens=flags.get("max_tokens"),
            turns=flags.get("max_turns"),
            minutes=None if seconds is None else seconds / 60,
        ),
        output=_output_format(where, flags.get("json_schema")),
        session_id=session_id(session) if session else None,
        worktree=flags.get("worktree"),
        resume=flags.get("resume") or None,
        fork=bool(flags.get("fork_session")),
        resume_at=flags.get("resume_session_at") or "",
        dropped_prompt=flags.get("resume_drops_turn"),
        adopt=flags.get("adopt"),
        agents=parse_agents(where, flags),
        plugin_dirs=parse_plugin_dirs(where, flags),
        append_system_prompt=_prompt_text(where, flags, "append_system_prompt"),
        system_prompt=_prompt_text(where, flags, "system_prompt"),
        agent=flags.get("agent") or "",
        title=" ".join((flags.get("title") or "").split())[:MAX_TITLE],
        persists=not flags.get("no_session_persistence"),
        plan_approval=flags.get("plan_approval"),
        database=where.database,
        backend=flags.get("backend"),
        sandbox=flags.get("sandbox"),
        markdown=False if flags.get("no_markdown") else None,
        plain_terminal=True if flags.get("plain") else None,
        task_list=directory_name(listed) if (listed := flags.get("task_list")) is not None else None,
        debug=where.debug,
        interactive=interactive,
        ask=flags.get("ask"),
    )


def _mode(flags: Mapping[str, Any]) -> str | None:
    mode = flags.get("permission_mode")
    if not flags.get("dangerously_skip_permissions"):
        return mode
    if mode not in (None, BYPASS_MODE):
        raise UsageError("usage", f"--permission-mode {mode} and --dangerously-skip-permissions contradict each other")
    return BYPASS_MODE


def _json_or_path(where: RunLocation, value: str) -> str:
    return value if value.lstrip().startswith("{") else str(where.resolve(value))


def _directory(where: RunLocation, value: str) -> Path:
    path = where.resolve(value)
    if not path.is_dir():
        raise UsageError("usage", f"there is no directory {path}", looked_at=[("flag", "--add-dir")])
    return path


def _rules(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the rules of all flags of one name."""
    return tuple(rule for text in values for rule in split_rules(text))


def _tools_left_out(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the built-in tools that `--tools` leaves out. Raises UsageError for a name that no tool has."""
    if not values:
        return ()
    from teamwright.config.tool_names import tools_left_out  # loaded only for this flag

    return tools_left_out(_rules(values))


def _fallback_models(value: str | None) -> tuple[str, ...]:
    """Return the names of the fallback models, in order. Raises UsageError for a value without a name."""
    names = tuple(dict.fromkeys(name for part in (value or "").split(",") if (name := part.strip())))
    if value is not None and not names:
        raise UsageError(
            "usage", "--fallback-model needs the name of a model", do=["teamwright models"], note="nothing was started"
        )
    return names


SETTING_SOURCES = ("user", "project", "local")
"""The names that `--setting-sources` takes."""


def _setting_sources(value: str | None) -> tuple[str, ...] | None:
    """Return the sources of settings files to read; None for all. Raises UsageError for an unknown name."""
    if value is None:
        return None
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    unknown = next((name for name in names if name not in SETTING_SOURCES), None)
    if unknown is None:
        return names
    raise UsageError(
        "usage",
        f"{unknown[:80]!r} is no source of settings",
        looked_at=[("flag", "--setting-sources"), ("sources", ", ".join(SETTING_SOURCES))],
        do=["--setting-sources user,project", "--setting-sources ''   (reads no settings file)"],
        note="nothing was started",
    )


def _output_format(where: RunLocation, value: str | None) -> OutputFormat | None:
    """Return the form of the final answer: JSON Schema as text, or in a file. Raises UsageError."""
    if value is None:
        return None
    from teamwright.session.answer_schema import schema_format  # loaded only for this flag

    text = value.strip()
    return schema_format(text if text.startswith("{") else _file_text(where, text.removeprefix("@"), "--json-schema"))


def _prompt_text(where: RunLocation, flags: Mapping[str, Any], name: str) -> str:
    """Return the text of a flag, or of the file of its `-file` form. Raises UsageError for both and for no file."""
    text, file = flags.get(name), flags.get(f"{name}_file")
    if file is None:
        return text or ""
    flag = f"--{name.replace('_', '-')}"
    if text is not None:
        raise UsageError("usage", f"{flag} and {flag}-file contradict each other", note="nothing was started")
    return _file_text(where, file, f"{flag}-file")


def _file_text(where: RunLocation, file: str, flag: str) -> str:
    """Return the text of a file that a flag names. Raises UsageError for a file that cannot be read."""
    try:
        return where.resolve(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise UsageError(
            "usage",
            f"the file {where.resolve(file)} cannot be read: {why}",
            looked_at=[("flag", flag)],
            do=["name a text file that exists"],
            note="nothing was started",
        ) from None


def parse_agents(where: RunLocation, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions of `--agents`, given as JSON or as a file. Raises UsageError."""
    text = flags.get("agents")
    return parse_agents_flag(text, where.cwd) if text is not None else {}


def parse_plugin_dirs(where: RunLocation, flags: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the directories of `--plugin-dir`. Raises UsageError for a marketplace, with its plugins."""
    found = tuple(where.resolve(directory) for directory in flags.get("plugin_dir") or ())
    if not found:
        return ()
    from teamwright.config.plugin_sources import is_marketplace, read_marketplace  # only for this flag

    for path in found:
        if is_marketplace(path) and not (path / MANIFEST).is_file():
            local = [entry.local.path for entry in read_marketplace(path).entries if entry.local is not None]
            raise UsageError(
                "usage",
                f"{path} is a marketplace, not a plugin",
                do=[f"--plugin-dir {one}" for one in dict.fromkeys(local) if one != path][:5],
                note="nothing was started",
            )
    return found
