"""A member that answers its mail and compacts all the time, until it is killed at a moment that is counted.

Arguments: its directory, the number of the moment at which it kills itself (0: never), and whether a line that it
appends at that moment is torn. It prints `done` when all of its mail is answered.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from teamwright.agent.agent import Agent
from teamwright.agent.compaction_state import Compaction, CompactSettings
from teamwright.agent.conversation import Conversation
from teamwright.agent.turn_loop import append_user_message, run_turn
from teamwright.mail.inbox import inbox_for
from teamwright.models.model import ModelCard, Prefix, Reply
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage
from teamwright.storage.json_lines import Journal
from teamwright.teams.incoming_mail import IncomingMail
from tests.agent.parts import Echo, an_agent, call

CARD = ModelCard("own/tiny", "tiny", "own", context_tokens=1_200, max_output_tokens=100, usd_in=0.0, usd_out=0.0)

_moment, _torn, _left = 0, False, 0


def moment() -> None:
    """One more moment at which a kill may come."""
    global _left
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


_append = Journal.append


def append(self: Journal, *lines: bytes) -> None:
    """Appends with a kill before, in the middle, or after it."""
    moment()
    if _torn and _left == 1:
        os.write(self._fd, lines[0][: len(lines[0]) // 2])
        moment()
    _append(self, *lines)
    moment()


class Model:
    """Calls a tool, then answers; a summary when it is asked for one."""

    card = CARD

    async def stream(self, request):
        moment()
        await asyncio.sleep(0)
        last = request.items[-1]
        if request.aside:
            content = [text_block("In short.")]
        elif b'"tool_result"' in last:
            content = [text_block("Answered. " + "y" * 300)]
        else:
            content = [call("Echo", f"t{os.urandom(4).hex()}", text="x" * 300)]
        yield Reply(content, "tool_use" if content[0]["type"] == "tool_use" else "end_turn", Usage(requests=1), "tiny")
        moment()

    async def aclose(self) -> None:
        pass


class Beside:
    """The desk, with moments in between."""

    def __init__(self, desk: IncomingMail) -> None:
        self.desk = desk

    async def wait_until_marked_read(self, _agent) -> None:
        moment()
        await self.desk.mark_delivered_read()
        moment()

    async def status_text(self, _agent) -> str:
        moment()
        return "You are ada."


def born(root: Path) -> Agent:
    path = root / "ada.jsonl"
    if path.exists() and path.read_bytes().count(b"\n"):
        made, _ = an_agent(root / f"beside-{os.getpid()}", Model(), [Echo()])
        made.conversation.close()
        made.conversation = Conversation.load(path, Prefix.build({"model": "m"}))
    else:
        path.unlink(missing_ok=True)
        made, _ = an_agent(root, Model(), [Echo()])
    return made


async def live(root: Path) -> None:
    inbox = inbox_for(root / "inbox.json", root / "guard", root / "archive.jsonl")
    agent = born(root)
    desk = IncomingMail("ada", inbox, agent.conversation, lambda _event: None)
    agent.compaction = Compaction(CompactSettings(at=0.5), Beside(desk))
    while True:
        if agent.conversation.owes_answer:
            await run_turn(agent, None, desk)
        entries = (await desk.next_mail())[:1]
        if not entries:
            break
        append_user_message(agent, desk.compose(entries))
        moment()
        await desk.mark_delivered(entries)
        await run_turn(agent, None, desk)


if __name__ == "__main__":
    _moment, _torn = int(sys.argv[2]), sys.argv[3] == "torn"
    _left = _moment
    Journal.append = append
    os.makedirs(sys.argv[1], exist_ok=True)
    asyncio.run(live(Path(sys.argv[1])))
    print("done")
