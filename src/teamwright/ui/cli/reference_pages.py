"""Render the lines of the reference that come from commands, settings, events, errors and formats: `make generated`.

On most pages they are between two comments; the other lines are written by hand. Depends on click and the tables that
it renders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from typing import Any, get_args

import click

from teamwright.agent.agent_type import LEAD_ONLY
from teamwright.agent.plan_mode import PlanRecord
from teamwright.backends.terminal_adapter import TerminalAdapter
from teamwright.config.agent_type_fields import FIELDS
from teamwright.config.settings.keys import setting_keys
from teamwright.config.team_file import CHECKS, ROLE, ROLE_NEEDS_TRUST, TEAM, TEAM_NEEDS_TRUST
from teamwright.models.model_settings import CustomProvider, ModelFacts
from teamwright.models.names import catalog, prices_date
from teamwright.protocol.errors import SLUGS
from teamwright.protocol.events import LIVE, TeamEvent
from teamwright.protocol.field_docs import field_texts
from teamwright.protocol.members import MemberState
from teamwright.sandbox.command_needs import PROGRAMS, SUBCOMMANDS, CommandNeeds
from teamwright.session.spawn_file import SpawnFile
from teamwright.team_records.team_state import Incarnation
from teamwright.tools.built_in import ENTRIES_FILE
from teamwright.ui.cli.about import EXIT_CODES, explain_errors
from teamwright.ui.cli.api_reference_page import render_api
from teamwright.ui.cli.command_examples import EXAMPLES
from teamwright.ui.cli.command_table import COMMANDS
from teamwright.ui.cli.flags import HEADLESS_FLAGS, RUN_FLAGS, START_FLAGS
from teamwright.ui.cli.root import root
from teamwright.ui.terminal.keys import KEY_TABLE
from teamwright.ui.terminal.line_parser import ALIASES
from teamwright.ui.terminal.line_parser import COMMANDS as TERMINAL_COMMANDS
from teamwright.worktrees.integration_store import IntegrationEntry
from teamwright.worktrees.worktree_record import WorktreeRecord

BEGIN = "<!-- generated: `make generated` writes the lines up to the next comment -->"
END = "<!-- end of the generated lines -->"

_PART = re.compile(rf"^{re.escape(BEGIN)}\n.*?^{re.escape(END)}$", re.MULTILINE | re.DOTALL)
_COMMON_KEYS = frozenset({"member", "at", "origin", "facts", "responder"})
_SHARED = frozenset(id(option) for option in (*RUN_FLAGS, *HEADLESS_FLAGS))


def replace_part(page: str, part: str) -> str:
    """Return the page with its generated lines replaced by `part`.

    Raises ValueError if the page does not have exactly one place for them.
    """
    if len(_PART.findall(page)) != 1:
        raise ValueError(f"the page needs one place for generated lines: {page[:60]!r}")
    return _PART.sub(lambda _: f"{BEGIN}\n\n{part.strip()}\n\n{END}", page)


_SETTINGS_LINKS = (
    ("hooks", "hooks", "../hooks.md"),
    ("skills.enabled", "skills", "../skills.md"),
    ("plan_approval", "plans", "../plans.md"),
    ("members.backend", "backends", "../backends.md"),
    ("members.adapters", "terminal adapters", "../backends.md#terminal-adapters"),
    ("members.commands", "external members", "../external-members.md"),
    ("budget.agent.usd", "budgets", "../budgets.md"),
    ("bash.pass_env", "the environment of commands", "../shell.md#the-environment-of-commands"),
    ("bash.shell", "the shell", "../shell.md"),
    ("sandbox.mode", "the sandbox", "../sandbox.md"),
    ("notify.terminal", "notifications", "../terminal.md#notifications"),
    ("web_search.service", "web search", "../web-search.md"),
    ("side_calls.prompt_suggestion", "side calls", "../side-calls.md"),
    ("mcpServers", "MCP servers", "../mcp.md"),
    ("database", "PostgreSQL", "../database.md"),
    ("providers", "providers", "../providers.md#facts-about-models"),
)
"""Keys with a page about them: the key, and the title and link of the page."""


RECORDS = {
    "team": Incarnation,
    "spawn": SpawnFile,
    "plans": PlanRecord,
    "worktrees": WorktreeRecord,
    "integration": IntegrationEntry,
}
"""Pages of formats with a table of keys, from the docstrings of a class."""


def reference_pages(reference: Path) -> dict[Path, str]:
    """Return the contents that the pages with generated lines must have, by path.

    `reference` is the directory docs/reference, whose pages are read for their other lines.
    """
    parts = {reference / "cli" / f"{name}.md": render_command(name) for name in COMMANDS}
    parts[reference / "cli" / "teamwright.md"] = render_root()
    parts[reference / "formats" / "settings.md"] = render_settings()
    parts[reference / "formats" / "events.md"] = render_events()
    parts[reference / "terminal.md"] = render_keys()
    parts[reference / "providers.md"] = "\n\n".join(
        (render_fields(CustomProvider, "key of a provider"), render_fields(ModelFacts, "fact"), render_models())
    )
    parts[reference / "cli" / "status.md"] += "\n\n" + render_fields(MemberState, "state")
    for page, kind in RECORDS.items():
        parts[reference / "formats" / f"{page}.md"] = render_fields(kind, "key")
    parts[reference / "formats" / "agents.md"] = _table(
        "field", "meaning", [(f"`{name}`", field.meaning) for name, field in FIELDS.items()]
    )
    parts[reference / "formats" / "team-file.md"] = render_team_keys()
    parts[reference / "backends.md"] = render_fields(TerminalAdapter, "key")
    parts[reference / "script-format.md"] = render_tools()
    parts[reference / "exit-codes.md"] = render_exit_codes()
    parts[reference / "api.md"] = render_api()
    parts[reference / "command-needs.md"] = render_command_needs()
    parts[reference / "errors.md"] = render_errors()
    return {page: replace_part(page.read_text("utf-8"), part) for page, part in parts.items()}


def render_exit_codes() -> str:
    """Return the generated lines of the page of exit codes: each code with its meaning and the slugs of its errors."""
    rows = ["| code | meaning | slugs |", "|---:|---|---|"]
    for code, meaning in EXIT_CODES.items():
        slugs = " ".join(f"`{slug}`" for slug, row in SLUGS.items() if row.exit_code == code)
        rows.append(f"| {code} | {meaning} | {slugs} |")
    return "\n".join(rows)


def render_command_needs() -> str:
    """Return a table of the programs that get a network or credentials by name."""
    commands: dict[tuple[CommandNeeds, tuple[str, ...]], list[str]] = {}
    for name, needs in PROGRAMS.items():
        commands.setdefault((needs, ()), []).append(f"`{name}`")
    for name, choices in SUBCOMMANDS.items():
        for needs in dict.fromkeys(choices.values()):
            below = tuple(one for one, same in choices.items() if one and same == needs)
            commands.setdefault((needs, below), []).append(f"`{name}`")
    rows = [
        (f"{', '.join(names)}{' with ' * bool(below)}{' '.join(f'`{one}`' for one in below)}", _needs_text(needs))
        for (needs, below), names in commands.items()
    ]
    return _table("command", "what it gets", rows)


def _needs_text(needs: CommandNeeds) -> str:
    network = "the whole network" if needs.whole_network else "hosts" if needs.network else ""
    paths = [f"`~/{path}`" for path in sorted(needs.credentials)] + [f"`{path}`" for path in sorted(needs.sockets)]
    agents = [
        f"the agent of {name}" for name, is_needed in (("ssh", needs.agent), ("gpg", needs.gpg_agent)) if is_needed
    ]
    config = ["the repository's git configuration"] if needs.git_config else []
    return ", ".join(filter(None, (network, *paths, *agents, *config)))


def render_errors() -> str:
    """Return the generated lines of the page of errors: a section for each slug."""
    return "\n\n".join(f"## {slug}\n\n{text}" for slug, text in explain_errors().items())


def render_fields(kind: type[Any], head: str) -> str:
    """Return a table of the fields of a class, or the values of an enum, that have a docstring."""
    is_enum = issubclass(kind, Enum)
    names = {name: str(getattr(kind, name)) if is_enum else name for name in field_texts(kind)}
    rows = [(f"`{names[name]}`", text) for name, text in field_texts(kind).items()]
    return _table(head, "meaning", rows)


def render_team_keys() -> str:
    """Return tables with the keys of the team file, and whether they take effect before trust."""
    tables = (
        ("[team]", TEAM, TEAM_NEEDS_TRUST),
        ("[checks]", CHECKS, frozenset(CHECKS)),
        ("[roles.NAME]", ROLE, ROLE_NEEDS_TRUST),
    )
    parts: list[str] = []
    for title, keys, trusted in tables:
        rows = [f"| `{key}` | {row.meaning} | {'no' if key in trusted else 'yes'} |" for key, row in keys.items()]
        parts.append("\n".join((f"| key in `{title}` | meaning | before trust |", "|---|---|---|", *rows)))
    return "\n\n".join(parts)


def render_tools() -> str:
    """Return the generated lines of the page of script files: a table of the tools and their inputs."""
    rows = ["| tool | `input`; `?` may be left out |", "|---|---|"]
    entries: list[dict[str, Any]] = list(json.loads(ENTRIES_FILE.read_text("utf-8")).values())
    schemas = {entry["name"]: entry["input_schema"] for entry in sorted(entries, key=_inputs)}  # the largest of a name
    for name in sorted(schemas.keys() - LEAD_ONLY):
        needed = schemas[name].get("required", ())
        keys = [f"`{key}`" if key in needed else f"`{key}?`" for key in schemas[name]["properties"]]
        rows.append(f"| `{name}` | {' '.join(keys) or '–'} |")
    return "\n".join(rows)


def _inputs(entry: dict[str, Any]) -> int:
    return len(entry["input_schema"]["properties"])


def render_events() -> str:
    """Return the generated lines of the page of events: a table of the logged types, their keys and meanings."""
    rows = ["| type | keys | meaning |", "|---|---|---|"]
    for kind in get_args(TeamEvent):
        if kind not in LIVE:
            keys = [name for name in kind.__struct_fields__ if name not in _COMMON_KEYS]
            about = _escape(" ".join((kind.__doc__ or "").split()))
            rows.append(f"| `{kind.KIND}` | {' '.join(f'`{key}`' for key in keys)} | {about} |")
    return "\n".join(rows)


def render_models() -> str:
    """Return the generated lines of the page of providers: the models of the catalogue, with window, price and effort.

    Windows and answers are in tokens, prices in USD per million tokens.
    """
    rows = [f"Looked up on {prices_date()}. Prices are in USD per million tokens.", ""]
    rows += ["| model | window | longest answer | in | out | effort |", "|---|---|---|---|---|---|"]
    others: dict[str, dict[str, Any]] = catalog()["others"]
    for prefix, models in (("", catalog()["models"]), *((f"{name}/", models) for name, models in others.items())):
        for name, facts in models.items():
            smallest = f"{facts['budget_from']:,} tokens or more" if "budget_from" in facts else ""
            effort = ", ".join(filter(None, (" ".join(facts.get("effort", ())), smallest)))
            sizes = f"{facts['context_tokens']:,} | {facts['max_output_tokens']:,}"
            rows.append(f"| `{prefix}{name}` | {sizes} | {facts['usd_in']} | {facts['usd_out']} | {effort} |")
    return "\n".join(rows)


def render_keys() -> str:
    """Return the generated lines of the page about the terminal: tables of the keys, the commands and their aliases."""
    keys = [(f"`{key.name}`", key.about) for key in KEY_TABLE]
    commands = [(f"`{usage}`", about) for usage, about in TERMINAL_COMMANDS.items()]
    aliases = [(f"`{name}`", f"`{command}`") for name, command in ALIASES.items()]
    return "\n\n".join(
        (_table("key", "effect", keys), _table("command", "effect", commands), _table("alias", "command", aliases))
    )


def _table(left: str, right: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {_escape(one)} | {_escape(other)} |" for one, other in rows]
    return "\n".join((f"| {left} | {right} |", "|---|---|", *lines))


def render_root() -> str:
    """Return the generated lines of the page `teamwright.md`: commands, and flags in three groups."""
    ctx = root.make_context("teamwright", [], resilient_parsing=True)
    places = [param for param in root.params if param not in (*RUN_FLAGS, *HEADLESS_FLAGS, *START_FLAGS)]
    parts = [_synopsis(root, ctx), cleandoc(root.help or ""), *_command_tables()]
    for title, params in (
        ("Flags of every run", RUN_FLAGS),
        ("Flags for a new or an earlier session", START_FLAGS),
        ("Flags of headless runs", HEADLESS_FLAGS),
        ("Flags of every command", places),
    ):
        parts += [f"## {title}", _flag_table(params, ctx)]
    return "\n\n".join(parts)


def render_command(name: str) -> str:
    """Return the generated lines of the page of one command: usage, help, flags, subcommands and examples."""
    with root.make_context("teamwright", [], resilient_parsing=True) as parent:
        command = root.get_command(parent, name)
        if command is None:
            raise ValueError(f"unknown command {name!r}")
        parts = list(_command_parts(command, name, parent))
    rows = [f"| `teamwright {_escape(line)}` | {effect} |" for line, effect in EXAMPLES.get(name, ())]
    if rows:
        parts.append("\n".join(("| example | effect |", "|---|---|", *rows)))
    return "\n\n".join(parts)


def render_settings() -> str:
    """Return the generated lines of the page of settings: a table of all keys."""
    rows = ["| key | value | meaning |", "|---|---|---|"]
    for key, row in setting_keys().items():
        default = row.default
        own = "; your own files only" if row.user_only else ""
        about = [row.meaning]
        if default is not None:
            about.append(f"Default `{default if isinstance(default, str) else json.dumps(default)}`.")
        about += [f"See [{title}]({link})." for start, title, link in _SETTINGS_LINKS if key == start]
        rows.append(f"| `{key}` | {_escape(row.expected)}{own} | {_escape(' '.join(about))} |")
    return "\n".join(rows)


def _command_tables() -> Iterator[str]:
    sections: dict[str, list[str]] = {}
    for name, row in COMMANDS.items():
        sections.setdefault(row.section, []).append(f"| [{name}]({name}.md) | {_escape(row.help)} |")
    for section, rows in sections.items():
        yield "\n".join((f"| {section.lower()} | |", "|---|---|", *rows))


def _command_parts(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    ctx = click.Context(command, parent=parent, info_name=name)
    yield _synopsis(command, ctx)
    yield cleandoc(command.help or "").replace("\b\n", "")
    params = [param for param in command.params if id(param) not in _SHARED]
    if table := _flag_table(params, ctx):
        yield table
    shared = [max(param.opts, key=len) for param in command.params if id(param) in _SHARED]
    if shared:
        names = " ".join(f"`{flag}`" for flag in shared)
        yield f"These flags are described at [teamwright](teamwright.md#flags-of-every-run): {names}."
    if isinstance(command, click.Group):
        for below in command.list_commands(ctx):
            subcommand = command.get_command(ctx, below)
            if subcommand is not None and not subcommand.hidden:
                yield f"## {ctx.command_path.removeprefix('teamwright ')} {below}"
                yield from _command_parts(subcommand, below, ctx)


def _synopsis(command: click.Command, ctx: click.Context) -> str:
    usage = " ".join(command.get_usage(ctx).removeprefix("Usage: ").split())
    return f"```text\n{usage}\n```"


def _flag_table(params: list[click.Parameter] | tuple[click.Option, ...], ctx: click.Context) -> str:
    records = [param.get_help_record(ctx) for param in params if isinstance(param, click.Option)]
    rows = [f"| `{_escape(names)}` | {_escape(about)} |" for names, about in filter(None, records)]
    return "\n".join(("| flag | meaning |", "|---|---|", *rows)) if rows else ""


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
