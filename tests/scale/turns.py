"""A lead and a member that talk for thousands of turns: what stays of them in memory, conversations compacted."""

from pathlib import Path
from typing import Any

from teamwright.agent.compaction import compact_now
from teamwright.models.model import Request
from tests.scale.crew import Plays, a_team, heap, main, read_lead_mail, rest

COMPACTED_EVERY = 50


def spoken(text: str, request: Request) -> str | list[tuple[str, dict[str, Any]]]:
    """A job is a call and an answer; everything else is an answer."""
    return [("Read", {"file_path": "notes.txt"})] if "job " in text and "Call no tool" not in text else "Done."


async def run(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Bytes of heap after each of so many turns; and how many messages the conversation of the member holds then."""
    found: dict[str, Any] = {"heap": [], "items": []}
    async with a_team(root, Plays(spoken)) as team:
        session = team.session
        (root / "work" / "notes.txt").write_text("a line\n")
        teammate = await team.spawn("ada", "Wait for mail.")
        await rest(session)
        agent = session.team.members["ada"].agent
        for turn in range(1, max(spec["turns"]) + 1):
            await teammate.send(f"job {turn}")
            await rest(session)
            if turn % 10 == 0:
                await read_lead_mail(session)
            if turn % COMPACTED_EVERY == 0:
                assert (await compact_now(agent)).done
            if turn in spec["turns"]:
                found["heap"].append(heap())
                found["items"].append(len(agent.conversation.items))
    return found


if __name__ == "__main__":
    main(run)
