"""Addresses of hosts: the resolver, and which addresses belong to the public internet.

A name that leads into a private network is refused, unless the caller allows it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TypeAlias

from teamwright.protocol.time_limit import time_limit

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_RESOLVE_TIMEOUT_S = 10.0


class AddressRefused(Exception):
    """The host has no address, or a forbidden one. The text names it."""


async def resolve_public(host: str, port: int, *, allow_private: bool = False) -> str:
    """Return an address of the host, all of whose addresses must be allowed. Raises AddressRefused."""
    loop = asyncio.get_running_loop()
    try:
        async with time_limit(_RESOLVE_TIMEOUT_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise AddressRefused(f"{host} could not be looked up in {_RESOLVE_TIMEOUT_S:g} s") from None
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else "it is not a host's name"
        raise AddressRefused(f"{host} could not be looked up: {reason}") from None
    addresses = [str(entry[4][0]) for entry in found]
    for text in addresses:
        if not allow_private and not is_public(ipaddress.ip_address(text.partition("%")[0])):
            raise AddressRefused(f"{host} is {text}, an address of this machine or of a private network")
    return addresses[0]


def is_public(address: Address) -> bool:
    """Return True for an address of the public internet. An embedded address decides for one that contains it."""
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if carried is not None:
            return is_public(carried)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved
