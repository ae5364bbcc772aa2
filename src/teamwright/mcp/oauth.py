"""OAuth at MCP servers, by the official package: stored tokens on every request, refreshed when they expire.

A new login needs a person, so a session without one gets LoginRequired. The official package is slow to import: only
servers with a stored login, and a login, load this module.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext, TokenStorage
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from msgspec import Struct
from pydantic import AnyUrl, ValidationError

from teamwright.mcp.json_rpc import McpServerError, plain_line
from teamwright.mcp.login_store import LoginStore, StoredLogin
from teamwright.mcp.server_config import ServerConfig
from teamwright.protocol.errors import StorageError

EXPIRY_MARGIN_S = 30.0
"""Seconds before its end at which a token counts as expired."""

_NO_REDIRECT = "http://127.0.0.1/callback"
"""The redirect address of a session, which never opens one."""


class LoginRequired(McpServerError):
    """A server wants a login that only a person can give, or a login failed. The text has no secrets."""


class LoginFlow(Struct, frozen=True):
    """A login by a person. `show` gets the address to open; `wait` returns what the redirect contained.

    `client` is a registration made beforehand; without one the client registers itself.
    """

    redirect_uri: str
    show: Callable[[str], Awaitable[None]]
    wait: Callable[[], Awaitable[AuthorizationCodeResult]]
    client: OAuthClientInformationFull | None = None


class LoginAuth(OAuthClientProvider):
    """The authentication of requests to one server. Raises LoginRequired when a person must log in."""

    def __init__(self, config: ServerConfig, store: LoginStore, flow: LoginFlow | None = None) -> None:
        # Log lines of the package may quote answers with tokens.
        logging.getLogger("mcp.client.auth").disabled = True
        logging.getLogger("mcp.client.auth.oauth2").disabled = True
        login = (store.load(config) if flow is None else None) or StoredLogin(config.name, config.url)
        if flow is not None and flow.client is not None:
            login.client = _plain(flow.client)
        uri = flow.redirect_uri if flow is not None else _NO_REDIRECT
        client = OAuthClientMetadata(client_name="Teamwright", redirect_uris=[AnyUrl(uri)])
        self._file = _TokenFile(config, store, login)
        super().__init__(
            config.url,
            client,
            self._file,
            flow.show if flow is not None else None,
            flow.wait if flow is not None else None,
        )
        self._file.context = self.context
        self._name = config.name

    @property
    def login(self) -> StoredLogin:
        """The login as it is now."""
        return self._file.login

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Implement `httpx2.Auth`: the package's flow, and the tokens of another process if that one fails."""
        flow = super().async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except (OAuthFlowError, ValidationError, StorageError) as problem:
            if not self._file.reload():
                raise LoginRequired(self._explain(problem)) from None
        finally:
            await flow.aclose()
        self.context.current_tokens = await self._file.get_tokens()
        self._add_auth_header(request)
        yield request

    def _explain(self, problem: Exception) -> str:
        if self.context.redirect_handler is None:
            return f"wants a login: teamwright mcp login {self._name}"
        return plain_line(f"could not be logged in to: {problem}")


class _TokenFile(TokenStorage):
    """The stored login of one server, as the official package reads and writes it."""

    def __init__(self, config: ServerConfig, store: LoginStore, login: StoredLogin) -> None:
        self.login = login
        self.context: OAuthContext | None = None
        self._config = config
        self._store = store

    def reload(self) -> bool:
        """Read the file again. Return True when another process has stored other tokens."""
        found = self._store.load(self._config)
        if found is None or found.tokens == self.login.tokens:
            return False
        self.login = found
        return True

    async def get_tokens(self) -> OAuthToken | None:
        if not self.login.tokens:
            return None
        if self.context is not None:
            self._fill(self.context)
        return OAuthToken.model_validate(self.login.tokens)

    def _fill(self, context: OAuthContext) -> None:
        """Give the package what it does not store: the time of expiry, and the addresses for a refresh."""
        login = self.login
        context.token_expiry_time = login.expires_at - EXPIRY_MARGIN_S if login.expires_at else None
        context.auth_server_url = login.issuer or None
        if login.authorization_server:
            context.oauth_metadata = OAuthMetadata.model_validate(login.authorization_server)
        if login.resource:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        login = self.login
        context = self.context
        login.tokens = _plain(tokens)
        login.expires_at = time.time() + tokens.expires_in if tokens.expires_in else 0.0
        if context is not None:
            login.issuer = context.auth_server_url or ""
            login.authorization_server = _plain(context.oauth_metadata) if context.oauth_metadata else {}
            resource = context.protected_resource_metadata
            login.resource = _plain(resource) if resource else {}
        self._store.save(self._config, login)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return OAuthClientInformationFull.model_validate(self.login.client) if self.login.client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.login.client = _plain(client_info)


def _plain(
    value: OAuthToken | OAuthMetadata | OAuthClientInformationFull | ProtectedResourceMetadata,
) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_none=True)
