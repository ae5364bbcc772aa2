"""An agent with a cut-off call and a message that waits, cleared, and killed at a moment that is counted.

Arguments: its directory, the number of the moment (0: never), and whether a line that it appends then is torn.
"""

import asyncio
import sys
from pathlib import Path

from teamwright.agent.compaction import clear_conversation
from teamwright.agent.compaction_state import Compaction
from teamwright.agent.conversation import UserMessage
from teamwright.models.model import Reply
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage
from teamwright.storage.json_lines import Journal
from tests.agent.compaction import kill_child
from tests.agent.compaction.kill_child import append, born, moment
from tests.agent.parts import call


class Beside:
    """Moments, and how things stand."""

    async def wait_until_marked_read(self, _agent) -> None:
        moment()

    async def status_text(self, _agent) -> str:
        moment()
        return "You are ada."


async def live(root: Path) -> None:
    agent = born(root)
    talk = agent.conversation
    if not talk.items:
        talk.append_user_message(UserMessage((text_block("a letter"),), ("mail:m1",)))
        talk.append_reply(Reply([call("Echo", "t1", text="x")], "tool_use", Usage(requests=1), "tiny"))
        talk.queue("notice:n1", [text_block("it waits")])
        return
    agent.compaction = Compaction(context=Beside())
    Journal.append = append
    await clear_conversation(agent)


if __name__ == "__main__":
    kill_child._left = int(sys.argv[2])
    kill_child._torn = sys.argv[3] == "torn"
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    asyncio.run(live(Path(sys.argv[1])))
    print("done")
