"""Endpoints: the address of a service and the credential for it. The only value of the package that contains a key.

The key is in no repr; `scrub` removes it from any text of others. All displayed parts of an endpoint pass through this
module.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from ipaddress import ip_address
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from teamwright.protocol.secret_texts import encoded_forms, mask, mask_fragments, mask_tokens, repr_without

Auth: TypeAlias = Literal["x-api-key", "bearer", "x-goog-api-key", "api-key", "signed"]
"""The form of the credential: in the header of that name, as `Authorization: Bearer`, or by signing each request."""
Api: TypeAlias = Literal["messages", "openai-responses", "openai-chat", "gemini", "bedrock"]
"""The API of a service."""


class ApiFacts(Struct, frozen=True):
    """Facts about an API: its name in texts, its path, what ends an answer, and the content type of its stream."""

    title: str
    path: str
    end: str
    stream_type: str = "text/event-stream"


APIS: dict[Api, ApiFacts] = {
    "messages": ApiFacts("the Messages API", "/v1/messages", "message_stop"),
    "openai-responses": ApiFacts("the Responses API", "/responses", "response.completed"),
    "openai-chat": ApiFacts("Chat Completions", "/chat/completions", "finish_reason"),
    "gemini": ApiFacts("the Gemini API", "/v1beta/models/MODEL:streamGenerateContent", "finishReason"),
    "bedrock": ApiFacts(
        "Converse", "/model/MODEL/converse-stream", "messageStop", "application/vnd.amazon.eventstream"
    ),
}

USER_AGENT = "teamwright"

SERVICE_TEXT = 4_000
"""Characters of a service's text that are examined; 600 of them are shown."""
_KEY_HEADER = re.compile(
    r"((?:proxy-)?authorization|x-api-key|x-goog-api-key|x-amz-security-token|api[-_]key)(\W{1,4})"
    r"((?:Bearer |Basic )?[^\s,;\"'}]{8,})",
    re.IGNORECASE,
)
"""A header with a key in the text of a service: `x-api-key: VALUE`, `"x-api-key": "VALUE"`."""


def clean_base_url(url: str, api: Api = "messages") -> str:
    """Return the URL to which this API's paths are added: without a query, and without a pasted path of a call.

    A path before the version is kept. The Messages API and Gemini lose their version. APIs of OpenAI's shape keep
    theirs, and a bare host gets `/v1`, at Azure `/openai/v1`.
    """
    url = _PASTED[api].sub("", url.strip().partition("#")[0].partition("?")[0].rstrip("/")).rstrip("/")
    if api in ("openai-chat", "openai-responses"):
        _, _, rest = url.partition("://")
        return url if "/" in rest else f"{url}/openai/v1" if is_azure(url) else f"{url}/v1"
    return url


def query_of(url: str) -> str:
    """Return the query of an address."""
    return urlsplit(url.strip()).query


def is_azure(url: str) -> bool:
    """Return True for an address of Azure, which takes the key in the header `api-key`."""
    return (urlsplit(url).hostname or "").endswith(AZURE_HOSTS)


AZURE_HOSTS = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")

_OPENAI_PATHS = re.compile(r"/(?:chat/completions|completions|responses|models)$")
_PASTED: dict[Api, re.Pattern[str]] = {
    "messages": re.compile(r"(?:/v1)?(?:/messages(?:/count_tokens|/batches(?:/.*)?)?|/models)$|/v1$"),
    "openai-chat": _OPENAI_PATHS,
    "openai-responses": _OPENAI_PATHS,
    "gemini": re.compile(r"/v1(?:beta|alpha)?(?:/.*)?$"),
    "bedrock": re.compile(r"/model/.*$|/v1$"),
}
"""The endings of addresses that are paths of an API itself."""


def is_loopback(host: str) -> bool:
    """Return True when a host name means this machine."""
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


class Signing(Struct, frozen=True):
    """The parameters of a signed request besides the secret. With a `profile` the keys are read from it at each use."""

    region: str
    access_key: str = ""
    session_token: str = ""
    profile: str = ""

    def __repr__(self) -> str:
        return repr_without(self, "session_token")


class Endpoint(Struct, frozen=True):
    """The address of requests and the credential for them.

    `key_name` is the source of the key (a variable's name), for error texts. `version` is sent as `anthropic-version`.
    `is_local` services run on a user's own machine or network. `own` ones can be asked for facts. `extra` are further
    headers and `query` is added to each address. `signing` belongs to the auth `signed`, whose credential is the secret
    that signs.
    """

    provider: str
    base_url: str
    credential: str = ""
    auth: Auth = "x-api-key"
    key_name: str = ""
    version: str = "2023-06-01"
    is_local: bool = False
    api: Api = "messages"
    signing: Signing | None = None
    own: bool = False
    extra: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return repr_without(self, "credential", "extra")

    query: str = ""

    @property
    def has_key(self) -> bool:
        """True when there is a credential for the service."""
        return bool(self.credential or (self.signing is not None and self.signing.profile))

    @property
    def facts(self) -> ApiFacts:
        """The facts about its API."""
        return APIS[self.api]

    def url(self, path: str = "/v1/messages") -> str:
        """Return the full address of a path of the API."""
        address = self.base_url + path
        return f"{address}{'&' if '?' in path else '?'}{self.query}" if self.query else address

    def headers(self, betas: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        """Return the headers of a request, including the key: never log these."""
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
        """True when the address is this machine: then no proxy is used."""
        return is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def near(self) -> bool:
        """True when the address is this machine or one in a private network."""
        return is_near(urlsplit(self.base_url).hostname or "")

    @property
    def uses_tls(self) -> bool:
        """True when the address needs TLS."""
        return self.base_url.startswith("https:")

    @property
    def display_address(self) -> str:
        """The address for display: host, port and path, without scheme, user or password."""
        parts = urlsplit(self.base_url)
        return parts.netloc.rpartition("@")[2] + parts.path

    @property
    def display_key(self) -> str:
        """The key for display: its source and its last four characters."""
        if not self.has_key:
            return "no key"
        if not self.credential:
            return self.key_name
        return f"{self.key_name or 'key'} {mask(self.credential)}"

    @property
    def fingerprint(self) -> str:
        """An id of the credential at this address that does not reveal it."""
        return hashlib.sha256(self._identity).hexdigest()[:16]

    def keyed_fingerprint(self, key: bytes) -> str:
        """Return the same id for use in file names: without the secret `key` it cannot be matched with a guessed
        credential."""
        return hmac.new(key, self._identity, hashlib.sha256).hexdigest()[:32]

    @property
    def _identity(self) -> bytes:
        profile = f"\0{self.signing.profile}" if self.signing is not None and self.signing.profile else ""
        return f"{self.base_url}\0{self.credential}{profile}".encode()

    def scrub(self, text: str) -> str:
        """Return a text of the service, printable, at most 600 characters; the key and pieces of it are masked.

        Its encoded forms, other texts with the format of a token, and the values of headers with a key are masked too.
        """
        text = text[:SERVICE_TEXT]
        secrets = {self.credential, urlsplit(self.base_url).password or ""}
        if self.signing is not None:
            secrets |= {self.signing.session_token, self.signing.access_key}
        secrets |= {value for _, value in self.extra}
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= 6:
                text = mask_fragments(text, secret)
                for encoded in encoded_forms(secret):
                    text = mask_fragments(text.replace(encoded, "…"), encoded)
        text = mask_tokens(_KEY_HEADER.sub(r"\1\2…", text))
        text = "".join(char if char.isprintable() else " " for char in text)
        return text if len(text) <= 600 else text[:597] + "…"
