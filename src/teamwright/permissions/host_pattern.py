"""Patterns of rules for addresses: `domain:HOST`, with or without a port, and the hosts of addresses.

A host is compared as the resolver looks it up.
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct


class HostPattern(Struct, frozen=True):
    """A pattern `domain:HOST` or `domain:HOST:PORT`; `*.HOST` is every host below it. `port` is 0 for all ports."""

    host: str
    port: int = 0

    @classmethod
    def parse(cls, pattern: str) -> HostPattern:
        """Parse the pattern. Raises ValueError for an invalid one."""
        written = pattern.removeprefix("domain:").strip()
        found = _WITH_PORT.fullmatch(written)
        host = plain_host((found[1] if found else written).strip("[]"))
        port = int(found[2]) if found else 0
        if not pattern.startswith("domain:") or not host or "/" in host or (found and not 0 < port <= _MAX_PORT):
            raise ValueError("WebFetch(domain:HOST) or WebFetch(domain:HOST:PORT)")
        return cls(host, port)

    def matches(self, url: str, below: bool) -> bool:
        """Return True when the address is at this host, or with `below` also at one below it."""
        host = url_host(url)
        if not host:
            return below  # an invalid address is never allowed by a rule
        if self.port and self.port != url_port(url):
            return False
        if self.host.startswith("*."):
            return host.endswith(self.host[1:]) or (below and host == self.host[2:])
        return host == self.host or (below and host.endswith("." + self.host))


_WITH_PORT = re.compile(r"(\[[^\]]*\]|[^:]*):(\d+)")
_MAX_PORT = 65_535
_DOTS = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})


def url_host(url: str) -> str:
    """Return the host of an address in lower case; empty for an invalid address."""
    try:
        return plain_host(urlsplit(url).hostname or "")
    except ValueError:
        return ""


def url_port(url: str) -> int:
    """Return the port of an address; 0 for an invalid one."""
    try:
        parts = urlsplit(url)
        return parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return 0


def plain_host(host: str) -> str:
    """Return a host as the resolver looks it up: in lower case and ASCII. Raises ValueError for an impossible one."""
    name = unicodedata.normalize("NFKC", host).translate(_DOTS).rstrip(".").lower()
    return name if name.isascii() else name.encode("idna").decode("ascii")


def is_local_host(host: str) -> bool:
    """Return True for the name or address of this machine or its network: `localhost`, or a private address.

    Link-local addresses are excluded: cloud machines have services there that return credentials.
    """
    name = host.lower().strip("[]").rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return (address.is_loopback or address.is_private) and not address.is_link_local and not address.is_unspecified
