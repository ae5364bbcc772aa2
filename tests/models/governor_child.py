"""Programs that tests start as processes of their own: `python governor_child.py NAME PAGE ARGS…`."""

import asyncio
import os
import sys
from pathlib import Path

from teamwright.models.rate_limit import RateLimiter
from teamwright.models.rate_limit_store import FileRateLimitStore


def rate_limiter(page):
    return RateLimiter(max_running=8, backoff_s=0.001, max_backoff_s=0.005, store=FileRateLimitStore(Path(page)))


def say(text):
    print(text, flush=True)


async def refused(page, seconds):
    """Be refused once, with a pause of so many seconds, then wait for a line."""
    one = rate_limiter(page)
    async with one.permit() as turn:
        one.note_throttled(turn, float(seconds))
    say("refused")
    sys.stdin.readline()


async def listens(page):
    """At each line: on what a call would wait; then call."""
    one = rate_limiter(page)
    say("ready")
    while await asyncio.to_thread(sys.stdin.readline):
        waits = one.wait_reason
        async with one.permit():
            say(f"{waits or 'nothing'}; {one.paused_s:.0f} s left, limit {one.limit}")


async def holds(page):
    """Take a place and never give it back."""
    one = rate_limiter(page)
    say("ready")
    async with one.permit():
        say("in")
        await asyncio.to_thread(sys.stdin.readline)


async def holds_one(page):
    """Take the only place of all processes, and never give it back."""
    one = RateLimiter(max_running=1, store=FileRateLimitStore(Path(page)))
    say("ready")
    async with one.permit():
        say("in")
        await asyncio.to_thread(sys.stdin.readline)


async def calls(page, file, times, seconds):
    """Many calls at once, each of so many seconds; each writes when it begins and ends."""
    one = rate_limiter(page)
    log = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def call():
        async with one.permit():
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
    one = rate_limiter(page)
    say("ready")
    while True:
        async with one.permit() as turn:
            one.note_throttled(turn, 0.0)
        async with one.permit() as turn:
            one.note_success(turn)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
