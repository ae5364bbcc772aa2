"""Servers of the official SDK as processes with an address on this machine, one of them with logins."""

import json
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waits import WAIT_S

SDK = str(Path(__file__).with_name("sdk_server.py"))
LIBRARY = str(Path(__file__).with_name("sdk_library_server.py"))
VAULT = str(Path(__file__).with_name("oauth_server.py"))


@contextmanager
def behind_an_address(habit: str) -> Generator[str, None, None]:
    """The SDK's server on a free port of this machine, once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, SDK, habit, str(port)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("running on" in line for line in process.stderr), "it ended before it listened"
        yield f"http://127.0.0.1:{port}/{'sse' if habit == 'sse' else 'mcp'}"
    finally:
        process.terminate()
        process.communicate(timeout=WAIT_S)


@contextmanager
def vault(lasts_s: int = 3600) -> Generator[str, None, None]:
    """The server on a free port of this machine, once it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, VAULT, str(port), str(lasts_s)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("running on" in line for line in process.stderr), "it ended before it listened"
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(WAIT_S)


def open_page(address: str) -> str:
    """What a browser does: it follows the redirect to this machine."""
    with urllib.request.urlopen(address, timeout=WAIT_S) as answer:
        return answer.read().decode()


def ask(url: str, query: str = "") -> list[str]:
    return json.loads(open_page(url.replace("/mcp", "/issued") + query))
