"""Operations of the lowest rooms in a process that is killed before a chosen step on the disk.

As a program it reads requests from stdin, a JSON line each: `do` names a function below, `args` are its arguments,
`root` is the state root. `at` says before which step on a file the process is killed with SIGKILL; with `torn` it is
killed in the middle of that step: a new file has half of its bytes, an old one those up to the next page. It forks
for each, so a life costs milliseconds. The answer is a line: `{"died": step}`, `{"done": result}`, `{"refused": slug}`.
`Mortal` is the side of the tests.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from teamwright.mail.inbox import Inbox
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import RosterMember
from teamwright.requests.request_store import RequestStore
from teamwright.storage import locks
from teamwright.storage.json_lines import Journal
from teamwright.storage.locks import FileLock
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.roster import Roster, RosterFile

CHANGING = ("mkdir", "utime", "rename", "replace", "link", "unlink", "rmdir", "pwrite", "write", "ftruncate")
PAGE = 4096


def an_inbox(home):
    return Inbox(home.inbox("demo", "bob"), home.guard(home.inbox("demo", "bob")), home.inbox_archive("demo", "bob"))


def a_list(home):
    return TaskList(FileTaskStore(home.tasks("demo"), home.guard))


# ── what can be done ─────────────────────────────────────────────────────────────────────────────────────────────


async def send(home, texts, sender="ann", numbers=None):
    inbox = an_inbox(home)
    extras = [{"number": n} for n in numbers] if numbers else [{}] * len(texts)
    entries = [InboxEntry(sender, text, extra=extra) for text, extra in zip(texts, extras, strict=True)]
    return await asyncio.gather(*(inbox.put(entry, runtime=True) for entry in entries))


async def unread(home):
    return [[entry.msg_id, entry.text] for entry in await an_inbox(home).unread()]


async def mark_read(home, ids):
    await an_inbox(home).mark_delivered(ids)


async def create(home, **more):
    return (await a_list(home).create("a task", "", by="ann", **more)).id


async def update(home, id, by="team-lead", **wish):
    return list((await a_list(home).update(id, by=by, lead=by == "team-lead", **wish)).changed)


async def claim_next(home, by):
    task = await a_list(home).claim_next(by)
    return task and task.id


async def claim(home, id, by):
    return (await a_list(home).update(id, by=by, status="in_progress")).task.id


async def release(home, owner):
    return [task.id for task in await a_list(home).release(owner)]


async def join(home, name):
    return (await Roster(RosterFile(home, "demo")).join(RosterMember("", name))).color


async def leave(home, name):
    await Roster(RosterFile(home, "demo")).remove(name)


async def set_active(home, name, active):
    await Roster(RosterFile(home, "demo")).set_active(name, active)


async def ask(home, id, body):
    RequestStore(home.shared / "requests").open(id, body)


async def answer(home, id, body):
    return RequestStore(home.shared / "requests").answer(id, body)


async def retire(home, id):
    RequestStore(home.shared / "requests").retire(id)


async def hold(home, name, wait_s=2.0):
    async with FileLock(home.shared / name, home.shared / "guards" / name, wait_s=wait_s).hold() as held:
        held.check()
        return held.recovered


async def append(home, lines):
    journal = Journal.open(home.shared / "journal.jsonl")
    for line in lines:
        journal.append(line.encode())
    journal.close()


# ── dying ────────────────────────────────────────────────────────────────────────────────────────────────────────


def kill_before(step, torn):
    """From now on this process is killed before its `step`-th change of a file."""
    left = step

    def die(name):
        os.write(REPORT, name.encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def tear(name, call, args):
        if name == "write":
            call(args[0], bytes(args[1])[: len(args[1]) // 2])
        elif name == "pwrite" and args[2] // PAGE != (args[2] + len(args[1]) - 1) // PAGE:
            call(args[0], bytes(args[1])[: PAGE - args[2] % PAGE], args[2])

    def mortal(name, call):
        def run(*args, **kwargs):
            nonlocal left
            if name == "write" and args[0] == REPORT:
                return call(*args, **kwargs)
            if left == 0:
                left = -1
                if torn:
                    tear(name, call, args)
                die(name)
            left -= 1
            return call(*args, **kwargs)

        return run

    for name in CHANGING:
        setattr(os, name, mortal(name, getattr(os, name)))


REPORT = -1


def life(request, report):
    """What the forked child does; tells by `report` and never returns."""
    global REPORT
    REPORT = report
    locks._INTENT_STOOD_S = request.get("stood_s", 0.0)
    home = Home.at(Path(request["root"]))
    with asyncio.Runner() as runner:
        runner.get_loop()
        if request["at"] is not None:
            kill_before(request["at"], request.get("torn", False))
        try:
            done = {"done": runner.run(globals()[request["do"]](home, **request["args"]))}
        except TeamwrightError as problem:
            done = {"refused": getattr(problem, "code", problem.slug), "what": problem.what}
    os.write(report, json.dumps(done).encode())
    os._exit(0)


def serve():
    for line in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                life(json.loads(line), write)
            finally:
                os._exit(1)
        os.close(write)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            said = json.dumps({"died": said})
        print(said or json.dumps({"broke": status}), flush=True)


class Mortal:
    """Lives of processes that do one thing each: `life("send", texts=["x"])` lives, `life(…, at=3)` may not."""

    def __init__(self, root):
        self.root = root
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def life(self, do, *, at=None, torn=False, stood_s=0.0, **args):
        """Do it; returns the answer: `died`, `done` or `refused`."""
        request = {"do": do, "args": args, "root": str(self.root), "at": at, "torn": torn, "stood_s": stood_s}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "broke" not in answer, answer
        return answer

    def close(self):
        self.process.kill()
        self.process.communicate()


if __name__ == "__main__":
    serve()
