"""Taking a place: what the roster says of it, and waiting for whoever was started there.

Knows roster entries and spots; does not know what was started.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from teamwright.protocol.roster import TeamConfig
from teamwright.teams.places.place import Spot


def settled_at(config: TeamConfig, name: str, spot: Spot) -> TeamConfig:
    """The roster with that member at this spot; as it is when nobody is called so."""
    member = config.find(name)
    return config if member is None else config.with_member(replace(member, pane_id=spot.id, backend_type=spot.kind))


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
