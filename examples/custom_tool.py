"""Use two functions of a program as tools of its team: the model receives their annotations and docstrings.

python examples/custom_tool.py
TEAMWRIGHT_MODEL=scripted:examples/scripts/custom_tool.toml python examples/custom_tool.py   (no key, no network)
"""

import asyncio
import os
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from pydantic import Field

from teamwright import Team


@dataclass
class Ticket:
    number: int
    title: str
    severity: str


TICKETS: list[Ticket] = []


def open_ticket(
    title: Annotated[str, Field(description="One line, as a reader of the tracker needs it.", max_length=120)],
    severity: Literal["low", "high"] = "low",
) -> Ticket:
    """Open a ticket in the tracker. Returns it with its number."""
    if any(ticket.title == title for ticket in TICKETS):
        raise ValueError(f"there is a ticket with the title {title!r} already")  # the model reads this error
    ticket = Ticket(len(TICKETS) + 1, title, severity)
    TICKETS.append(ticket)
    return ticket


async def list_tickets() -> list[Ticket]:
    """List the open tickets."""
    return TICKETS


async def main() -> int:
    model = os.environ.get("TEAMWRIGHT_MODEL", "sonnet")
    rules = ["python__open_ticket", "python__list_tickets"]  # without these rules each call asks, and is denied here
    async with Team(
        "triage", model=model, tools=[open_ticket, list_tickets], allowed_tools=rules, replace=True
    ) as team:
        result = await team.run("Read the newest log in this directory and open a ticket for each new problem in it.")
    for ticket in TICKETS:
        print(asdict(ticket))
    print(result.text)
    return result.exit_code


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
