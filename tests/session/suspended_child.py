"""A service whose member waits for an answer: `python suspended_child.py DIR`. SIGTERM leaves the team's block."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

from teamwright import RequestOpened, Team
from teamwright.testing import ScriptedModel

COMMAND = "echo done >> made.txt"


def model() -> ScriptedModel:
    """A lead that waits, and a member that runs one command and then reports."""

    def answer(request):
        if request.agent_name != "ann":
            return "waiting"
        asked = any(b'"tool_use"' in item for item in request.items)
        return "It is made." if asked else [("Bash", {"command": COMMAND})]

    return ScriptedModel(answer)


async def main(place: Path) -> None:
    """Wait until the member asks, say so, and wait for the end."""

    async def ask(request: RequestOpened) -> None:
        sys.stdout.write(f"{request.request}\n")
        sys.stdout.flush()

    async with Team("crew", model=model(), cwd=place, on_request=ask, on_exit="suspend") as team:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await team.spawn("ann", "Make the file.")
        await team.run("Go.")


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main(Path(sys.argv[1])))
