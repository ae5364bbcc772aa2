import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from teamwright.mcp.listing_store import ListingStore
from teamwright.mcp.server import McpServer, ServerContext, ServerTimeouts
from teamwright.mcp.server_config import ConfigSource, ServerConfig, parse_servers
from teamwright.mcp.stdio_transport import ServerEnvironment
from teamwright.processes.process_records import ProcessRecords
from tests.support.waits import WAIT_S

SERVER = str(Path(__file__).with_name("stdio_server.py"))


class Place:
    """Servers that a test starts, what is reported of them, and what they leave."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said: list[str] = []
        self.heard = asyncio.Event()
        self.session = root / "session"
        (root / "logs").mkdir()
        self.limits = ServerTimeouts(start_s=WAIT_S, call_s=WAIT_S)

    def around(self) -> ServerContext:
        env = {"PATH": os.environ["PATH"], "HOME": "/"}
        records = ProcessRecords(self.session)
        quarantine = self.root / "quarantine"
        surroundings = ServerEnvironment(env, records, self.root / "logs", lambda _config: None, quarantine)
        listings = ListingStore(self.root / "listings")
        return ServerContext(surroundings, listings, self.report, "0", self.limits)

    def report(self, text: str, level: str) -> None:
        assert level in {"info", "warning"}
        self.said.append(text)
        self.heard.set()

    def config(self, name: str = "plain", *habits: str, **entry: Any) -> ServerConfig:
        said = {"command": sys.executable, "args": [SERVER, *habits], **entry}
        if "url" in said:
            said = entry
        [made], problems = parse_servers({name: said}, ConfigSource("a test", self.root, os.environ))
        assert not problems
        return made

    def server(self, *habits: str, **entry: Any) -> McpServer:
        return McpServer(self.config("plain", *habits, **entry), self.around())

    @property
    def records(self) -> list[Path]:
        return list((self.session / "processes").glob("*.json"))

    def listed(self) -> list[str]:
        [file] = (self.root / "listings").glob("*.json")
        return [tool["name"] for tool in json.loads(file.read_text())["tools"]]


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def words(result: dict[str, Any]) -> str:
    return "".join(part["text"] for part in result["content"])
