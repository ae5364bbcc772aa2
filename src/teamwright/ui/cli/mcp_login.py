"""`teamwright mcp login` and `mcp logout`: a login in the browser at an MCP server, stored for all sessions.

Depends on `session.mcp_login`. Tokens are never printed.
"""

from __future__ import annotations

import asyncio
import os
import webbrowser

import click

from teamwright.config.person_check import require_person
from teamwright.config.setting_values import SettingsQuery
from teamwright.mcp.login_store import LoginStore
from teamwright.protocol.errors import UsageError
from teamwright.session.mcp_login import DOES, LOGIN_S, LoginRequest, log_in
from teamwright.teams.status.team_views import resolve_home
from teamwright.ui.cli.output import note, say
from teamwright.ui.cli.run_location import run_location
from teamwright.ui.display_text import one_line
from teamwright.ui.invocation import is_on_terminal
from teamwright.views.mcp_servers import load_server_config

SECRET_VARIABLE = "MCP_CLIENT_SECRET"
"""The variable with the secret of a client that was registered beforehand."""


@click.command("login")
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
    place = run_location(ctx)
    home = resolve_home(place.home)
    require_person(home, DOES)
    config = load_server_config(SettingsQuery(home, place.cwd, place.settings), name)
    opens = not no_browser and is_on_terminal()

    def show(address: str) -> None:
        note(f"Open this address to log in to {one_line(name)}:")
        note(address)
        if opens:
            webbrowser.open(address)

    request = LoginRequest(callback_port, client_id, os.environ.get(SECRET_VARIABLE, ""), timeout)
    tools = asyncio.run(log_in(home, config, request, show))
    say(f"Logged in to {one_line(name)}: {tools} tools")
    return 0


@click.command("logout")
@click.argument("name")
@click.pass_context
def logout_command(ctx: click.Context, /, name: str) -> int:
    """Remove the stored login at the server NAME."""
    place = run_location(ctx)
    home = resolve_home(place.home)
    require_person(home, DOES)
    config = load_server_config(SettingsQuery(home, place.cwd, place.settings), name)
    if not LoginStore(home.mcp_logins).remove(config):
        raise UsageError("usage", f"there is no login at {name[:80]!r}", note="nothing was changed")
    say(f"The login at {one_line(name)} was removed. To end it at the service too, use the page of your account there.")
    return 0
