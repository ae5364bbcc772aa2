"""`teamwright send NAME@TEAM TEXT`: a message from the user to a member, also while the team does not run."""

from __future__ import annotations

import asyncio
import sys

import click
from msgspec.structs import asdict

from teamwright.config.person_authority import require_person
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.saved.saved_team_access import SavedTeamAccess
from teamwright.saved.send_from_outside import EVERYONE, Delivery, follow_answer, send, send_to_all
from teamwright.saved.team_address import TeamAddress, find_address
from teamwright.team_records.views import resolve_home
from teamwright.ui.cli.flags import parse_time_span
from teamwright.ui.cli.output import json_flag, note, say, say_json
from teamwright.ui.cli.run_location import RunLocation, open_access, run_location
from teamwright.ui.display_text import clean, one_line

MAX_INPUT = 1_000_000
"""The number of bytes read from stdin; no message may be that long."""

_OUTCOME_TEXT = {
    "woke": "{to} reads it now",
    "queued_next_round": "{to} is at work and reads it before its next step",
    "accepted": "in the inbox of {to}, which another program runs",
    "no_consumer": "stored; no process runs the team now, it is delivered after: {resume}",
}


@click.command(name="send")
@click.argument("address", metavar="NAME@TEAM")
@click.argument("text", nargs=-1, metavar="[TEXT]")
@click.option("--wait", is_flag=True, help="Wait until it is answered; print the final text of that turn.")
@click.option(
    "--timeout", metavar="TIME", callback=parse_time_span, help="With --wait, at most so long: 90, 90s, 10m, 1h."
)
@json_flag
@click.pass_context
def send_command(
    ctx: click.Context,
    /,
    address: str,
    text: tuple[str, ...],
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> int:
    """Send a message to a member. `lead@TEAM` is the lead, `*@TEAM` all members. TEXT `-`, or none, is stdin."""
    require_person(resolve_home(run_location(ctx).home), "writes to members as the user")
    if timeout is not None and not wait:
        raise UsageError("usage", "--timeout is for --wait", note="nothing was sent")
    return asyncio.run(_send(run_location(ctx), address, _words(text), wait=wait, timeout_s=timeout, as_json=as_json))


async def _send(
    place: RunLocation, address: str, text: str, *, wait: bool, timeout_s: float | None, as_json: bool
) -> int:
    async with open_access(place, address) as access:
        return await _send_to(access, address, text, wait=wait, timeout_s=timeout_s, as_json=as_json)


async def _send_to(
    access: SavedTeamAccess, address: str, text: str, *, wait: bool, timeout_s: float | None, as_json: bool
) -> int:
    target, name = find_address(access, address)
    if not name:
        raise UsageError(
            "usage",
            f"{address!r} names no member",
            do=[f"teamwright send lead@{target.name} …"],
            note="nothing was sent",
        )
    if name == EVERYONE:
        if wait:
            raise UsageError("usage", "--wait is for one member", note="nothing was sent")
        _show(await send_to_all(target, text), as_json=as_json, alone=False)
        return 0
    if wait:
        return await _send_and_wait(target, name, text, timeout_s, as_json=as_json)
    _show([await send(target, name, text)], as_json=as_json, alone=True)
    return 0


async def _send_and_wait(target: TeamAddress, name: str, text: str, timeout_s: float | None, *, as_json: bool) -> int:
    async with follow_answer(target, name) as answer:
        delivery = await send(target, name, text)
        if not as_json:
            note(f"teamwright: {_line(delivery)}")
        if answer is None:
            raise TeamwrightError(
                "failed",
                f'no process runs the team "{target.name}" now',
                do=[target.resume_command],
                note="the message is stored",
            )
        reply = await answer.answer_to(delivery, timeout_s)
    if as_json:
        say_json(asdict(delivery) | {"text": reply})
    else:
        say(clean(reply))
    return 0


def _show(deliveries: list[Delivery], *, as_json: bool, alone: bool) -> None:
    if as_json:
        say_json(deliveries[0] if alone else deliveries)
        return
    for delivery in deliveries:
        say(_line(delivery))


def _line(delivery: Delivery) -> str:
    return one_line(_OUTCOME_TEXT[delivery.outcome].format(to=delivery.to, resume=delivery.resume))


def _words(text: tuple[str, ...]) -> str:
    """Return the message from the argument or from stdin. Raises UsageError for several arguments and for no text."""
    if len(text) > 1:
        raise UsageError(
            "usage", "the message is one argument: put it in quotes", do=['send NAME@TEAM "…"'], note="nothing was sent"
        )
    if text and text[0] != "-":
        return text[0]
    if sys.stdin.isatty():
        raise UsageError(
            "usage",
            "there is no message",
            do=['teamwright send NAME@TEAM "…"', "echo … | teamwright send NAME@TEAM"],
            note="nothing was sent",
        )
    raw = sys.stdin.buffer.read(MAX_INPUT)
    return raw.decode("utf-8", "replace").removeprefix("\ufeff").strip("\n")
