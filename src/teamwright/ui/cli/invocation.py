"""One call of the program, read from its flags: the value that the faces of a run are handed.

Knows options and prompts through `app`. Refuses to know how a run is shown.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from teamwright.app.options import Options
from teamwright.app.prompting import read_prompt
from teamwright.app.skills.words import command_of
from teamwright.protocol.blocks import Block
from teamwright.protocol.budget import Budget
from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import dir_stem, session_id
from teamwright.protocol.rule_text import split_rules
from teamwright.protocol.values import dataclass
from teamwright.ui.cli.agents.given import agents_given, plugins_given
from teamwright.ui.cli.place import Place

STDIN_MOST = 10_000_000
"""Bytes of stdin that may be a prompt."""

STDIN_WAIT_S = 3.0
"""How long a pipe may stay silent beside a prompt that was typed: a parent that never closes it holds nobody up."""

BYPASS = "bypassPermissions"


@dataclass(frozen=True, slots=True)
class Invocation:
    """`prompt` is what was typed; `piped` says that stdin may bring more. `report` is where a report goes.

    `blocks` is the prompt once it was read: before anything starts, where it can be. A session that is resumed may
    go on without one. A prompt that calls a command has no blocks yet; `stdin` is what goes before its words.
    """

    options: Options
    prompt: str | None = None
    piped: bool = False
    output_format: str = "text"
    input_format: str = "text"
    verbose: bool = False
    report: Path | None = None
    strict: bool = False
    debug: bool = False
    blocks: tuple[Block, ...] | None = None
    stdin: str = ""

    @property
    def called(self) -> tuple[str, str] | None:
        """The command that the prompt calls, and its arguments; None for other words."""
        return command_of(self.prompt) if self.prompt and self.input_format == "text" else None

    async def read_prompt(self) -> list[Block]:
        """The blocks of the prompt, stdin first. Raises UsageError, StorageError."""
        read = self if self.blocks is not None else await asyncio.to_thread(self.with_blocks)
        return list(read.blocks or ())

    def with_blocks(self) -> Invocation:
        """The same call with its prompt read; waits for stdin. Raises UsageError, StorageError."""
        piped = self._stdin() if self.piped else ""
        if self.called is not None:
            return replace(self, blocks=(), stdin=piped)
        if (self.options.resume or self.options.adopt) and not ((self.prompt or "") + piped).strip():
            return replace(self, blocks=())
        return replace(self, blocks=tuple(read_prompt(self.prompt, piped, self.options.cwd)))

    def _stdin(self) -> str:
        fd = sys.stdin.fileno()
        if self.prompt and not select.select([fd], [], [], STDIN_WAIT_S)[0]:
            sys.stderr.write(f"teamwright: stdin said nothing within {STDIN_WAIT_S:.0f} s and is left out\n")
            return ""
        with os.fdopen(os.dup(fd), "rb") as source:
            raw = source.read(STDIN_MOST + 1)
        if len(raw) > STDIN_MOST:
            raise UsageError(
                "usage",
                f"stdin brought more than {STDIN_MOST // 1_000_000} MB",
                do=["write it to a file and name the file in the prompt"],
                note="nothing was started",
            )
        return raw.decode("utf-8", "replace")


def stdin_is_piped() -> bool:
    """Whether stdin is a pipe, a file or a socket: something that may hold a prompt."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def on_a_terminal() -> bool:
    """Whether a person sits in front of both ends."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())


def invocation_of(place: Place, flags: Mapping[str, Any], prompt: str | None, *, interactive: bool) -> Invocation:
    """The call that the flags of a run describe. Raises UsageError for flags that contradict each other."""
    return Invocation(
        options=_options(place, flags, interactive=interactive),
        prompt=prompt,
        piped=not interactive and stdin_is_piped(),
        output_format=flags.get("output_format") or "text",
        input_format=flags.get("input_format") or "text",
        verbose=bool(flags.get("verbose")),
        report=_report(place, flags.get("report")),
        strict=bool(flags.get("strict")),
        debug=place.debug,
    )


def _report(place: Place, given: str | None) -> Path | None:
    if given == "-":
        raise UsageError(
            "usage",
            "a report goes to a file: stdout is for the answer alone",
            do=["--report report.md", "--report /dev/stderr"],
            note="nothing was started",
        )
    return place.path(given) if given is not None else None


def _options(place: Place, flags: Mapping[str, Any], *, interactive: bool) -> Options:
    seconds = flags.get("timeout")
    wanted = flags.get("session_id")
    return Options(
        cwd=place.cwd,
        home=place.home,
        model=flags.get("model"),
        effort=flags.get("effort"),
        permission_mode=_mode(flags),
        add_dirs=tuple(_directory(place, given) for given in flags.get("add_dir") or ()),
        allowed_tools=_rules(flags.get("allowed_tools") or ()),
        disallowed_tools=_rules(flags.get("disallowed_tools") or ()),
        settings_file=place.settings,
        mcp_config=tuple(_json_or_path(place, given) for given in flags.get("mcp_config") or ()),
        strict_mcp_config=bool(flags.get("strict_mcp_config")),
        trust=bool(flags.get("trust")),
        budget=Budget(
            usd=flags.get("max_budget_usd"),
            tokens=flags.get("max_tokens"),
            turns=flags.get("max_turns"),
            minutes=None if seconds is None else seconds / 60,
        ),
        session_id=session_id(wanted) if wanted else None,
        resume=flags.get("resume") or None,
        adopt=flags.get("adopt"),
        agents=agents_given(place, flags),
        plugin_dirs=plugins_given(place, flags),
        append_system_prompt=flags.get("append_system_prompt") or "",
        plan_approval=flags.get("plan_approval"),
        backend=flags.get("backend"),
        task_list=dir_stem(listed) if (listed := flags.get("task_list")) is not None else None,
        interactive=interactive,
        ask=flags.get("ask"),
    )


def _mode(flags: Mapping[str, Any]) -> str | None:
    mode = flags.get("permission_mode")
    if not flags.get("dangerously_skip_permissions"):
        return mode
    if mode not in (None, BYPASS):
        raise UsageError("usage", f"--permission-mode {mode} and --dangerously-skip-permissions contradict each other")
    return BYPASS


def _json_or_path(place: Place, given: str) -> str:
    return given if given.lstrip().startswith("{") else str(place.path(given))


def _directory(place: Place, given: str) -> Path:
    path = place.path(given)
    if not path.is_dir():
        raise UsageError("usage", f"there is no directory {path}", looked_at=[("flag", "--add-dir")])
    return path


def _rules(given: tuple[str, ...]) -> tuple[str, ...]:
    """The rules of all flags of one name."""
    return tuple(rule for text in given for rule in split_rules(text))
