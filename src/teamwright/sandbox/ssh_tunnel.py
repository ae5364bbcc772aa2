"""The way of ssh through the proxy: a configuration that names this file as its `ProxyCommand`, and that program.

The program gets the proxy from `https_proxy` and the host and port as arguments. It runs as a script with the standard
library alone. Formats: ssh_config(5), RFC 9110 (CONNECT).
"""

from __future__ import annotations

import base64
import os
import shlex
import socket
import sys
import threading
from functools import cache
from typing import NoReturn
from urllib.parse import urlsplit

_CONFIGURATION = "/etc/ssh/ssh_config"
_CHUNK = 65_536
_MAX_HEAD = 65_536
_CONNECT_TIMEOUT_S = 600.0
"""A person may be asked about the host."""


@cache
def ssh_configuration() -> tuple[str, str] | None:
    """Return the file of the system's configuration of ssh, and its text with the proxy; None without such a file."""
    path = os.path.realpath(_CONFIGURATION)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return None
    command = " ".join(shlex.quote(part) for part in (sys.executable, "-I", "-S", os.path.realpath(__file__)))
    return path, f"Host *\n    ProxyCommand {command.replace('%', '%%')} %h %p\n{text}"


def _tunnel(host: str, port: str) -> None:
    """Connect standard input and output with the host. Raises OSError and ValueError."""
    proxy = urlsplit(os.environ["https_proxy"])
    with socket.create_connection((proxy.hostname or "", proxy.port or 0), timeout=_CONNECT_TIMEOUT_S) as there:
        key = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        there.sendall(f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {key}\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = there.recv(1)
            if not byte or len(head) > _MAX_HEAD:
                raise OSError("the proxy of the sandbox does not answer")
            head += byte
        status = head.split(b" ", 2)[1]
        if status != b"200":
            raise OSError(there.makefile("rb").read(_MAX_HEAD).decode("utf-8", "replace").strip())
        there.settimeout(None)
        threading.Thread(target=_send, args=(there,), daemon=True).start()
        while chunk := there.recv(_CHUNK):
            os.write(1, chunk)


def _send(there: socket.socket) -> None:
    while chunk := os.read(0, _CHUNK):
        there.sendall(chunk)
    there.shutdown(socket.SHUT_WR)


def _main(host: str, port: str) -> NoReturn:
    try:
        _tunnel(host, port)
    except (OSError, ValueError, KeyError) as problem:
        os.write(2, f"{problem}\n".encode())
        os._exit(1)
    os._exit(0)  # a thread may still read


if __name__ == "__main__":
    _main(*sys.argv[1:3])
