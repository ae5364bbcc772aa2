"""What must be true when a job is done that was killed again and again: read from the files, and from nothing else."""

import asyncio
import contextlib
import json
import os
import re
from collections import Counter
from pathlib import Path

from teamwright.agent.transcript import line_blocks
from teamwright.protocol.errors import TeamwrightError
from teamwright.storage.locks import FileLock
from teamwright.views.audit.audit import Audit, audit
from tests.crash.lives import RoundDirectory
from tests.crash.players import DONE, SLEEPER, TEAM, Made, Plan, Talk

BARS_S = 1.5
"""How long a lock that a kill left may bar ours: an intent without a record is believed after one second."""

EXPECTED_ERRORS = (
    r"The call was interrupted before it ended",
    r"The turn was interrupted before this call ran",
    r"'(ada|bob|cyd|dee|eve)' has ended",
    r"'(ada|bob|cyd|dee|eve)' has crashed",
    r"'(ada|bob|cyd|dee|eve)' is not in team",
    r"(ada|bob|cyd|dee|eve) was asked to stop already",
    r"is not an open shutdown request",
    r"was answered already",
    r"does not run in this process",
    r"(ada|bob|cyd|dee|eve) was started, and has ended",
    r"unread messages|more than 1,000|is full|are unread",
)
"""What a call may fail with, when somebody has ended meanwhile or does not read its mail."""


def problems_of(round_directory: RoundDirectory, *, pids: set[int], kills: int) -> list[str]:
    """Everything that should not be, a sentence each."""
    barred = list(of_locks(round_directory))  # first: whoever takes a lock that was left removes it
    found = audit(round_directory.home, TEAM)
    talks = talks_of(round_directory)
    problems = [
        *barred,
        *of_audit(found, round_directory.plan),
        *of_tasks(round_directory, found),
        *of_roster(round_directory, found),
    ]
    problems += [*of_errors(talks), *of_answers(talks, round_directory.plan), *of_outside(round_directory, talks)]
    problems += [*of_processes(round_directory, pids), *of_count(round_directory, kills)]
    return problems


def of_audit(found: Audit, plan: Plan):
    loose = ("config.json", "does not begin like a transcript")
    for one in found.problems:
        # The audit knows processes by numbers, and those are used again: ours are looked for by where they work.
        if "was started by process" not in one and (plan.mannered or not any(word in one for word in loose)):
            yield one
    for path in found.transcripts.owing:
        if not (plan.stops and Path(path).stem == "eve"):  # who is killed owes what it owes
            yield f"{path} still owes an answer"
    for path in found.transcripts.torn:
        if Path(path).parent.name == "agents":
            continue  # it agreed to stop, was killed while that was noted, and did not have to come back
        yield f"{path} ends in the middle of a line"
    if found.requests.open:
        yield f"requests are open: {found.requests.open}"


def talks_of(round_directory: RoundDirectory) -> dict[Path, Talk]:
    """Every conversation of the round."""
    paths = [
        *(round_directory.root / "projects").glob("*/*.jsonl"),
        *(round_directory.root / "projects").glob("*/*/agents/*.jsonl"),
    ]
    return {path: talk_of(path) for path in sorted(paths)}


def talk_of(path: Path) -> Talk:
    items = []
    for line in path.read_bytes().splitlines():
        with contextlib.suppress(ValueError):  # the audit tells of it
            if (message := json.loads(line).get("message")) is not None:
                items.append(json.dumps(message | {"content": line_blocks(line)}).encode())
    with contextlib.suppress(KeyError):
        return Talk(items)
    return Talk(())


def is_done(round_directory: RoundDirectory) -> bool:
    """Whether the lead has said so."""
    return any(DONE.encode() in path.read_bytes() for path in (round_directory.root / "projects").glob("*/*.jsonl"))


def of_tasks(round_directory: RoundDirectory, found: Audit):
    plan = round_directory.plan
    place = round_directory.tasks
    if found.state == "archived":
        place = next(round_directory.home.archive.glob(f"{TEAM}-*/tasks"), place)
    tasks = {}
    for path in sorted(place.glob("[0-9]*.json")):
        with contextlib.suppress(ValueError):
            task = json.loads(path.read_bytes())
            tasks.setdefault(task["subject"], []).append(task)
    for k in range(plan.count):
        made = tasks.pop(f"job {k}", [])
        if len(made) != 1:
            yield f"job {k} is on the list {len(made)} times"
            continue
        task = made[0]
        if task["status"] != "completed" or not task.get("owner"):
            yield f"job {k} is {task['status']}, owner {task.get('owner')}"
        if (task.get("metadata") or {}).get("result") != plan.result(k):
            yield f"job {k} gave {task.get('metadata')}, not {plan.result(k)}"
    if tasks:
        yield f"tasks that nobody asked for: {sorted(tasks)}"


def of_roster(round_directory: RoundDirectory, found: Audit):
    if found.state == "archived":
        if round_directory.home.team(TEAM).exists():
            yield "the team is archived, and still there"
        return
    if round_directory.plan.deletes:
        yield "the team was not deleted"
    members = [member["name"] for member in json.loads(round_directory.home.config(TEAM).read_bytes())["members"]]
    if [name for name in members if name != "zed"] != ["team-lead"]:
        yield f"the roster still has {members}"
    if not round_directory.home.team_file(TEAM).exists():
        yield "team.json is missing"
        return
    file = json.loads(round_directory.home.team_file(TEAM).read_bytes())
    if file["lives"] or file["partings"]:
        yield f"team.json still has lives {sorted(file['lives'])} and partings {sorted(file['partings'])}"
    begun = {name: file["incarnations"].get(name) for name in ("ada", "bob", "cyd")}
    if round_directory.plan.mannered and set(begun.values()) != {1}:
        yield f"lives were begun more than once: {begun}"


