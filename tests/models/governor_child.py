"""Programs that tests start as processes of their own: `python governor_child.py NAME PAGE ARGS…`."""

import asyncio
import os
import sys
from pathlib import Path

from teamwright.models.governor import Governor
from teamwright.models.pacing.board import Page


def governor(page):
    return Governor(most=8, backoff_s=0.001, backoff_most_s=0.005, board=Page(Path(page)))


def say(text):
    print(text, flush=True)


async def refused(page, seconds):
    """Be refused once, with a pause of so many seconds, then wait for a line."""
    one = governor(page)
    async with one.turn() as turn:
        one.throttled(turn, float(seconds))
    say("refused")
    sys.stdin.readline()


async def listens(page):
    """At each line: on what a call would wait; then call."""
    one = governor(page)
    say("ready")
    while await asyncio.to_thread(sys.stdin.readline):
        waits = one.waits_for
        async with one.turn():
            say(f"{waits or 'nothing'}; {one.paused_s:.0f} s left, limit {one.limit}")


async def holds(page):
    """Take a place and never give it back."""
    one = governor(page)
    say("ready")
    async with one.turn():
        say("in")
        await asyncio.to_thread(sys.stdin.readline)


async def calls(page, file, times, seconds):
    """Many calls at once, each of so many seconds; each writes when it begins and ends."""
    one = governor(page)
    log = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def call():
        async with one.turn():
            os.write(log, b"+\n")
            await asyncio.sleep(float(seconds))
            os.write(log, b"-\n")

    say("ready")
    sys.stdin.readline()
    async with asyncio.timeout(120):
        await asyncio.gather(*(call() for _ in range(int(times))))
    say("done")


async def hammers(page):
    """Change the page until killed."""
    one = governor(page)
    say("ready")
    while True:
        async with one.turn() as turn:
            one.throttled(turn, 0.0)
        async with one.turn() as turn:
            one.succeeded(turn)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
