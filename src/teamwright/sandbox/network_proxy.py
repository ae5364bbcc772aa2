"""The way of confined commands into the network: a proxy for HTTP, CONNECT and SOCKS5 that asks about each host.

Names are resolved here, after the host was allowed. TLS is not opened. A command shows a key, which names the agent
that is asked. Formats: RFC 9110 and 9112 (HTTP), RFC 1928 and 1929 (SOCKS5).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from msgspec import Struct, field

from teamwright.processes.host_addresses import AddressRefused, resolve_public
from teamwright.protocol.time_limit import time_limit
from teamwright.sandbox.named_hosts import Destination, is_loopback, plain_host
from teamwright.sandbox.network_namespace import connect_inside

AskHost: TypeAlias = Callable[[str, int, bool], Awaitable[bool]]
"""Returns True when a connection to this host and port is allowed, perhaps after a question. The last argument is True
when the command names it.
"""

USER = "teamwright"
_MAX_HEAD = 65_536
_CHUNK = 65_536
_MAX_CONNECTIONS = 512
"""Connections of all commands of a process at one time, with and without a key."""
_MAX_REFUSED = 100
"""Hosts that a command's result names as refused."""
_HEAD_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 60.0
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_.])?")
_LOCAL = "localhost,127.0.0.1,::1"
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NO_UPDATE_CHECKS = {
    "NO_UPDATE_NOTIFIER": "1",
    "npm_config_update_notifier": "false",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
"""A check for a newer version would ask about a host that the command does not need."""
_HOP_HEADERS = frozenset({"connection", "host", "keep-alive", "proxy-authorization", "proxy-connection", "upgrade"})

_SOCKS, _NO_METHOD, _WITH_PASSWORD = 5, 0xFF, 2
_CONNECT, _IPV4, _NAME, _IPV6 = 1, 1, 3, 4
_FORBIDDEN, _UNREACHABLE, _UNSUPPORTED = 2, 4, 7


class HostRefused(Exception):
    """A host that was not allowed, or that has no address. The text says which."""


class NetworkRoute(Struct, weakref=True):
    """The way of one command: the port of the proxy on 127.0.0.1, its key, and the namespaces in which the port is.

    `namespaces` are descriptors of the user and the network namespace; empty: the port is this machine's. `refused`
    collects the hosts that were refused, each once, and at most _MAX_REFUSED. `hosts` are those that the command names.
    """

    port: int
    key: str
    ask: AskHost
    namespaces: tuple[int, ...] = ()
    hosts: frozenset[Destination] = frozenset()
    refused: list[str] = field(default_factory=list[str])

    def variables(self) -> dict[str, str]:
        """Return the variables by which programs find the proxy."""
        address = f"http://{USER}:{self.key}@127.0.0.1:{self.port}"
        # A named `localhost` may be a server of the session or of this machine, so the proxy is asked for it too.
        direct = "" if any(named.is_here for named in self.hosts) else _LOCAL
        rsync = address.removeprefix("http://")
        return {
            **dict.fromkeys(PROXY_VARIABLES, address),
            **{"no_proxy": direct, "NO_PROXY": direct, "NODE_USE_ENV_PROXY": "1", "RSYNC_PROXY": rsync},
            **_NO_UPDATE_CHECKS,
        }

    async def may_connect(self, host: str, port: int) -> bool:
        """Return True when the command may connect to this host and port, perhaps after a question."""
        return await self.ask(host, port, Destination.of(host, port) in self.hosts)


class NetworkProxy:
    """The proxy of a process. `namespaces` are those of its listening socket (see `NetworkRoute`)."""

    def __init__(self, listener: socket.socket, namespaces: tuple[int, ...] = ()) -> None:
        self._listener = listener
        self._namespaces = namespaces
        self._port: int = listener.getsockname()[1]
        self._routes: WeakValueDictionary[str, NetworkRoute] = WeakValueDictionary()
        """The routes by key, as long as the confinement of a running command has them."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Accept connections, in the running loop."""
        self._server = await asyncio.start_server(self._accept, sock=self._listener)

    def route(self, ask: AskHost, hosts: Iterable[Destination] = ()) -> NetworkRoute:
        """Return the way of a new command, which names these hosts, and whose hosts `ask` allows."""
        route = NetworkRoute(self._port, secrets.token_urlsafe(18), ask, self._namespaces, frozenset(hosts))
        self._routes[route.key] = route
        return route

    async def close(self) -> None:
        """End all connections, and close the descriptors of the namespaces."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for descriptor in self._namespaces:
            os.close(descriptor)
        self._namespaces = ()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _MAX_CONNECTIONS:
            writer.close()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with time_limit(_HEAD_TIMEOUT_S):
                first = await reader.readexactly(1)
            await (self._serve_socks(reader, writer) if first[0] == _SOCKS else self._serve_http(first, reader, writer))
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError):
            pass  # the command has gone, or sent something else
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve_http(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with time_limit(_HEAD_TIMEOUT_S):
            head = first + await reader.readuntil(b"\r\n\r\n")
        request, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = request.split(" ")
        headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        route = self._routes.get(_basic_key(headers))
        if route is None:
            writer.write(
                _answer("407 Proxy Authentication Required", "a key", 'Proxy-Authenticate: Basic realm="sandbox"')
            )
            return
        url = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host = url.hostname or ""
        port = url.port or (443 if method == "CONNECT" else 80)
        if not host or (method != "CONNECT" and url.scheme != "http"):
            writer.write(_answer("400 Bad Request", "an address with http://, or CONNECT"))
            return
        try:
            there = await self._connect(route, host, port)
        except HostRefused as problem:
            writer.write(_answer("403 Forbidden", str(problem)))
            return
        except OSError as problem:
            writer.write(_answer("502 Bad Gateway", f"{host}:{port}: {problem.strerror or problem}"))
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            kept = [f"{name}: {value}" for name, value in headers if name.lower() not in _HOP_HEADERS]
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            lines = [f"{method} {path} HTTP/1.1", f"Host: {url.netloc.rpartition('@')[2]}", *kept, "Connection: close"]
            there[1].write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await _relay((reader, writer), there)

    async def _serve_socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with time_limit(_HEAD_TIMEOUT_S):
            methods = await reader.readexactly((await reader.readexactly(1))[0])
            if _WITH_PASSWORD not in methods:
                writer.write(bytes([_SOCKS, _NO_METHOD]))
                return
            writer.write(bytes([_SOCKS, _WITH_PASSWORD]))
            await reader.readexactly(1)
            await reader.readexactly((await reader.readexactly(1))[0])
            key = await reader.readexactly((await reader.readexactly(1))[0])
            route = self._routes.get(key.decode("latin-1"))
            writer.write(bytes([1, 0 if route is not None else 1]))
            if route is None:
                return
            _, command, _, kind = await reader.readexactly(4)
            host = await _socks_host(reader, kind)
            port = int.from_bytes(await reader.readexactly(2), "big")
        if command != _CONNECT or not host:
            writer.write(_socks_answer(_UNSUPPORTED))
            return
        try:
            there = await self._connect(route, host, port)
        except (HostRefused, OSError) as problem:
            writer.write(_socks_answer(_FORBIDDEN if isinstance(problem, HostRefused) else _UNREACHABLE))
            return
        writer.write(_socks_answer(0))
        await _relay((reader, writer), there)

    async def _connect(self, route: NetworkRoute, host: str, port: int) -> _Streams:
        """Return a connection to the host. Raises HostRefused, and OSError when it cannot be reached."""
        host = plain_host(host)
        if route.namespaces and is_loopback(host):
            found = await asyncio.to_thread(connect_inside, route.namespaces, port)
            if found is not None:  # a server that a command of the session started
                return await asyncio.open_connection(sock=found)
        address = await _allowed_address(route, host, port)
        async with time_limit(_CONNECT_TIMEOUT_S):
            return await asyncio.open_connection(address, port)


_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _allowed_address(route: NetworkRoute, host: str, port: int) -> str:
    """Return the address of a host that is allowed. A name that leads into a private network asks about the address."""
    # The rules and the resolver must read the same name.
    if not (_HOST_NAME.fullmatch(host) or _is_address(host)) or not await route.may_connect(host, port):
        raise _refused(route, host, port)
    try:
        address = host if _is_address(host) else await resolve_public(host, port)
    except AddressRefused as problem:
        try:
            address = await resolve_public(host, port, allow_private=True)
        except AddressRefused:
            raise HostRefused(str(problem)) from None
        if host != "localhost" and not await route.may_connect(address, port):
            raise _refused(route, host, port) from None
    if _is_forbidden(address):
        raise _refused(route, host, port)
    return address


def _refused(route: NetworkRoute, host: str, port: int) -> HostRefused:
    if len(route.refused) < _MAX_REFUSED and f"{host}:{port}" not in route.refused:
        route.refused.append(f"{host}:{port}")
    return HostRefused(f"the sandbox refused to connect to {host}:{port}")


def _is_address(host: str) -> bool:
    """Return True for an address without a zone: rules would not know `::1%lo`."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _is_forbidden(address: str) -> bool:
    """Return True for a link-local address: cloud machines have services there that return credentials."""
    found = ipaddress.ip_address(address.partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    return found.is_link_local or found.is_multicast or found.is_unspecified


async def _socks_host(reader: asyncio.StreamReader, kind: int) -> str:
    if kind == _NAME:
        return (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
    size = {_IPV4: 4, _IPV6: 16}.get(kind)
    return str(ipaddress.ip_address(await reader.readexactly(size))) if size is not None else ""


def _socks_answer(code: int) -> bytes:
    return bytes([_SOCKS, code, 0, _IPV4, 0, 0, 0, 0, 0, 0])


def _answer(status: str, text: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, "Content-Type: text/plain", "Connection: close"]
    return "\r\n".join([*lines, f"Content-Length: {len(text.encode()) + 1}", "", f"{text}\n"]).encode()


def _basic_key(headers: list[tuple[str, str]]) -> str:
    given = next((value for name, value in headers if name.lower() == "proxy-authorization"), "")
    scheme, _, encoded = given.partition(" ")
    try:
        text = base64.b64decode(encoded, validate=True).decode("latin-1") if scheme.lower() == "basic" else ""
    except ValueError:
        return ""
    return text.partition(":")[2]


async def _relay(here: _Streams, there: _Streams) -> None:
    """Copy bytes in both directions until both have ended, or one has failed: a reset connection ends the other."""
    try:
        async with asyncio.TaskGroup() as copies:
            copies.create_task(_copy(here[0], there[1]))
            copies.create_task(_copy(there[0], here[1]))
    except* OSError:
        pass
    finally:
        there[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    with contextlib.suppress(OSError, NotImplementedError):
        writer.write_eof()
