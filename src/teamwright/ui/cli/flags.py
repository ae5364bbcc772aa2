"""The flags of a run, shared by the root command and `resume`.

Flags are written in kebab-case; the camelCase spelling of each is accepted too (see `to_kebab`). Imports only click, as
a Tab and `--help` load it.
"""

from __future__ import annotations

import math
import re
from typing import Any

import click

PERMISSION_MODES = ("default", "acceptEdits", "plan", "delegate", "dontAsk", "bypassPermissions")
"""The permission modes, as similar programs spell them; a test compares them with the package `permissions`."""

FORMATS = ("text", "json", "stream-json")

UNATTENDED_CHOICES = ("deny", "wait")
"""The values for requests in a run without a terminal."""

_CAMEL_HUMP = re.compile(r"(?<=[a-z])([A-Z])")


def to_kebab(token: str) -> str:
    """Return a flag or a choice in kebab-case: `allowedTools` becomes `allowed-tools`."""
    return _CAMEL_HUMP.sub(r"-\1", token).lower() if len(token) > 1 else token


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_TIME_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|h|)")


def parse_seconds(text: str) -> float | None:
    """Return a time span in seconds: `90`, `90s`, `10m`, `1h`. Returns None for zero and for any other text."""
    found = _TIME_SPAN.fullmatch(text.strip())
    return float(found[1]) * _UNITS[found[2]] or None if found else None


