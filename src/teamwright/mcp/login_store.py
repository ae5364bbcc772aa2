"""Stored logins at MCP servers: tokens and the registered client, one private file for each server.

Apart from `oauth`, whose official package is slow to import: every session with MCP servers looks for logins.
Format: docs/reference/formats/mcp.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec import json as codec

from teamwright.mcp.server_config import ServerConfig
from teamwright.protocol.secret_texts import MIN_FRAGMENT, mask_values, repr_without
from teamwright.storage.files import read_plain, write_atomic
from teamwright.storage.paths import make_private

VERSION = 1
MAX_BYTES = 1_000_000


class StoredLogin(Struct):
    """One login. `expires_at` is in seconds since 1970, 0.0 when unknown.

    `tokens`, `client` and the metadata are objects of OAuth (RFC 6749, 7591, 8414, 9728) as they were received.
    """

    server: str
    url: str
    tokens: dict[str, Any] = field(default_factory=dict[str, Any])
    client: dict[str, Any] = field(default_factory=dict[str, Any])
    expires_at: float = 0.0
    issuer: str = ""
    authorization_server: dict[str, Any] = field(default_factory=dict[str, Any])
    resource: dict[str, Any] = field(default_factory=dict[str, Any])

    def __repr__(self) -> str:
        return repr_without(self, "tokens", "client")

    @property
    def secrets(self) -> frozenset[str]:
        """The tokens, and the secrets of the client."""
        values = [{**self.client, **self.tokens}.get(name) for name in _SECRET_FIELDS]
        return frozenset(value for value in values if isinstance(value, str) and len(value) >= MIN_FRAGMENT)


_SECRET_FIELDS = ("access_token", "refresh_token", "id_token", "client_secret", "registration_access_token")


class LoginMask:
    """Masks the secrets of a login in all that its server sends: also tokens that were replaced since.

    `current_login` returns the login as it is now.
    """

    def __init__(self, current_login: Callable[[], StoredLogin]) -> None:
        self._current_login = current_login
        self._secrets: frozenset[str] = frozenset()
        self._take_secrets()

    def __call__(self, message: object) -> object:
        """Return the message with the secrets masked in each text of it."""
        self._take_secrets()
        return self._mask(message)

    def _take_secrets(self) -> None:
        self._secrets |= self._current_login().secrets

    def _mask(self, value: object) -> object:
        if isinstance(value, str):
            return value if len(value) < MIN_FRAGMENT else mask_values(value, self._secrets, "****")
        if isinstance(value, list):
            return [self._mask(one) for one in cast("list[object]", value)]
        if isinstance(value, dict):
            return {key: self._mask(one) for key, one in cast("dict[object, object]", value).items()}
        return value


class LoginStore:
    """The directory of logins. A login belongs to the name and the address of a server, so no other entry uses it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self, config: ServerConfig) -> StoredLogin | None:
        """Return the login at a server; None without a readable one."""
        try:
            read = codec.decode(read_plain(self._path(config), MAX_BYTES), type=StoredLogin)
        except (OSError, ValueError, RecursionError):
            return None
        return read if read.tokens.get("access_token") and read.url == config.url else None

    def save(self, config: ServerConfig, login: StoredLogin) -> None:
        """Store a login. Raises StorageError, OSError."""
        make_private(self._directory)
        body = {"v": VERSION, **json.loads(codec.encode(login))}
        write_atomic(self._path(config), json.dumps(body, ensure_ascii=False, indent=2).encode("utf-8", "replace"))

    def remove(self, config: ServerConfig) -> bool:
        """Remove the login at a server. Return False when there was none. Raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            self._path(config).unlink()
            return True
        return False

    def _path(self, config: ServerConfig) -> Path:
        digest = hashlib.sha256(json.dumps([config.name, config.url]).encode("utf-8", "surrogatepass")).hexdigest()
        return self._directory / f"{digest[:32]}.json"
