"""Sessions with a long past that are gone on with: what is read of it, and what it takes in memory.

`mail`: a member and the lead have read so many messages. `transcript`: the conversation of a member, and of the lead,
has so many bytes.
"""

import asyncio
import json
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from teamwright import Budget, Team
from teamwright.agent.transcript import MESSAGE_KEY, line_message
from teamwright.models.model import Request
from teamwright.models.providers.anthropic_messages import request_body
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.messages import encode, text_block
from tests.scale.crew import Plays, a_team, heap, main, rest

WORDS = "What the file says about this, line by line, is repeated here in full. " * 100


def spoken(text: str, request: Request) -> str:
    """Everybody says the same."""
    return "Seen."


async def begun(root: Path) -> dict[str, Path]:
    """A team whose lead and one member have had a turn; their transcripts."""
    async with a_team(root, Plays(spoken)) as team:
        await team.spawn("ada", "Wait for mail.")
        await team.run("Lead them.")
        await rest(team.session)
        teammate = team.session.team.members["ada"]
        return {"ada": teammate.agent.conversation.path, LEAD: team.session.lead.agent.conversation.path}


def again(root: Path, model: Plays) -> Team:
    """The same team, gone on with."""
    usual = {"permission_mode": "bypassPermissions", "settings_file": root / "settings.json", "env": {}}
    return Team.resume("crew", model=model, home=root / "state", cwd=root / "work", budget=Budget.unlimited(), **usual)


async def mail(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """How often an archive is opened while a team goes on whose members have read so many messages, and gets mail."""
    await begun(root)
    opened: Counter[str] = Counter()
    async with again(root, Plays(spoken)) as team:
        for name in ("ada", LEAD):
            inbox = team.session.team.mailbox(name)
            for first in range(0, spec["messages"], 500):
                entries = [InboxEntry("user", f"{WORDS[:80]}{first + more}") for more in range(500)]
                await inbox.mark_delivered(await asyncio.gather(*map(inbox.put, entries)))
        await team.send("ada", "One more turn.")
        await rest(team.session)
        await team.run("And you.")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and "/inboxes/archive/" in str(arguments[0]):
            opened[Path(str(arguments[0])).name] += 1

    sys.addaudithook(hook)
    model = Plays(spoken)
    async with again(root, model) as team:
        await rest(team.session)
        turns = model.asked.get("ada", 0)
        await team.send("ada", "Do you hear me?")
        await rest(team.session)
        archived = [sum(1 for _ in path.open()) for path in root.glob("state/teams/*/inboxes/archive/*.jsonl")]
        own = len(archived)  # the files that were just opened to be counted
        return {
            "opened": sum(opened.values()) - own,
            "archived": archived,
            "turns": model.asked.get("ada", 0) - turns,
        }


def lengthen(transcript: Path, size: int) -> None:
    """Rounds of talk until the transcript has so many bytes, as its lines would be written."""
    number = 0
    with transcript.open("ab") as file:
        while file.tell() < size:
            number += 1
            for role in ("user", "assistant"):
                message = encode({"role": role, "content": [text_block(f"{number} {WORDS}")]})
                file.write(b'{"type":"%s","at":"2026-01-01T00:00:00.000Z","message":%s}\n' % (role.encode(), message))


async def transcript(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """Memory that the long conversation of `who` takes when it is gone on with, and what its next request is."""
    path = (await begun(root))[spec["who"]]
    before = heap()
    lengthen(path, spec["bytes"])
    with path.open("rb") as file:
        found = ((line[:-1], line.find(MESSAGE_KEY)) for line in file)
        digests = [hash(line_message(line, at)) for line, at in found if at > 0]
    asked: list[tuple[int, bool, int]] = []

    def answer(text: str, request: Request) -> str:
        if request.agent_name == spec["who"]:
            same = [hash(item) for item in request.items[: len(digests)]] == digests
            new = request.items[len(digests) :]
            asked.append((len(new), same, len(request_body(request.prefix, request.items, caching=True))))
        return "Seen."

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with again(root, Plays(answer)) as team:
        if spec["who"] == LEAD:
            await team.run("Where were we?")
        else:
            await team.send("ada", "Where were we?")
        await rest(team.session)
        held = heap() - before
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    last = json.loads(list(path.open("rb"))[-1])
    return {"size": path.stat().st_size, "held": held, "peak": peak * 1_024, "asked": asked, "last": last["type"]}


async def run(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """What the spec's `kind` says."""
    return await {"mail": mail, "transcript": transcript}[spec["kind"]](spec, root)


if __name__ == "__main__":
    main(run)
