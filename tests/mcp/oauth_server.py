"""An MCP server of the official SDK with its own authorization server, on the port of its argument.

It approves every login at once. Access tokens end after the seconds of the second argument, and each use of a refresh
token replaces it. `GET /issued` lists what it issued.
"""

import base64
import secrets
import sys
import time

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse

PORT, LASTS_S = int(sys.argv[1]), int(sys.argv[2])
URL = f"http://127.0.0.1:{PORT}"


class Issuer:
    """Clients, codes and tokens in memory."""

    def __init__(self):
        self.clients, self.codes, self.access, self.refresh, self.issued = {}, {}, {}, {}, []

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_urlsafe(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self._issue(client, authorization_code.scopes)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh[refresh_token.token]
        return self._issue(client, scopes)

    async def load_access_token(self, token):
        found = self.access.get(token)
        return found if found is not None and found.expires_at > time.time() else None

    async def revoke_token(self, token):
        pass

    def _issue(self, client, scopes):
        access, refresh = (f"{kind}-{secrets.token_urlsafe(24)}" for kind in ("access", "refresh"))
        end = int(time.time()) + 3600
        self.access[access] = AccessToken(token=access, client_id=client.client_id, scopes=scopes, expires_at=end)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
        self.issued += [access, refresh]
        return OAuthToken(access_token=access, expires_in=LASTS_S, refresh_token=refresh, scope=" ".join(scopes))


issuer = Issuer()
server = MCPServer(
    "vault",
    auth_server_provider=issuer,
    auth=AuthSettings(
        issuer_url=URL,
        resource_server_url=f"{URL}/mcp",
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=False,
    ),
)


@server.tool()
def secret() -> str:
    """Says what only a person who is logged in may read."""
    return "the vault is open"


@server.tool()
def leak(how: str) -> str:
    """Says the tokens that it has issued, in an answer, encoded, or in an error."""
    text = " ".join(issuer.issued)
    if how == "error":
        raise ValueError(text)
    return base64.b64encode(f"tokens: {text}".encode()).decode() if how == "encoded" else text


@server.custom_route("/issued", methods=["GET"])
async def issued(request: Request) -> JSONResponse:
    if request.query_params.get("revoke"):
        issuer.access.clear()
        issuer.refresh.clear()
    return JSONResponse(issuer.issued)


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=PORT)
