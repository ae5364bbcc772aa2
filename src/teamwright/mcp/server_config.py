"""Configurations of MCP servers: the ecosystem's `mcpServers`, read with `${VAR}` and `${VAR:-default}`.

An unusable entry is left out with a line that gives the reason. Leaves trust to the callers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.protocol.ids import is_label
from teamwright.protocol.secret_texts import mask_values, repr_without
from teamwright.sandbox.policy import UNBOUNDED, SandboxSettings

TransportKind: TypeAlias = Literal["stdio", "http", "sse", "sdk"]

MAX_SERVERS = 50
"""Maximum number of servers that are read from one file."""

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HTTP = frozenset({"http", "streamable-http", "streamableHttp"})
_KNOWN_KEYS = frozenset({"type", "command", "args", "env", "cwd", "url", "headers", "timeout", "disabled"})
_IN_WORKTREE = "worktree"
"""The value of `cwd` for a program that runs in the worktree of its agent."""

_SHORTEST_SECRET = 6
"""Length from which a value in `env` or `headers` is masked in all texts."""


class ServerConfig(Struct, frozen=True):
    """One server. `key` is its part in names of tools; `source` the file that defines it.

    `call_timeout_s` is how long a call may make no progress, in seconds; None for the default. `digest` is the hash of
    the definition without values of variables: the key of stored data about the server.
    """

    name: str
    key: str
    kind: TransportKind
    source: str
    digest: str
    cwd: Path
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return repr_without(self, "env", "url", "headers")

    call_timeout_s: float | None = None
    is_confined: bool = False
    """True for a program of a repository or a plugin, which runs in the sandbox."""
    is_per_worktree: bool = False
    """True for a program that runs in the worktree of the agent that uses it."""
    worktree: Path | None = None
    """The worktree in which this process runs."""
    bounds: SandboxSettings = UNBOUNDED
    """The bounds in the sandbox of the agents whose type defines the server."""

    @property
    def log_name(self) -> str:
        """The beginning of the names of its log files."""
        place = "" if self.worktree is None else f"-{self.worktree.name}"
        return f"{self.key}-{self.digest[:6]}{place}"

    def move_to(self, worktree: Path, cwd: Path) -> ServerConfig:
        """Return the configuration of its process in a worktree, with the working directory `cwd`."""
        return replace(self, worktree=worktree, cwd=cwd)

    def narrow_to(self, bounds: SandboxSettings) -> ServerConfig:
        """Return the configuration of its process for agents with these bounds: in the sandbox, if they are any.

        Agents with other bounds have another process.
        """
        if bounds == UNBOUNDED:
            return self
        digest = hashlib.sha256(self.digest.encode() + msgspec.json.encode(bounds)).hexdigest()[:32]
        return replace(self, bounds=bounds, digest=digest, is_confined=True)

    @property
    def display_text(self) -> str:
        """The program or address for people, without any part that may be a secret."""
        if self.kind == "stdio":
            return self.argv[0]
        if self.kind == "sdk":
            return "in the client program"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"

    def mask_secrets(self, text: str) -> str:
        """Return the text without values of the server's environment, headers or address, plain or encoded."""
        query = urlsplit(self.url).query
        values = [value for value in (*self.env.values(), *self.headers.values(), query) if value]
        parts = {part for value in values for part in (value, value.rpartition(" ")[2])}
        return mask_values(text, {part for part in parts if len(part) >= _SHORTEST_SECRET}, "****")


class ConfigSource(Struct, frozen=True):
    """The context in which a file is read: its name, the working directory of its servers, and the allowed variables.

    `withheld` are variables that its entries do not get: credentials of Teamwright, for files of a repository.
    """

    source: str
    cwd: Path
    variables: Mapping[str, str]
    withheld: Collection[str] = ()
    is_confined: bool = False
    """True for entries of a repository or a plugin, whose programs run in the sandbox."""


class _UnusableEntry(Exception):
    """The reason why an entry is left out. `broken`: it is invalid, not only unsupported or without its variable."""

    def __init__(self, why: str, *, broken: bool = True) -> None:
        super().__init__(why)
        self.is_broken = broken


class ParsedServer(Struct, frozen=True):
    """One parsed entry: a server, or why it is left out; `unknown_key` is its first unknown key."""

    config: ServerConfig | None
    reason: str = ""
    is_broken: bool = False
    unknown_key: str = ""

    @property
    def warning(self) -> str:
        """The warning about the unknown key; empty without one."""
        return f"{_quote(self.unknown_key)} is not used" if self.unknown_key else ""


def parse_entry(name: str, entry: object, source: ConfigSource) -> ParsedServer:
    """Parse one entry of an `mcpServers` object. Never raises."""
    try:
        server = _parse_server(name, entry, source)
    except _UnusableEntry as problem:
        return ParsedServer(None, str(problem), problem.is_broken)
    if server is None:
        return ParsedServer(None, "it says that it is disabled")
    strange = sorted(key for key in cast("dict[str, Any]", entry) if key not in _KNOWN_KEYS and not is_label(key))
    return ParsedServer(server, unknown_key=strange[0] if strange else "")


def parse_servers(value: object, source: ConfigSource) -> tuple[list[ServerConfig], list[str]]:
    """Return the servers of an `mcpServers` object, in their order, and a line for each that is left out. Never
    raises.
    """
    if not isinstance(value, dict):
        return [], [f"{source.source}: mcpServers is not an object"]
    found: list[ServerConfig] = []
    warnings: list[str] = []
    entries = cast("dict[str, Any]", value)
    for name, entry in list(entries.items())[:MAX_SERVERS]:
        where = f"{source.source}: the MCP server {_quote(name)}"
        read = parse_entry(name, entry, source)
        if read.config is not None:
            found.append(read.config)
            warnings += [f"{where}: {read.warning}"] if read.unknown_key else []
        elif not _is_disabled(entry):
            warnings.append(f"{where} is left out: {read.reason}")
    if len(entries) > MAX_SERVERS:
        warnings.append(f"{source.source}: only the first {MAX_SERVERS} MCP servers are used")
    return found, warnings


