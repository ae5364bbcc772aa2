"""An endpoint: where a service is, and how we show ourselves to it. The one value in this room that holds a key.

The key is in no repr; `scrub` takes it out of any text that others wrote. Everything that is shown of an
endpoint goes through here.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import field
from ipaddress import ip_address
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from teamwright.protocol.secret_texts import mask, mask_fragments, mask_tokens
from teamwright.protocol.values import dataclass

Auth: TypeAlias = Literal["x-api-key", "bearer", "x-goog-api-key", "api-key", "signed"]
"""How a key is shown: in the header of that name, as `Authorization: Bearer`, or by signing each request with it."""
Api: TypeAlias = Literal["messages", "openai-responses", "openai-chat", "gemini", "bedrock"]
"""What a service speaks."""


@dataclass(frozen=True, slots=True)
class ApiFacts:
    """How an API is named in texts, where it is asked, and how its stream is typed."""

    title: str
    path: str
    stream_type: str = "text/event-stream"


APIS: dict[Api, ApiFacts] = {
    "messages": ApiFacts("the Messages API", "/v1/messages"),
    "openai-responses": ApiFacts("the Responses API", "/responses"),
    "openai-chat": ApiFacts("Chat Completions", "/chat/completions"),
    "gemini": ApiFacts("the Gemini API", "/v1beta/models/MODEL:streamGenerateContent"),
    "bedrock": ApiFacts("Converse", "/model/MODEL/converse-stream", "application/vnd.amazon.eventstream"),
}

USER_AGENT = "teamwright"

SERVICE_TEXT = 4_000
"""Characters of a service's text that are looked at; 600 of them are shown."""
_KEY_HEADER = re.compile(
    r"((?:proxy-)?authorization|x-api-key|x-goog-api-key|x-amz-security-token|api[-_]key)(\W{1,4})"
    r"((?:Bearer |Basic )?[^\s,;\"'}]{8,})",
    re.IGNORECASE,
)
"""A header with a key as a service repeats it: `x-api-key: VALUE`, `"x-api-key": "VALUE"`."""


def clean_base_url(url: str, api: Api = "messages") -> str:
    """The URL to which this API's paths are added: without a query, and without the path of a call pasted with it.

    A path before the version is kept. The Messages API and Gemini lose their version. APIs of OpenAI's shape keep
    theirs, and a bare host gets `/v1`, at Azure `/openai/v1`.
    """
    url = _PASTED[api].sub("", url.strip().partition("#")[0].partition("?")[0].rstrip("/")).rstrip("/")
    if api in ("openai-chat", "openai-responses"):
        _, _, rest = url.partition("://")
        return url if "/" in rest else f"{url}/openai/v1" if is_azure(url) else f"{url}/v1"
    return url


def query_of(url: str) -> str:
    """The query that was given with an address."""
    return urlsplit(url.strip()).query


def is_azure(url: str) -> bool:
    """Return True for an address of Azure, which takes the key in the header `api-key`."""
    return (urlsplit(url).hostname or "").endswith(AZURE_HOSTS)


AZURE_HOSTS = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")

_OPENAI_PATHS = re.compile(r"/(?:chat/completions|completions|responses|models)$")
_PASTED: dict[Api, re.Pattern[str]] = {
    "messages": re.compile(r"(?:/v1)?(?:/messages(?:/.*)?|/models)$|/v1$"),
    "openai-chat": _OPENAI_PATHS,
    "openai-responses": _OPENAI_PATHS,
    "gemini": re.compile(r"/v1(?:beta|alpha)?(?:/.*)?$"),
    "bedrock": re.compile(r"/model/.*$|/v1$"),
}
"""Ends of addresses that are paths of an API itself."""


