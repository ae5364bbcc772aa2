"""An endpoint: where a service is, and how we show ourselves to it. The one value in this room that holds a key.

The key is in no repr; `scrub` takes it out of any text that others wrote. Everything that is shown of an
endpoint goes through here.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

Auth: TypeAlias = Literal["x-api-key", "bearer"]

USER_AGENT = "teamwright"


def mask(secret: str) -> str:
    """A secret as it may be shown: its last four characters, or none of a short one."""
    return f"…{secret[-4:]}" if len(secret) >= 12 else "…"


def clean_base_url(url: str) -> str:
    """The URL without a trailing slash or `/v1`; a path before that is kept."""
    url = url.strip().rstrip("/")
    return url.removesuffix("/v1").rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host name means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go and with which credential.

    `key_name` is where the key came from (a variable's name), for error texts. `version` is sent as
    `anthropic-version`. `local` services run on a user's own machine and cost nothing.
    """

    provider: str
    base_url: str
    credential: str = field(default="", repr=False)
    auth: Auth = "x-api-key"
    key_name: str = ""
    version: str = "2023-06-01"
    local: bool = False

    def url(self, path: str = "/v1/messages") -> str:
        """The full address of a path of the API."""
        return self.base_url + path

    def headers(self, betas: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        """The headers of a request, the key among them: never log these."""
        headers = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream, application/json"),
            ("accept-encoding", "identity"),
            ("user-agent", USER_AGENT),
            ("anthropic-version", self.version),
        ]
        if betas:
            headers.append(("anthropic-beta", ",".join(betas)))
        if self.credential and self.auth == "bearer":
            headers.append(("authorization", f"Bearer {self.credential}"))
        elif self.credential:
            headers.append(("x-api-key", self.credential))
        return headers

    @property
    def loopback(self) -> bool:
        """Whether the address is this machine: then no proxy is asked."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def secure(self) -> bool:
        """Whether the address needs TLS."""
        return self.base_url.startswith("https:")

    @property
    def where(self) -> str:
        """The address as it is shown: host, port and path, without scheme, user or password."""
        parts = urlsplit(self.base_url)
        return parts.netloc.rpartition("@")[2] + parts.path

    @property
    def shown_key(self) -> str:
        """The key as it is shown: where it came from and its last four characters."""
        if not self.credential:
            return "no key"
        return f"{self.key_name or 'key'} {mask(self.credential)}"

    @property
    def fingerprint(self) -> str:
        """A name for the credential at this address that does not reveal it."""
        return hashlib.sha256(f"{self.base_url}\0{self.credential}".encode()).hexdigest()[:16]

    def keyed_fingerprint(self, key: bytes) -> str:
        """The same for a name that lies on the disk: without the secret `key` nobody can try what it stands for."""
        return hmac.new(key, f"{self.base_url}\0{self.credential}".encode(), hashlib.sha256).hexdigest()[:32]

    def scrub(self, text: str) -> str:
        """A text of the service without our key in it, printable, at most 600 characters."""
        secrets = {self.credential, urlsplit(self.base_url).password or ""}
        for secret in secrets:
            if len(secret) >= 6:
                text = text.replace(secret, mask(secret))
        text = "".join(char if char.isprintable() else " " for char in text)
        return text if len(text) <= 600 else text[:597] + "…"
