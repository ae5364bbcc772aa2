"""`teamwright mcp`: what is added is an entry of a settings file, and what is shown has no secrets."""

import json
import os
import webbrowser
from unittest.mock import patch

import pytest

from teamwright.config.settings.show import SettingsQuery
from teamwright.mcp.login_store import LoginStore, StoredLogin
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.cli import mcp
from teamwright.ui.cli.main import main
from teamwright.views.configuration import load_server_config


@pytest.fixture
def project(tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def user_servers() -> dict:
    return json.loads(resolve_home(None).settings.read_text())["mcpServers"]


def listed(capsys) -> list[dict]:
    capsys.readouterr()
    assert main(["mcp", "list", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.finding("C5")
def test_a_browser_gets_no_variable_that_leads_to_code_of_the_project(project, monkeypatch):
    """Nothing of the login is real but the command, and what the browser would start with."""
    assert main(["mcp", "add", "-s", "user", "tracker", "https://tracker.example/mcp"]) == 0
    started: list[dict[str, str]] = []

    async def log_in(_home, _config, _request, show) -> int:
        show("https://login.example/")
        return 1

    monkeypatch.setattr(mcp, "is_on_terminal", lambda: True)
    monkeypatch.setattr(mcp, "log_in", log_in)
    monkeypatch.setattr(webbrowser, "open", lambda _address: started.append(dict(os.environ)))
    with patch.dict(os.environ, PYTHONPATH=str(project), MY_VALUE="kept"):
        assert main(["mcp", "login", "tracker"]) == 0
    assert [("PYTHONPATH" in one, one["MY_VALUE"]) for one in started] == [(False, "kept")]


@pytest.mark.finding("C5")
@pytest.mark.promise("H7")
def test_a_server_is_added_shown_without_its_secrets_and_removed(project, capsys, monkeypatch):
    monkeypatch.setenv("DB_TOKEN", "another-secret-value")
    add = ["mcp", "add", "--scope", "user", "-e", "KEY=very-secret-value", "-e", "DB_TOKEN", "db"]
    assert main([*add, "--", "db-server", "--read-only"]) == 0
    assert user_servers()["db"] == {
        "command": "db-server",
        "args": ["--read-only"],
        "env": {"KEY": "very-secret-value", "DB_TOKEN": "${DB_TOKEN}"},
    }
    header = "Authorization: Bearer very-secret-value"
    assert main(["mcp", "add", "-s", "user", "tracker", "https://tracker.example/mcp?k=very", "-H", header]) == 0
    assert user_servers()["tracker"] == {
        "type": "http",
        "url": "https://tracker.example/mcp?k=very",
        "headers": {"Authorization": "Bearer very-secret-value"},
    }
    rows = listed(capsys)
    assert [(row["name"], row["transport"], row["target"], row["state"]) for row in rows] == [
        ("db", "stdio", "db-server --read-only", "used"),
        ("tracker", "http", "https://tracker.example/mcp", "used"),
    ]
    for command in (["list"], ["get", "db"], ["get", "tracker"], ["get", "db", "--json"], ["get", "tracker", "--json"]):
        assert main(["mcp", *command]) == 0
    shown = capsys.readouterr().out
    assert "very-secret" not in shown and "another-secret" not in shown and "DB_TOKEN=${DB_TOKEN}" in shown
    assert main(["mcp", "remove", "db"]) == 0
    assert [row["name"] for row in listed(capsys)] == ["tracker"]


def test_the_default_scope_is_the_checkouts_own_file(project, capsys):
    assert main(["mcp", "add", "db", "db-server"]) == 0
    assert "teamwright trust" in capsys.readouterr().out
    written = json.loads((project / ".teamwright" / "settings.local.json").read_text())
    assert written["mcpServers"] == {"db": {"command": "db-server", "args": []}}
    assert main(["mcp", "add", "db", "--scope", "project", "other"]) == 0
    assert main(["mcp", "remove", "db"]) == 2
    assert "--scope local" in capsys.readouterr().err
    assert main(["mcp", "remove", "db", "--scope", "project"]) == 0
    assert [row["file"].rpartition("/")[2] for row in listed(capsys)] == ["settings.local.json"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "db", "x", "-H", "A: b"], "--header is for servers with an address"),
        (["add", "db", "http://x/mcp", "-e", "A=b"], "--env is for commands"),
        (["add", "db", "http://x/mcp", "more"], "has no arguments"),
        (["add", "db", "http://x/mcp", "-H", "no colon"], "NAME: VALUE"),
        (["add", "db", "x", "-t", "http"], "not an http address"),
        (["add", "???", "x"], "cannot be part of a tool's name"),
        (["add-json", "db", "{"], "is not JSON"),
        (["add-json", "db", "3"], "is not an object"),
        (["get", "there"], "did you mean theirs"),
        (["remove", "theirs"], ".mcp.json"),
        (["remove", "nothing"], "there is no MCP server 'nothing'"),
    ],
)
def test_a_wrong_call_changes_nothing_and_names_the_fault(project, capsys, arguments, said):
    file = project / ".mcp.json"
    file.write_text('{"mcpServers": {"theirs": {"command": "x"}}}')
    before = file.read_text()
    assert main(["mcp", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert file.read_text() == before and not (project / ".teamwright").exists()


def test_a_name_that_the_file_has_is_not_replaced(project, capsys):
    assert main(["mcp", "add", "-s", "user", "db", "one"]) == 0
    assert main(["mcp", "add", "-s", "user", "db", "two"]) == 2
    assert "teamwright mcp remove db --scope user" in " ".join(capsys.readouterr().err.split())
    assert user_servers()["db"]["command"] == "one"


@pytest.mark.finding("C5")
def test_a_login_is_removed_with_the_last_entry_of_its_server(project, capsys):
    logins = resolve_home(None).mcp_logins
    for scope in ("user", "local"):
        assert main(["mcp", "add", "-s", scope, "tracker", "https://tracker.example/mcp"]) == 0
    config = load_server_config(SettingsQuery(resolve_home(None), project), "tracker")
    LoginStore(logins).save(config, StoredLogin(config.name, config.url, {"access_token": "a-token"}))
    assert main(["mcp", "remove", "tracker", "--scope", "local"]) == 0
    assert LoginStore(logins).load(config) is not None, "the user's entry still has this address"
    assert main(["mcp", "remove", "tracker"]) == 0
    assert "The stored login at tracker was removed too" in capsys.readouterr().out
    assert not list(logins.iterdir())


def test_a_list_names_a_file_of_servers_that_cannot_be_read(project, capsys):
    (project / ".mcp.json").write_text('{"mcpServers": {"db": {"command": "x"')
    assert main(["mcp", "list"]) == 0
    assert "no server of .mcp.json is used: it ends too early (line 1" in capsys.readouterr().err