def is_loopback(host: str) -> bool:
    """Whether a host name means this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_near(host: str) -> bool:
    """Return True for the name of this machine or of one in a private network."""
    if is_loopback(host) or host.endswith((".local", ".lan", ".internal")):
        return True
    try:
        return ip_address(host).is_private
    except ValueError:
        return bool(host) and "." not in host


@dataclass(frozen=True, slots=True)
class Signing:
    """What a signed request needs besides the secret. With a `profile` the keys are read from it at each use."""

    region: str
    access_key: str = ""
    session_token: str = field(default="", repr=False)
    profile: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go and with which credential.

    `key_name` is where the key came from (a variable's name), for error texts. `version` is sent as
    `anthropic-version`. `local` services run on a user's own machine or network. `own` ones tell their facts when they
    are asked. `extra` are further headers and `query` is added to each address. `signing` goes with the auth `signed`,
    whose credential is the secret that signs.
    """

    provider: str
    base_url: str
    credential: str = field(default="", repr=False)
    auth: Auth = "x-api-key"
    key_name: str = ""
    version: str = "2023-06-01"
    is_local: bool = False
    api: Api = "messages"
    signing: Signing | None = None
    own: bool = False
    extra: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    query: str = ""

    @property
    def has_key(self) -> bool:
        """Whether there is something to show to the service."""
        return bool(self.credential or (self.signing is not None and self.signing.profile))

    @property
    def facts(self) -> ApiFacts:
        """What is known of its API."""
        return APIS[self.api]

    def url(self, path: str = "/v1/messages") -> str:
        """The full address of a path of the API."""
        address = self.base_url + path
        return f"{address}{'&' if '?' in path else '?'}{self.query}" if self.query else address

    def headers(self, betas: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        """The headers of a request, the key among them: never log these."""
        headers = [
            ("content-type", "application/json"),
            ("accept", f"{self.facts.stream_type}, application/json"),
            ("accept-encoding", "identity"),
            ("user-agent", USER_AGENT),
        ]
        if self.api == "messages":
            headers.append(("anthropic-version", self.version))
        if betas:
            headers.append(("anthropic-beta", ",".join(betas)))
        if self.credential and self.auth == "bearer":
            headers.append(("authorization", f"Bearer {self.credential}"))
        elif self.credential and self.auth != "signed":
            headers.append((self.auth, self.credential))
        replaced = {name.lower() for name, _ in self.extra}
        return [(name, value) for name, value in headers if name not in replaced] + list(self.extra)

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the address is this machine: then no proxy is asked."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def near(self) -> bool:
        """True when the address is this machine or one in a private network."""
        return is_near(urlsplit(self.base_url).hostname or "")

    @property
    def uses_tls(self) -> bool:
        """Whether the address needs TLS."""
        return self.base_url.startswith("https:")

    @property
    def display_address(self) -> str:
        """The address as it is shown: host, port and path, without scheme, user or password."""
        parts = urlsplit(self.base_url)
        return parts.netloc.rpartition("@")[2] + parts.path

    @property
    def display_key(self) -> str:
        """The key as it is shown: where it came from and its last four characters."""
        if not self.has_key:
            return "no key"
        if not self.credential:
            return self.key_name
        return f"{self.key_name or 'key'} {mask(self.credential)}"

    @property
    def fingerprint(self) -> str:
        """A name for the credential at this address that does not reveal it."""
        return hashlib.sha256(self._identity).hexdigest()[:16]

    def keyed_fingerprint(self, key: bytes) -> str:
        """The same for a name that lies on the disk: without the secret `key` nobody can try what it stands for."""
        return hmac.new(key, self._identity, hashlib.sha256).hexdigest()[:32]

    @property
    def _identity(self) -> bytes:
        profile = f"\0{self.signing.profile}" if self.signing is not None and self.signing.profile else ""
        return f"{self.base_url}\0{self.credential}{profile}".encode()

    def scrub(self, text: str) -> str:
        """A text of the service, printable, at most 600 characters; our key and pieces of it are masked.

        So are other texts with the format of a token, and the values of headers that hold a key.
        """
        text = text[:SERVICE_TEXT]
        secrets = {self.credential, urlsplit(self.base_url).password or ""}
        if self.signing is not None:
            secrets |= {self.signing.session_token, self.signing.access_key}
        secrets |= {value for _, value in self.extra}
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= 6:
                text = mask_fragments(text, secret)
        text = mask_tokens(_KEY_HEADER.sub(r"\1\2…", text))
        text = "".join(char if char.isprintable() else " " for char in text)
        return text if len(text) <= 600 else text[:597] + "…"
