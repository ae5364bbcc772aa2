"""`teamwright mcp`: MCP servers in settings files, and logins at them; `teamwright import`: those of another product.

A login opens the browser and is stored for all sessions. Starts no server; tokens are never printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import click

from teamwright.config.mcp_settings import reading_of
from teamwright.config.project_mcp_file import FILE, SERVERS, project_servers
from teamwright.config.settings.edit import SettingTarget, Target, set_value, unset_value
from teamwright.config.settings.files import SettingsFiles
from teamwright.config.settings.show import SettingsQuery
from teamwright.config.trust import repository_of, require_person
from teamwright.mcp.login_store import LoginStore
from teamwright.mcp.server_config import ServerConfig, parse_entry
from teamwright.member_process.mcp_login import DOES, LOGIN_S, LoginRequest, log_in
from teamwright.processes.program_environment import own_variables
from teamwright.protocol.errors import UsageError
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli.output import json_flag, note, say, say_facts, say_json, say_table
from teamwright.ui.cli.run_location import is_on_terminal, run_location
from teamwright.ui.display_text import one_line
from teamwright.views.configuration import (
    ImportableServer,
    McpServerView,
    find_mcp_servers,
    importable_servers,
    load_server_config,
    mcp_server_views,
)


@click.group(invoke_without_command=True)
@click.pass_context
def mcp(ctx: click.Context, /) -> int:
    """Add, list, show and remove MCP servers."""
    if ctx.invoked_subcommand is None:
        return int(ctx.invoke(list_command))
    return 0


SCOPES: dict[str, Target] = {"local": "local", "project": "project", "user": "user"}

_PLACES = {"user": "userSettings", "project": "projectSettings", "local": "localSettings"}
_UNCHANGED = "nothing was changed"

_scope = click.option(
    "-s",
    "--scope",
    type=click.Choice(list(SCOPES)),
    help="Whose file: this checkout's (local), the repository's (project), your own (user).",
)


@mcp.command("add")
@click.argument("name")
@click.argument("target", metavar="COMMAND_OR_URL")
@click.argument("args", nargs=-1)
@click.option(
    "-t",
    "--transport",
    type=click.Choice(["stdio", "http", "sse"]),
    help="Default: http for an address, stdio for a command.",
)
@click.option("-e", "--env", "env", multiple=True, metavar="NAME[=VALUE]", help="Variable of the program; repeatable.")
@click.option("-H", "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="HTTP header; repeatable.")
@_scope
@click.pass_context
def add_command(ctx: click.Context, /, name: str, target: str, args: tuple[str, ...], **flags: Any) -> int:
    """Add a server: a command with its arguments after `--`, or an address.

    A secret need not be typed: `--env NAME` stores a reference to the variable, as does `${NAME}` in any value.
    """
    is_address = target.startswith(("http://", "https://"))
    transport = flags["transport"] or ("http" if is_address else "stdio")
    if transport == "stdio":
        _refuse(flags["headers"], "--header is for servers with an address: --transport http or sse")
        entry: dict[str, Any] = {"command": target, "args": list(args)}
        if flags["env"]:
            entry["env"] = dict(_variable(text) for text in flags["env"])
    else:
        _refuse(flags["env"], "--env is for commands; a server with an address gets --header")
        _refuse(args, f"a server with an address has no arguments, and {' '.join(args)[:80]!r} was given")
        entry = {"type": transport, "url": target}
        if flags["headers"]:
            entry["headers"] = dict(_header(text) for text in flags["headers"])
    return _add(ctx, name, entry, flags["scope"])


@mcp.command("add-json")
@click.argument("name")
@click.argument("entry", metavar="JSON")
@_scope
@click.pass_context
def add_json_command(ctx: click.Context, /, name: str, entry: str, scope: str | None) -> int:
    """Add a server by its entry of `mcpServers`, as JSON."""
    try:
        read: Any = json.loads(entry)
    except (ValueError, RecursionError) as problem:
        do = [f'teamwright mcp add-json {name[:40]} \'{{"command": "…", "args": []}}\'']
        raise UsageError("usage", f"the entry is not JSON: {str(problem)[:100]}", do=do, note=_UNCHANGED) from None
    return _add(ctx, name, read, scope)


def _refuse(options: Sequence[str], why: str) -> None:
    if options:
        raise UsageError("usage", why, do=["teamwright mcp add --help"], note=_UNCHANGED)


def _variable(text: str) -> tuple[str, str]:
    """Return name and value; a name alone is a reference to that variable."""
    name, equals, value = text.partition("=")
    return name, value if equals else f"${{{name}}}"


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        do = ["--header 'Authorization: Bearer ${TOKEN}'"]
        raise UsageError("usage", "a header has the form NAME: VALUE", do=do, note=_UNCHANGED)
    return name.strip(), value.strip()


def _add(ctx: click.Context, name: str, entry: object, scope: str | None) -> int:
    place = run_location(ctx)
    target = SettingTarget(resolve_home(place.home), place.cwd, SCOPES[scope or "local"])
    root = repository_of(place.cwd)
    path = str(SettingsFiles(target.home, root).file_of(_PLACES[target.target])[0])
    if any(view.name == name and view.file == path for view in mcp_server_views(_query(ctx))):
        do = [f"teamwright mcp remove {name} --scope {target.target}", "choose another name"]
        what = f"there is an MCP server {name[:80]!r} in {path}"
        raise UsageError("usage", what, do=do, note=_UNCHANGED)
    variables = dict(os.environ)
    withheld = None if target.target == "user" else frozenset[str]()
    read = parse_entry(name, entry, reading_of(path, root, place.cwd, variables, withheld))
    if read.is_broken:
        raise UsageError("usage", f"the MCP server {name[:80]!r}: {read.reason}", note=_UNCHANGED)
    done = set_value(target, f"{SERVERS}.{name}", json.dumps(entry))
    say(f"Added {one_line(name)} to {one_line(done.file)}")
    if read.config is None:
        say(f"It is left out for now: {one_line(read.reason)}")
    if done.waits:
        say("It takes effect once this repository is trusted: teamwright trust")
    return 0


@mcp.command("list")
@json_flag
@click.pass_context
def list_command(ctx: click.Context, /, as_json: bool) -> int:
    """List the servers of this directory with their files. Starts none of them."""
    query = _query(ctx)
    found = mcp_server_views(query)
    if problem := project_servers(repository_of(query.cwd)).problem:
        note(f"no server of {FILE} is used: {problem}")
    if as_json:
        say_json(found)
        return 0
    if not found:
        say("No MCP server is configured here. To add one: teamwright mcp add NAME -- COMMAND")
        return 0
    say_table(["NAME", "STATE", "TRANSPORT", "TARGET"], [[v.name, v.state, v.transport, v.target] for v in found])
    return 0


@mcp.command("get")
@click.argument("name")
@json_flag
@click.pass_context
def get_command(ctx: click.Context, /, name: str, as_json: bool) -> int:
    """Show the entry of NAME and its file. Values of `env` and `headers` are masked."""
    found = find_mcp_servers(_query(ctx), name)
    if as_json:
        say_json(found)
        return 0
    for number, view in enumerate(found):
        if number:
            say()
        _show_server(view)
    return 0


def _show_server(view: McpServerView) -> None:
    where = f"{view.file}:{view.line}" if view.line else view.file
    state = f"{view.state}: {view.why}" if view.why else view.state
    pairs = [("name", view.name), ("state", state), ("transport", view.transport), ("target", view.target)]
    for key in ("env", "headers"):
        entry_value = view.entry.get(key)
        if isinstance(entry_value, dict):
            pairs += [(key, f"{one}={value}") for one, value in cast("dict[str, Any]", entry_value).items()]
    say_facts([*pairs, ("file", where)])


@mcp.command("remove")
@click.argument("name")
@_scope
@click.pass_context
def remove_command(ctx: click.Context, /, name: str, scope: str | None) -> int:
    """Remove the entry of NAME from a settings file, and the stored login with the last entry."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    files = SettingsFiles(home, repository_of(place.cwd))
    found = find_mcp_servers(_query(ctx), name)
    paths: dict[Target, str] = {target: str(files.file_of(_PLACES[target])[0]) for target in SCOPES.values()}
    inside = {view.file for view in found}
    having: list[Target] = [target for target, path in paths.items() if path in inside and scope in {None, target}]
    if not having:
        others = ", ".join(sorted(inside))
        do = [f"edit the file, which other programs read too: {others}"] if scope is None else []
        where = f"the file of --scope {scope}" if scope else "a file that this command changes"
        what = f"the MCP server {name[:80]!r} is not in {where}"
        raise UsageError("usage", what, looked_at=[("defined in", others)], do=do, note=_UNCHANGED)
    if len(having) > 1:
        do = [f"teamwright mcp remove {name} --scope {target}" for target in having]
        raise UsageError("usage", f"{name[:80]!r} is in several files", do=do, note=_UNCHANGED)
    used = _used_server(ctx, name)
    done = unset_value(SettingTarget(home, place.cwd, having[0]), f"{SERVERS}.{name}")
    say(f"Removed {one_line(name)} from {one_line(done.file)}")
    for view in found:
        if view.file != done.file:
            location = FILE if view.file.endswith(FILE) else one_line(view.file)
            say(f"An entry with this name remains in {location}")
    _remove_login(ctx, used)
    return 0