def of_errors(talks: dict[Path, Talk]):
    for path, talk in talks.items():
        for call in talk.calls:
            if call.failed and not any(re.search(one, call.text) for one in EXPECTED_ERRORS):
                yield f"{path.name}: {call.tool} {str(call.given)[:120]} failed: {call.text[:400]}"


def of_answers(talks: dict[Path, Talk], plan: Plan):
    """Whoever asks is answered once by everybody who heard it, and nothing is heard twice."""
    for path, talk in talks.items():
        heard = Counter(subject_of(text) for _, text in talk.mail if re.match("(ask|ack|done|note) ", text))
        yield from (f"{path.name} was told {words!r} {times} times" for words, times in heard.items() if times > 1)
        asked = {words.split()[1] for words in heard if words.startswith("ask ")}
        for token in asked:
            sent = talk.of("SendMessage", message=f"ack {token}")
            if len(sent) != 1:
                yield f"{path.name} answered {token} {len(sent)} times"
    lead = max(talks.values(), key=lambda talk: len(talk.of("Agent")))
    lives = Counter(call.given["name"] for call in lead.of("Agent") if begun(call))
    for name, times in lives.items():
        told = sum(body["name"] == name for body in lead.protocol("teammate_terminated"))
        if told != times and plan.mannered:
            yield f"the lead was told {told} times that {name} has ended, who lived {times} times"


def subject_of(text: str) -> str:
    """The words by which a message is known: what it is and its token; of a task that is done also who did it."""
    return " ".join(text.split()[: 3 if text.startswith("done ") else 2])


def begun(call: Made) -> bool:
    """Whether the call started somebody, who may be over."""
    return not call.failed or "was started, and" in call.text


def of_outside(round_directory: RoundDirectory, talks: dict[Path, Talk]):
    """What the user and a stranger put into inboxes was told once, or its sender knows, or it waits for the lead."""
    told = Counter()
    for talk in talks.values():
        told.update(words.split()[1] for _, words in talk.mail if words.startswith("note "))
    returned = "\n".join(text for talk in talks.values() for _, text in talk.mail if "did not read" in text)
    waits = waiting_for_lead(round_directory)
    sent, failed = set(), set()
    for one in lines_of(round_directory.notes("sender")):
        if "sent" in one:
            sent.add(one["token"])
        if "error" in one:
            failed.add(one["token"])
    sent |= {one["token"] for one in lines_of(round_directory.notes("stranger"))}
    for token in sent:
        known = bool(re.search(f"note {token}[^0-9]", returned)) or token in waits
        if told[token] > 1 or not (told[token] or known):
            yield f"the message {token} from outside was told {told[token]} times"
    for token in failed - sent:
        if told[token] > 1:
            yield f"the message {token} from outside was told {told[token]} times"


def waiting_for_lead(round_directory: RoundDirectory) -> set[str]:
    """What still waits in an inbox of somebody who can be resumed, or was kept with a team that is no more."""
    found = set()
    inboxes = [
        round_directory.home.inbox(TEAM, "team-lead"),
        *round_directory.home.archive.glob(f"{TEAM}-*/inboxes/team-lead.json"),
    ]
    for path in inboxes:
        with contextlib.suppress(OSError, ValueError):
            entries = json.loads(path.read_bytes())
            found |= {e["text"].split()[1] for e in entries if not e.get("read") and e["text"].startswith("note ")}
    return found


def lines_of(path: Path) -> list[dict]:
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return []


def of_locks(round_directory: RoundDirectory):
    """Every file of the team can be locked at once, and its guard is free."""
    home = round_directory.home
    places = [home.team(TEAM), home.team(TEAM) / "inboxes", round_directory.tasks]
    targets = {path for place in places for path in place.glob("*.json")}
    targets |= {path.with_suffix("") for place in places for path in place.glob("*.lock")}

    async def take(target: Path) -> None:
        async with FileLock(target, home.guard(target), wait_s=BARS_S).hold() as held:
            held.check()

    for target in sorted(targets):
        try:
            asyncio.run(take(target))
        except TeamwrightError as problem:
            yield f"{target} is barred: {problem.what}"


def of_count(round_directory: RoundDirectory, kills: int):
    """Nobody was inside a lock beside another, and a number that was written there was not written over."""
    counted = lines_of(round_directory.notes("count"))
    yield from (f"two were inside: {one['wrong']}" for one in counted if "wrong" in one)
    numbers = [one["number"] for one in counted if "number" in one]
    last = int((round_directory.place / "count").read_text())
    if len(set(numbers)) < len(numbers) or not len(numbers) <= last <= len(numbers) + kills:
        yield f"the count is {last} after {len(numbers)} additions, {len(set(numbers))} of them different"


def of_processes(round_directory: RoundDirectory, pids: set[int]):
    """Nothing that a life started is left: no process in its session, and not the sleeper."""
    yield from (f"process {pid} is left: {SLEEPER}" for pid in sleepers(round_directory.work))
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if entry.stat().st_uid != os.getuid():
                continue
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            if int(fields[3]) in pids and fields[0] != "Z":
                yield f"process {entry.name} is left of a life: {command[:100]}"


def sleepers(place: Path) -> list[int]:
    """Processes of the command that nobody waits for, of this round."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if SLEEPER in command and str(place) in os.readlink(entry / "cwd"):
                found.append(int(entry.name))
    return found