def _is_disabled(entry: object) -> bool:
    return isinstance(entry, dict) and cast("dict[str, Any]", entry).get("disabled") is True


def _parse_server(name: str, entry: object, source: ConfigSource) -> ServerConfig | None:
    """Return the server of one entry; None for a disabled one. Raises _UnusableEntry."""
    from teamwright.mcp.tool_listing import server_key

    key = server_key(name)
    if not key or len(key) > 40 or not name.isprintable():
        raise _UnusableEntry("its name cannot be part of a tool's name")
    if not isinstance(entry, dict):
        raise _UnusableEntry("it is not an object")
    fields = cast("dict[str, Any]", entry)
    if _is_disabled(fields):
        return None
    kind = fields.get("type", "http" if "url" in fields and "command" not in fields else "stdio")
    digest = _digest(fields, source.cwd)
    call_s = _seconds(fields.get("timeout"))
    fill = _VariableExpansion(source)
    cwd = source.cwd
    if kind == "stdio":
        argv = (fill.text(fields.get("command"), "command"), *fill.texts(fields.get("args", []), "args"))
        env = fill.map(fields.get("env", {}), "env")
        moves = fields.get("cwd") == _IN_WORKTREE
        if moves:
            # What the entry names is that of the checkout: agents may have changed the copy in a worktree.
            argv = tuple(str(cwd / word) if _names_file(cwd, word, at) else word for at, word in enumerate(argv))
        else:
            cwd = cwd / fill.text(fields.get("cwd", "."), "cwd")
        server = ServerConfig(name, key, "stdio", source.source, digest, cwd, argv, env, call_timeout_s=call_s)
        return replace(server, is_confined=source.is_confined, is_per_worktree=moves)
    if kind == "sse" or kind in _HTTP:
        url = _address(fill.text(fields.get("url"), "url"))
        headers = _headers(fill.map(fields.get("headers", {}), "headers"))
        carrier = "sse" if kind == "sse" else "http"
        return ServerConfig(
            name, key, carrier, source.source, digest, cwd, url=url, headers=headers, call_timeout_s=call_s
        )
    if kind == "sdk":
        return ServerConfig(name, key, "sdk", source.source, digest, cwd, call_timeout_s=call_s)
    raise _UnusableEntry(f"the type {_quote(str(kind))} is not supported", broken=False)


def _names_file(directory: Path, word: str, at: int) -> bool:
    """Return True for a word of a command line that names a file below the directory; a program needs a slash."""
    try:
        return (
            (at > 0 or "/" in word)
            and not word.startswith("-")
            and not Path(word).is_absolute()
            and (directory / word).is_file()
        )
    except (OSError, ValueError):
        return False


class _VariableExpansion:
    """An expansion of variables in the texts of an entry."""

    def __init__(self, reading: ConfigSource) -> None:
        self._reading = reading

    def text(self, value: object, name: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise _UnusableEntry(f"its {name} is not a text")
        return self._expand(value, name)

    def texts(self, value: object, name: str) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(part, str) for part in cast("list[Any]", value)):
            raise _UnusableEntry(f"its {name} is not a list of texts")
        return [self._expand(part, name) for part in cast("list[str]", value)]

    def map(self, value: object, name: str) -> dict[str, str]:
        if not isinstance(value, dict):
            raise _UnusableEntry(f"its {name} is not an object")
        parts = cast("dict[str, Any]", value)
        if not all(isinstance(part, str) for part in parts.values()):
            raise _UnusableEntry(f"its {name} holds something that is not a text")
        if any(not key or "=" in key or "\0" in key for key in parts):
            raise _UnusableEntry(f"its {name} has a name that cannot be one")
        return {key: self._expand(part, name) for key, part in parts.items()}

    def _expand(self, text: str, name: str) -> str:
        text_with_values = _VARIABLE.sub(self._value, text)
        if "\0" in text_with_values:
            raise _UnusableEntry(f"its {name} holds a NUL character")
        return text_with_values

    def _value(self, match: re.Match[str]) -> str:
        name = match[1]
        otherwise = cast("str | None", match[2])
        if name in self._reading.withheld:
            raise _UnusableEntry(f"the variable {name} is not given to servers of a repository", broken=False)
        value = self._reading.variables.get(name)
        if value:
            return value
        if otherwise is None:
            raise _UnusableEntry(f"the variable {name} is not set", broken=False)
        return otherwise


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or any(c.isspace() or not c.isprintable() for c in url):
        raise _UnusableEntry("its url is not an http address")
    return url


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not value.isprintable() or not value.isascii():
            raise _UnusableEntry(f"its header {_quote(name)} cannot be sent")
    return headers


def _seconds(milliseconds: object) -> float | None:
    if milliseconds is None:
        return None
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or not 0 < milliseconds < 1e10:
        raise _UnusableEntry("its timeout is not a number of milliseconds")
    return milliseconds / 1000


def _digest(fields: Mapping[str, Any], cwd: Path) -> str:
    text = json.dumps([fields, str(cwd)], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _quote(name: str) -> str:
    plain = "".join(letter if letter.isprintable() else "?" for letter in name)
    return repr(plain if len(plain) <= 60 else plain[:59] + "…")