def _used_server(ctx: click.Context, name: str) -> ServerConfig | None:
    """Return the server of that name as a run here would use it; None when no entry is used."""
    try:
        return load_server_config(_query(ctx), name)
    except UsageError:
        return None


def _remove_login(ctx: click.Context, removed: ServerConfig | None) -> None:
    """Remove the login at a removed server, unless another entry of that name has the same address."""
    if removed is None:
        return
    left = _used_server(ctx, removed.name)
    logins = LoginStore(resolve_home(run_location(ctx).home).mcp_logins)
    if (left is None or left.url != removed.url) and logins.remove(removed):
        say(f"The stored login at {one_line(removed.name)} was removed too")


def _query(ctx: click.Context) -> SettingsQuery:
    place = run_location(ctx)
    return SettingsQuery(resolve_home(place.home), place.cwd, place.settings)


# ── logins ─────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET_VARIABLE = "MCP_CLIENT_SECRET"
"""The variable with the secret of a client that was registered beforehand."""


@mcp.command("login")
@click.argument("name")
@click.option("--client-id", default="", help="The id of a client that you registered at the service.")
@click.option("--callback-port", type=click.IntRange(0, 65535), default=0, help="Port of the redirect; default: any.")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option("--timeout", type=click.FloatRange(min=1), default=LOGIN_S, help="Seconds to wait for you; default 300.")
@click.pass_context
def login_command(
    ctx: click.Context, /, name: str, client_id: str, callback_port: int, no_browser: bool, timeout: float
) -> int:
    """Log in to the server NAME with OAuth: in a browser, with a redirect to this machine.

    The tokens are stored in the home and are refreshed by sessions.
    """
    home = resolve_home(run_location(ctx).home)
    require_person(home, DOES)
    config = load_server_config(_query(ctx), name)
    opens = not no_browser and is_on_terminal()

    def show(address: str) -> None:
        note(f"Open this address to log in to {one_line(name)}:")
        note(address)
        if opens:
            own = own_variables(os.environ)  # the module looks for browsers on the PATH
            os.environ.clear()
            os.environ.update(own)
            webbrowser.open(address)

    request = LoginRequest(callback_port, client_id, os.environ.get(SECRET_VARIABLE, ""), timeout)
    tools = asyncio.run(log_in(home, config, request, show))
    say(f"Logged in to {one_line(name)}: {tools} tools")
    return 0