def parse_time_span(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Parse the value of a flag that takes a time span (click callback)."""
    if value is None:
        return None
    length = parse_seconds(value)
    if length is None:
        raise click.BadParameter(f"{value!r} is not a time span; write 90, 90s, 10m or 1h.")
    return length


def _dollars(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        amount = float(value.removeprefix("$"))
    except ValueError:
        amount = math.nan
    if not (math.isfinite(amount) and amount > 0):
        raise click.BadParameter(f"{value!r} is not an amount above zero.")
    return amount


def _mode(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Return the mode in its standard spelling. An unknown mode is reported later, by `permissions`."""
    return next((mode for mode in PERMISSION_MODES if value is not None and to_kebab(mode) == to_kebab(value)), value)


LOCATION_KEY = "teamwright.place"
"""The key of the click context under which the values of `location_flags` are kept."""


def location_flags(*, hidden: bool = False) -> list[click.Option]:
    """Return the flags for directory, home and settings. After a command they are accepted too, but hidden from its
    help.
    """
    rows: tuple[tuple[list[str], dict[str, Any]], ...] = (
        (["-C", "cwd"], {"metavar": "DIR", "help": "Run as if started in this directory."}),
        (["--home"], {"metavar": "DIR", "help": "Where state is kept (TEAMWRIGHT_HOME; default ~/.teamwright)."}),
        (["--settings"], {"metavar": "FILE", "help": "A settings file, or JSON, with precedence over the others."}),
        (
            ["--database"],
            {"metavar": "URL", "help": "Keep team state in PostgreSQL (TEAMWRIGHT_DATABASE); none: files."},
        ),
        (
            ["--debug"],
            {
                "is_flag": False,
                "flag_value": "all",
                "metavar": "[NAMES]",
                "help": "Show tracebacks, and keep a debug log: of all, or of these categories (model,mcp).",
            },
        ),
    )
    return [
        click.Option(names, callback=_store_location, expose_value=False, hidden=hidden, **row) for names, row in rows
    ]


def _store_location(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value and param.name:
        ctx.meta.setdefault(LOCATION_KEY, {})[param.name] = value


def agent_flags() -> list[click.Option]:
    """Return the flags with definitions of agents for one run."""
    return [
        click.Option(["--agents"], metavar="JSON", help="Types of agents: JSON by name, or a file with it."),
        click.Option(
            ["--plugin-dir"], multiple=True, metavar="DIR", help="Use the parts of the plugin in this directory."
        ),
    ]


RUN_FLAGS: tuple[click.Option, ...] = (
    click.Option(["-p", "--print", "headless"], is_flag=True, help="Headless: print the answer and exit."),
    click.Option(["--model"], metavar="NAME", help="An alias, an id, provider/model, or scripted:FILE."),
    click.Option(
        ["--fallback-model"], metavar="NAMES", help="Models to use, in order, when a model is not available: 'A,B'."
    ),
    click.Option(["--effort"], metavar="LEVEL", help="Thinking effort of the lead: low to max, or a number of tokens."),
    click.Option(
        ["--max-thinking-tokens"],
        type=click.IntRange(min=0),
        metavar="N",
        envvar="MAX_THINKING_TOKENS",
        show_envvar=True,
        help="Let the lead think with N tokens, or at the nearest effort; 0: without thinking.",
    ),
    click.Option(
        ["--thinking"],
        type=click.Choice(["adaptive", "enabled", "disabled"]),
        metavar="HOW",
        help="adaptive or enabled: the model decides; disabled: without thinking.",
    ),
    click.Option(["--permission-mode"], metavar="MODE", callback=_mode, help=f"{', '.join(PERMISSION_MODES)}."),
    click.Option(["--dangerously-skip-permissions"], is_flag=True, help="Allow all but what a deny rule names."),
    click.Option(
        ["--allow-dangerously-skip-permissions"],
        is_flag=True,
        help="Let a client set bypassPermissions later; alone it allows nothing.",
    ),
    click.Option(
        ["--sandbox"],
        type=click.Choice(["off", "auto", "required"]),
        help="Run commands in a sandbox; required: start only with one.",
    ),
    click.Option(["--allowed-tools"], multiple=True, metavar="RULES", help="Allow these: 'Bash(git log *),Read'."),
    click.Option(["--disallowed-tools"], multiple=True, metavar="RULES", help="Deny these calls."),
    click.Option(
        ["--add-dir"],
        multiple=True,
        metavar="DIR",
        help="More directories to work in.",
    ),
    click.Option(
        ["--tools"],
        multiple=True,
        metavar="NAMES",
        help="Only these built-in tools: 'Read,Bash', none ('') or default.",
    ),
    click.Option(["--setting-sources"], metavar="NAMES", help="Settings files to read: user,project,local."),
    click.Option(["--trust"], is_flag=True, help="Trust this repository's own entries for this run."),
    click.Option(["--mcp-config"], multiple=True, metavar="JSON", help="MCP servers: a file, or JSON itself."),
    click.Option(["--strict-mcp-config"], is_flag=True, help="Use only the MCP servers of --mcp-config."),
    click.Option(["--plan-approval"], metavar="WHO", help="Who approves plans of members: lead, human or auto."),
    click.Option(
        ["--teammate-mode", "--backend", "backend"],
        metavar="NAME",
        help="Where members run: auto, in-process, tmux, detached, remote, an adapter.",
    ),
    click.Option(["--task-list"], metavar="NAME", help="Use this task list, which other sessions may share."),
    *agent_flags(),
    click.Option(["--agent"], metavar="TYPE", help="The agent type of the lead of a new session."),
    click.Option(["-n", "--name", "title"], metavar="TITLE", help="The title of the session in lists."),
    click.Option(["--system-prompt"], metavar="TEXT", help="Replace the base of the lead's system prompt."),
    click.Option(["--system-prompt-file"], metavar="FILE", help="The same text, from a file."),
    click.Option(["--append-system-prompt"], metavar="TEXT", help="Append to the system prompt of the lead."),
    click.Option(["--append-system-prompt-file"], metavar="FILE", help="The same text, from a file."),
    click.Option(
        ["--max-turns"], type=click.IntRange(min=1), metavar="N", help="Stop after N model calls of the lead."
    ),
    click.Option(["--max-budget-usd"], metavar="USD", callback=_dollars, help="Limit the cost of the run."),
    click.Option(["--max-tokens"], type=click.IntRange(min=1), metavar="N", help="Limit the tokens of the run."),
    click.Option(
        ["--timeout"], metavar="TIME", callback=parse_time_span, help="Limit the time of the run: 90, 90s, 10m, 1h."
    ),
)
"""The flags of a run, with or without a terminal."""

HEADLESS_FLAGS: tuple[click.Option, ...] = (
    click.Option(["--output-format"], type=click.Choice(FORMATS), metavar="FORMAT", help="text, json or stream-json."),
    click.Option(["--input-format"], type=click.Choice(FORMATS[::2]), metavar="FORMAT", help="text or stream-json."),
    click.Option(
        ["--ask"],
        type=click.Choice(UNATTENDED_CHOICES),
        metavar="HOW",
        help="deny requests, or wait for another terminal.",
    ),
    click.Option(["--json-schema"], metavar="SCHEMA", help="The answer is JSON that fits this schema, or FILE."),
    click.Option(
        ["--permission-prompt-tool"],
        metavar="TOOL",
        help="Tool that answers requests, or stdio.",
    ),
    click.Option(["--include-partial-messages"], is_flag=True, help="stream-json: text of the lead as it arrives."),
    click.Option(["--replay-user-messages"], is_flag=True, help="stream-json: repeat each prompt of stdin."),
    click.Option(["--session-mirror"], is_flag=True, help="stream-json: lines of transcripts for a store."),
    click.Option(["--verbose"], is_flag=True, help="Print one line per event on stderr."),
    click.Option(["--report"], metavar="FILE", help="Write the run as Markdown."),
    click.Option(["--init"], is_flag=True, help="Run hooks of Setup with the trigger init first."),
    click.Option(["--maintenance"], is_flag=True, help="Run hooks of Setup with the trigger maintenance first."),
    click.Option(["--no-session-persistence"], is_flag=True, help="Remove the session when the run ends."),
    click.Option(["--strict"], is_flag=True, help="Exit with 5 after denied requests, failed members, open tasks."),
)
"""The flags that are valid only in a headless run."""

START_FLAGS: tuple[click.Option, ...] = (
    click.Option(["-c", "--continue", "latest"], is_flag=True, help="Continue the newest session of this directory."),
    click.Option(
        ["-r", "--resume", "resume"],
        is_flag=False,
        flag_value="",
        metavar="[ID]",
        help="Continue this session; without ID choose from a list.",
    ),
    click.Option(["--fork-session"], is_flag=True, help="With -c or -r: continue in a copy of that session."),
    click.Option(["--resume-session-at"], metavar="UUID", help="With -c or -r: only up to this message."),
    click.Option(
        ["--resume-drops-turn"], metavar="UUID", help="Refuse if that leaves out more than the turn of this prompt."
    ),
    click.Option(["--no-markdown"], is_flag=True, help="Show text of agents as it was written."),
    click.Option(["--plain"], is_flag=True, help="For screen readers: text alone, no redraws and no colours."),
    click.Option(["--session-id"], metavar="UUID", help="The id that the new session gets."),
    click.Option(
        ["-w", "--worktree", "worktree"],
        is_flag=False,
        flag_value="",
        metavar="[NAME]",
        help="Work in a git worktree on a separate branch: a new one, or the one of this NAME.",
    ),
)
"""The flags of the root command alone, which start a session."""
