"""A login with OAuth at a server of this machine: by a browser, stored privately, refreshed, shared, never shown."""

import asyncio
import json
import logging
import os
import socket

import pytest
from msgspec.structs import replace

from teamwright.mcp.json_rpc import McpServerError
from teamwright.mcp.login_store import LoginStore
from teamwright.mcp.server import McpServer
from teamwright.member_process.mcp_login import LoginRequest, log_in
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.secret_texts import encoded_forms
from teamwright.storage.paths import find_home
from tests.mcp.conftest import words
from tests.mcp.sdk_processes import ask, open_page, vault
from tests.support.waits import WAIT_S


@pytest.fixture
def home(tmp_path):
    home = find_home(str(tmp_path / "home"))
    home.prepare()
    return home


class Login:
    """The logins at one server, with a browser that is open."""

    def __init__(self, place, home, url: str) -> None:
        self.place, self.home, self.url = place, home, url
        self.config = place.config("vault", url=url, type="http")
        self.store = LoginStore(home.mcp_logins)
        self.pages: list[asyncio.Task[str]] = []

    async def __call__(self) -> int:
        def show(address: str) -> None:
            self.pages.append(asyncio.ensure_future(asyncio.to_thread(open_page, address)))

        tools = await log_in(self.home, self.config, LoginRequest(timeout_s=WAIT_S), show)
        assert [page.result() if page.done() else await page for page in self.pages][-1].startswith("You are logged in")
        return tools

    def server(self) -> McpServer:
        return McpServer(self.config, replace(self.place.around(), logins=self.store))


@pytest.mark.finding("C5")
@pytest.mark.promise("H7")
@pytest.mark.slow_after(1)
async def test_a_login_is_stored_privately_and_opens_the_server_for_later_sessions(place, home, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with vault() as url:
        login = Login(place, home, url)
        with pytest.raises(McpServerError, match="teamwright mcp login vault"):
            await login.server().connect()
        assert await login() == 2
        [file] = home.mcp_logins.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
        server = login.server()
        assert words(await server.call_tool("secret", {})) == "the vault is open"
        await server.close()
        shown = caplog.text + "".join(capfd.readouterr()) + repr(login.store.load(login.config)) + "".join(place.said)
        assert not [token for token in ask(url) if token in shown]
        assert login.store.remove(login.config) and not login.store.remove(login.config)


@pytest.mark.finding("T39")
@pytest.mark.promise("H7")
@pytest.mark.slow_after(1)
async def test_a_server_that_sends_its_tokens_back_shows_them_to_no_agent_and_in_no_log(place, home):
    with vault(lasts_s=1) as url:  # below the margin: the session refreshes at once, and masks the former token too
        login = Login(place, home, url)
        await login()
        server = login.server()
        shown = [json.dumps(await server.call_tool("leak", {"how": how})) for how in ("plain", "encoded", "error")]
        await server.close()
        tokens = ask(url)
    text = "".join([*shown, *place.said])
    stored = login.store.load(login.config)
    assert stored is not None and stored.tokens["access_token"] in tokens
    assert "****" in shown[0]
    assert not [form for token in tokens for form in (token, *encoded_forms(token)) if form in text]


@pytest.mark.finding("C5")
@pytest.mark.slow
async def test_an_expired_token_is_refreshed_and_a_second_session_takes_the_new_one(place, home):
    with vault(lasts_s=1) as url:  # below the margin: each start of a session refreshes
        login = Login(place, home, url)
        await login()
        first = login.store.load(login.config)
        servers = [login.server(), login.server()]
        for server in servers:
            assert words(await server.call_tool("secret", {})) == "the vault is open"
        second = login.store.load(login.config)
        assert first and second and first.tokens["refresh_token"] != second.tokens["refresh_token"]
        # Each replaced the token of the other, and both go on.
        for server in servers:
            assert words(await server.call_tool("secret", {})) == "the vault is open"
        ask(url, "?revoke=1")
        with pytest.raises(McpServerError, match="teamwright mcp login vault"):
            await servers[0].call_tool("secret", {})
        for server in servers:
            await server.close()


async def test_a_login_that_nobody_gives_or_that_is_not_wanted_stores_nothing(place, home):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        login = Login(place, home, f"http://127.0.0.1:{silent.getsockname()[1]}/mcp")
        with pytest.raises(TeamwrightError, match="vault"):
            await log_in(home, login.config, LoginRequest(timeout_s=0.05), print)
    program = place.config("plain")
    with pytest.raises(TeamwrightError, match="needs no login"):
        await log_in(home, program, LoginRequest(), print)
    header = place.config("vault", url=login.url, type="http", headers={"authorization": "Bearer x"})
    with pytest.raises(TeamwrightError, match="Authorization header"):
        await log_in(home, header, LoginRequest(), print)
    assert not home.mcp_logins.exists() or not os.listdir(home.mcp_logins)