@mcp.command("logout")
@click.argument("name")
@click.pass_context
def logout_command(ctx: click.Context, /, name: str) -> int:
    """Remove the stored login at the server NAME."""
    home = resolve_home(run_location(ctx).home)
    require_person(home, DOES)
    config = load_server_config(_query(ctx), name)
    if not LoginStore(home.mcp_logins).remove(config):
        raise UsageError("usage", f"there is no login at {name[:80]!r}", note="nothing was changed")
    say(f"The login at {one_line(name)} was removed. To end it at the service too, use the page of your account there.")
    return 0


# ── import ─────────────────────────────────────────────────────────────────────────────────────────────────────

_FILE_TEXTS = {"user": "your own settings", "local": "the settings of this checkout"}


@click.command("import")
@click.option("--from", "file", metavar="FILE", default="~/.claude.json", help="Default: ~/.claude.json.")
@click.option("--yes", is_flag=True, help="Take over what is shown, without asking: for scripts.")
@json_flag
@click.pass_context
def import_command(ctx: click.Context, /, file: str, yes: bool, as_json: bool) -> int:
    """Show the MCP servers that another product has for you and for this directory, and take them over."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    path = Path(os.path.normpath(place.cwd / os.path.expanduser(file)))
    found = importable_servers(path, _query(ctx))
    if as_json and not yes:
        say_json([_importable_json(row) for row in found])
        return 0
    _show_importable(found)
    fresh = [row for row in found if row.state == "new"]
    if not fresh:
        say("There is nothing to take over.")
        return 0
    if not yes and not is_on_terminal():
        say("Nothing was changed. From a script: teamwright import --yes")
        return 1
    require_person(home, "takes servers over", "import")
    if not yes and not click.confirm(f"Take over {len(fresh)} of them", default=False, err=True):
        say("Nothing was changed.")
        return 1
    for row in fresh:
        done = set_value(SettingTarget(home, place.cwd, row.target), f"{SERVERS}.{row.name}", json.dumps(row.entry))
        say(f"Added {one_line(row.name)} to {one_line(done.file)}")
        if done.waits:
            say("It takes effect once this repository is trusted: teamwright trust")
    return 0


def _show_importable(found: list[ImportableServer]) -> None:
    for origin in dict.fromkeys(row.origin for row in found):
        say(f"from {one_line(origin)}")
        for row in (row for row in found if row.origin == origin):
            remark = f"to {_FILE_TEXTS[row.target]}" if row.state == "new" else f"left out: {row.why}"
            say(f"  {one_line(row.name)}: {one_line(row.what)}   ({one_line(remark)})")


def _importable_json(row: ImportableServer) -> dict[str, object]:
    keys = ("name", "origin", "target", "what", "state", "why")
    return {key: getattr(row, key) for key in keys}
