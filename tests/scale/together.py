"""Many members in one process: each does its task with tools, writes to its neighbour, and rests."""

import re
import resource
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from teamwright.models.model import Request
from teamwright.protocol.events import MessageDelivered, TaskChanged, TeamEvent
from tests.scale.crew import Call, Plays, a_team, descriptors, heap, main, read_lead_mail, rest
from tests.support.transcripts import lines_of

BATCH = 25


class Played:
    """A member that takes a task reads the file, writes to the next member, completes the task; mail it only reads."""

    def __init__(self, members: int) -> None:
        self._members = members

    def __call__(self, text: str, request: Request) -> str | list[Call]:
        calls = request.items[-2] if len(request.items) > 1 else b""
        if found := re.search(r"#(\d+) job", text):
            return [("Read", {"file_path": "notes.txt"}), ("TaskGet", {"taskId": found[1]})]
        if b'"TaskGet"' in calls:
            number = re.search(rb'"TaskGet","input":\{"taskId":"(\d+)"', calls)
            assert number is not None
            to = f"m{(int(request.agent_name[1:]) + 1) % self._members}"
            mail = {"to": to, "message": f"{request.agent_name} did {number[1].decode()}", "summary": "done"}
            return [("SendMessage", mail), ("TaskUpdate", {"taskId": number[1].decode(), "status": "completed"})]
        return "Done."


def in_transcripts(paths: Sequence[Path]) -> dict[str, Any]:
    """What the members were told, by their transcripts: how often the same id at most, and which words of others."""
    ids: Counter[str] = Counter()
    words: list[str] = []
    for path in paths:
        for line in lines_of(path):
            if line["type"] == "user":
                ids.update(line.get("injected", ()))
                texts = [block.get("text", "") for block in line["message"]["content"]]
                words += [word for text in texts for word in re.findall(r"m\d+ did \d+", text)]
    return {"told": ids.most_common(1)[0][1], "words": words}


async def run(spec: dict[str, Any], root: Path) -> dict[str, Any]:
    """What the members did, and what they took."""
    count = spec["members"]
    model = Plays(Played(count))
    events: list[TeamEvent] = []
    most_open = 0

    def note(_number: int, event: TeamEvent) -> None:
        nonlocal most_open
        if isinstance(event, MessageDelivered | TaskChanged):
            events.append(event)
        most_open = max(most_open, descriptors()) if len(events) % 20 == 0 else most_open

    async with a_team(root, model) as team:
        session = team.session
        (root / "work" / "notes.txt").write_text("a note\n" * 50)
        await team.spawn("m0", "Wait for work.")
        await rest(session)
        before = heap()
        for first in range(1, count, BATCH):
            for number in range(first, min(first + BATCH, count)):
                await team.spawn(f"m{number}", "Wait for work.")
            await rest(session)
        spawned = heap()
        await read_lead_mail(session)
        session.log.subscribe(note, live=False)
        asked = dict(model.asked)
        for number in range(count):
            await team.tasks.add(f"job {number}")
        await rest(session)
        worked = heap()
        tasks = await team.tasks.all()
        transcripts = [teammate.agent.conversation.path for teammate in session.team.running_members]
        found = {
            "limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "most_open": most_open,
            "states": sorted({str(teammate.state) for teammate in session.team.running_members}),
            "completed": [task.id for task in tasks if task.status == "completed"],
            "claims": sum(isinstance(e, TaskChanged) and e.change == "claimed" for e in events),
            "completions": sum(isinstance(e, TaskChanged) and e.change == "completed" for e in events),
            "seen": Counter(i for e in events if isinstance(e, MessageDelivered) for i in e.message_ids).most_common(1)[
                0
            ][1],
            **in_transcripts(transcripts),
            "asked": sum(model.asked.values()) - sum(asked.values()),
            "kb_spawned": (spawned - before) / count / 1_024,
            "kb_worked": (worked - before) / count / 1_024,
            "unread": [
                entry.text for teammate in session.team.running_members for entry in await teammate.incoming.unread()
            ],
        }
    found["left"] = descriptors()
    return found


if __name__ == "__main__":
    main(run)
