"""The fuzz of the wires; also `python -m tests.models.formats.wire_fuzz [--seconds N | --seeds N] [--first SEED]`.

Each seed damages an answer. It is read, or an error says what was missing; one question takes two requests at most and
few seconds; and the next request of the conversation is legal. Ends with 1 when one was not so.
"""

import argparse
import asyncio
import re
import sys
import time
from collections import Counter
from contextlib import AsyncExitStack

from teamwright.models.model import Failure
from teamwright.protocol.messages import encode, text_block
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Raw
from tests.models.conftest import Client, quick, user
from tests.models.formats.conftest import AUTH, address
from tests.models.formats.field_fuzz import PATHS, damaged
from tests.models.formats.strict_service import violations

LONGEST_S = 20.0
NAMES_WHAT_IS_MISSING = re.compile(
    r"without (message_stop|finish_reason|finishReason|response\.completed)|has no '|did not begin|without a name"
    r"|an event of an unknown shape: \w"
)
KNOWN = re.compile(r"signature|unknown type [a-z]")
"""Local servers send thinking without a signature, newer services blocks of new types: both are kept as they are."""


class WireFuzz:
    """A client and a server of one API. `ends` counts how the answers ended."""

    def __init__(self, api: str) -> None:
        self.api = api
        self.ends: Counter[str] = Counter()
        self._stack = AsyncExitStack()
        self._script = iter(())

    async def __aenter__(self) -> "WireFuzz":
        self._server = await self._stack.enter_async_context(LoopbackModel(lambda _: next(self._script), keep=4))
        url = self._server.url if self.api == "messages" else address(self.api, self._server.url)
        auth = {} if self.api == "messages" else {"api": self.api, **AUTH[self.api]}
        self._client = await self._stack.enter_async_context(Client(url, settings=quick(retries=1), **auth))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def fault_of(self, seed: int) -> str:
        """What is wrong with the reading of this seed's answer; empty where nothing is."""
        self._script = iter([Raw([damaged(self.api, seed)])] * 2)  # a third request of one question would fail
        async with asyncio.timeout(LONGEST_S):
            last = (await self._client.ask()).last
        if isinstance(last, Failure):
            self.ends["error"] += 1
            return "" if NAMES_WHAT_IS_MISSING.search(last.sentence) else f"{last.sentence!r} names nothing"
        self.ends["answer"] += 1
        calls = [block["id"] for block in last.content if block["type"] == "tool_use"]
        if not last.content or len(set(calls)) < len(calls):
            return ""  # the conversation gives calls with one id ids of their own
        results = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id in calls]
        told = {"role": "user", "content": results or [text_block("Go on.")]}
        self._script = iter(["Done."])
        await self._client.ask(user(), encode({"role": "assistant", "content": last.content}), encode(told))
        found = [one for one in violations(self.api, self._server.bodies[-1]) if not KNOWN.search(one)]
        return f"the next request is not legal: {found}" if found else ""


async def _fuzz(api: str, first: int, seconds: float, most: int) -> int:
    began, seed, wrong = time.monotonic(), first, 0
    async with WireFuzz(api) as fuzz:
        while seed < first + most if most else time.monotonic() - began < seconds:
            if fault := await fuzz.fault_of(seed):
                wrong += 1
                print(f"{api} seed {seed}: {fault}", flush=True)
            seed += 1
    print(f"{api}: seeds {first} to {seed - 1}, {dict(fuzz.ends)}, {wrong} wrong", flush=True)
    return wrong


def main() -> int:
    """0 when no seed was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.models.formats.wire_fuzz")
    parser.add_argument("--seconds", type=float, default=300.0, help="the time for all wires together")
    parser.add_argument("--first", type=int, default=int(time.time()) * 1_000, help="the first seed of each wire")
    parser.add_argument("--seeds", type=int, default=0, help="the number of seeds of each wire, in place of a time")
    options = parser.parse_args()
    each = options.seconds / len(PATHS)
    return 1 if sum(asyncio.run(_fuzz(api, options.first, each, options.seeds)) for api in PATHS) else 0


if __name__ == "__main__":
    sys.exit(main())
