"""Which address a page may be fetched from: the name resolved once, every address checked, the checked one used.

A public page must not reach into this machine or its network, also not by a name that changes its address between
the check and the connection. Knows addresses; sends nothing but the name's look-up.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_RESOLVE_WITHIN_S = 10.0


class Unreachable(Exception):
    """The name has no address, or one that pages may not be fetched from. The text says which."""


async def checked_address(host: str, port: int, *, allow_private: bool = False) -> str:
    """An address of the host, all of whose addresses may be used. Raises Unreachable."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVE_WITHIN_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise Unreachable(f"{host} could not be looked up in {_RESOLVE_WITHIN_S:g} s") from None
    except (OSError, UnicodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else "it is not a host's name"
        raise Unreachable(f"{host} could not be looked up: {reason}") from None
    addresses = [str(entry[4][0]) for entry in found]
    for text in addresses:
        if not allow_private and not is_public(ipaddress.ip_address(text.partition("%")[0])):
            raise Unreachable(f"{host} is {text}, an address of this machine or of a private network")
    return addresses[0]


def is_public(address: Address) -> bool:
    """Whether the address is one of the public internet; addresses that carry another are judged by that."""
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if carried is not None:
            return is_public(carried)
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved
