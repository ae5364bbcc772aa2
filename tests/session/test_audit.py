"""The audit of a team from the files alone: clean teams are clean, and every kind of damage is named."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from teamwright.agent.conversation import Conversation
from teamwright.processes.process_tree import MARK_VARIABLE
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.ids import LEAD, message_id, now_ms
from teamwright.protocol.mail import IdleNotification, InboxEntry, ShutdownApproved, ShutdownRequest
from teamwright.requests.request_store import RequestStore
from teamwright.storage.doorbell import Doorbell
from teamwright.storage.file_lease import Lease
from teamwright.storage.locks import FileLock
from teamwright.storage.paths import find_home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.archive import archive_team
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.testing import ScriptedModel
from teamwright.views.audit.audit import audit
from tests.session.audited import Audited
from tests.support import preloaded
from tests.support.waits import WAIT_S
from tests.teams.crew import a_team


@pytest.fixture
async def crew(tmp_path) -> Audited:
    home = find_home()
    home.prepare()
    return await Audited(home, tmp_path / "repo").made()


# ── real teams ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.promise("P1", "P2", "P5", "F05", "F21", "F29")
def test_the_demo_audits_clean(tmp_path):
    place = tmp_path / "shown"
    place.mkdir()
    (place / "one.py").write_text("print(1)\n")
    for args in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]):
        subprocess.run(["git", *args], cwd=place, check=True)
    argv = [sys.executable, "-m", "teamwright", "demo", "--pace", "0"]
    subprocess.run(argv, cwd=place, check=True, capture_output=True, timeout=WAIT_S)
    found = audit(find_home(), "demo-shown")
    assert found.problems == []
    assert found.clean
    assert found.messages.sent == found.messages.seen > 10
    assert dict(found.lines()) | {"messages": ""} == {
        "messages": "",
        "tasks": "6 done  0 twice  0 orphaned",
        "transcripts": "4 of 4 load",
        "processes left": "0",
        "locks left": "0",
    }
    assert found.requests.open == ()
    assert found.events > 50
    assert json.loads(json.dumps(found.rows()))[0] == {
        "row": "team",
        "name": "demo-shown",
        "directory": "demo-shown",
        "state": "finished",
        "clean": True,
    }


@pytest.mark.promise("P1", "P2")
@pytest.mark.slow
async def test_a_team_that_worked_audits_clean_on_disk_and_in_the_archive(tmp_path):
    script = {
        "lead": ["ok"] * 20,
        "ada": [("SendMessage", {"to": "bob", "message": "seven files", "summary": "count"}), *["ok"] * 9],
        "bob": [("SendMessage", {"to": "nobody", "message": "lost?"}), *["ok"] * 9],
    }
    async with a_team(tmp_path, ScriptedModel(script)) as team:
        for name in ("bob", "ada"):
            await team.spawn(name, "Look around.")
        await team.run("Wait for them.")
        busy = audit(find_home(), "crew")
        assert [one.pid for one in busy.remains.processes] == [os.getpid()]
        assert audit(find_home(), "crew", running=[os.getpid()]).problems == []
        by_command = await asyncio.to_thread(audit_command, "crew", cwd=tmp_path)
        assert by_command.returncode == 0, by_command.stdout
    found = audit(find_home(), "crew")
    assert found.problems == []
    assert found.messages.refused == 1
    assert found.messages.seen >= 3
    await archive_team(find_home(), "crew")
    again = audit(find_home(), "crew")
    assert (again.state, again.problems) == ("archived", [])
    assert again.messages.seen == found.messages.seen


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("P1")
async def test_what_was_sent_told_and_flagged_is_seen_and_what_is_unread_waits(crew):
    await crew.send("ann", "one")
    await crew.read("ann")
    await crew.send(LEAD, "two", "ann")
    await crew.inbox("ann").put(InboxEntry("ben", "from outside"))
    found = crew.audit()
    assert (found.messages.sent, found.messages.seen, found.messages.waiting) == (3, 1, 2)
    assert found.clean
    assert dict(found.lines())["messages"] == "3 sent  1 seen  0 lost  0 doubled  2 waiting"


@pytest.mark.promise("P1", "F02")
async def test_a_message_that_was_flagged_and_never_told_is_lost(crew):
    entry = await crew.send("ann", "one")
    await crew.inbox("ann").mark_delivered([entry.msg_id])
    found = crew.audit()
    assert found.messages.lost == (entry.msg_id,)
    assert found.problems == [f"1 message is lost: {entry.msg_id}"]
    assert dict(found.lines())["messages"] == "1 sent  0 seen  1 lost  0 doubled"


async def test_a_message_that_was_archived_and_never_told_is_lost(crew):
    entries = [await crew.send("ann", str(number), logged=False) for number in range(120)]
    crew.told("ann", *entries[1:])
    crew.answers("ann")
    await crew.inbox("ann").mark_delivered([entry.msg_id for entry in entries])
    assert len(crew.array("ann")) == 50
    found = crew.audit()
    assert (found.messages.sent, found.messages.seen) == (120, 119)
    assert found.messages.lost == (entries[0].msg_id,)


@pytest.mark.promise("F03")
async def test_a_message_that_vanished_from_its_inbox_is_lost_when_the_log_or_its_senders_result_names_it(crew):
    logged = await crew.send("ann", "one")
    id = message_id()
    result = {"success": True, "msg_id": id, "routing": {"sender": LEAD, "target": "@ann"}}
    crew.calls(LEAD, "SendMessage", {"to": "ann", "message": "two"}, json.dumps(result))
    crew.rewrite("ann", [])
    assert set(crew.audit().messages.lost) == {logged.msg_id, id}


async def test_a_consumed_entry_that_a_stranger_deleted_was_seen(crew):
    await crew.send("ann", "one")
    await crew.read("ann")
    await crew.inbox("ann").put(InboxEntry("ben", "from outside"))
    await crew.read("ann")
    crew.rewrite("ann", [])
    found = crew.audit()
    assert (found.messages.sent, found.messages.seen, found.clean) == (2, 2, True)


@pytest.mark.promise("P1", "F05")
async def test_a_message_that_one_conversation_was_told_twice_is_doubled(crew):
    entry = await crew.send("ann", "one")
    await crew.read("ann")
    crew.told("ann", entry)
    found = crew.audit()
    assert found.messages.doubled == (entry.msg_id,)
    assert (found.messages.sent, found.messages.seen) == (1, 0)
    assert found.problems == [f"1 message was delivered twice: {entry.msg_id}"]


async def test_a_message_that_two_lives_were_told_is_doubled_only_when_both_answered(crew):
    one, two = await crew.send("ann", "one"), await crew.send("ann", "two")
    crew.told("ann", one)
    crew.answers("ann")
    crew.told("ann", two)
    crew.talks["ann"].close()
    crew.lives("ann", 2)
    crew.born("ann", "ann-2")
    crew.told("ann", one, two)
    crew.answers("ann")
    found = crew.audit()
    assert found.messages.doubled == (one.msg_id,)
    assert found.messages.seen == 1
    assert found.transcripts.total == 3


async def test_an_entry_that_a_stranger_wrote_back_without_its_id_and_was_told_again_is_doubled(crew):
    first = await crew.send("ann", "one")
    crew.told("ann", first)
    crew.answers("ann")
    crew.rewrite("ann", [{k: v for k, v in entry.items() if k != "msg_id"} for entry in crew.array("ann")])
    (again,) = await crew.read("ann")
    assert again.msg_id != first.msg_id
    assert crew.audit().messages.doubled == (again.msg_id,)


async def test_an_entry_that_stands_there_twice_under_two_ids_and_was_told_under_both_is_doubled(crew):
    first = await crew.send("ann", "one", logged=False)
    second = first.copy_with(msg_id=message_id())
    await crew.inbox("ann").put(second)
    await crew.read("ann")
    assert crew.audit().messages.doubled == (second.msg_id,)


async def test_the_same_words_sent_twice_are_two_messages(crew):
    for _ in range(2):
        await crew.inbox("ann").put(InboxEntry("ben", "ok", timestamp="2999-01-01T00:00:00.000Z"))
        await crew.read("ann")
        crew.rewrite("ann", [])
    await crew.inbox("ann").put(InboxEntry("ben", "ok", timestamp="2999-01-01T00:00:00.001Z"))
    await crew.read("ann")
    found = crew.audit()
    assert (found.messages.seen, found.messages.doubled) == (3, ())


async def test_a_message_that_somebody_else_was_told_strayed(crew):
    entry = await crew.send("ann", "one")
    crew.told(LEAD, entry)
    found = crew.audit()
    assert found.messages.strayed == (entry.msg_id,)
    assert "delivered to another member" in found.problems[0]


@pytest.mark.promise("P1")
async def test_what_its_sender_knows_did_not_arrive_is_not_lost(crew):
    crew.calls(LEAD, "SendMessage", {"to": "bob", "message": "hello"}, "nobody is called bob", error=True)
    entry = await crew.send("ann", "perhaps", logged=False)
    crew.calls(LEAD, "SendMessage", {"to": "ann", "message": "perhaps"}, "it stays unknown", error=True)
    first = await crew.send("cid", "look around", logged=False)
    await crew.inbox("cid").mark_delivered([first.msg_id])
    crew.lives("cid", 1)
    crew.calls(LEAD, "Agent", {"name": "cid", "prompt": "look around"}, "it could not be started", error=True)
    found = crew.audit()
    assert found.messages.refused == 3
    assert set(found.messages.told_instead) == {entry.msg_id, first.msg_id}
    assert found.clean


async def test_unread_words_to_somebody_who_is_gone_for_good_are_named_and_requests_to_it_are_not(crew):
    words = await crew.send("ann", "one")
    request = ShutdownRequest(request_id="shutdown-1@ann", sender=LEAD, timestamp="2026-01-01T00:00:00.000Z")
    await crew.send("ann", request.encode())
    await Roster(RosterFile(crew.home, crew.directory)).remove("ann")
    found = crew.audit()
    assert found.messages.stranded == (words.msg_id,)
    assert found.problems == [f"1 message was never read, and its reader is gone: {words.msg_id}"]


async def test_what_is_set_aside_when_a_new_life_begins_is_not_lost(crew):
    request = ShutdownRequest(request_id="shutdown-1@ann", sender=LEAD, timestamp="2026-01-01T00:00:00.000Z")
    entry = await crew.send("ann", request.encode())
    await crew.inbox("ann").mark_delivered([entry.msg_id])
    crew.talks["ann"].close()
    crew.lives("ann", 2)
    crew.born("ann", "ann-2")
    assert crew.audit().clean


@pytest.mark.promise("F07")
async def test_notices_that_say_nothing_but_idle_are_replaced_or_left_unread_without_a_loss(crew):
    notice = IdleNotification(sender="ann", timestamp="2026-01-01T00:00:00.000Z").encode()
    for _ in range(3):
        entry = InboxEntry("ann", notice, timestamp="2026-01-01T00:00:00.000Z", msg_id=message_id())
        await crew.inbox(LEAD).put(entry)
        crew.sent(entry, LEAD, "idle_notification", "idle")
    assert len(crew.array(LEAD)) == 1
    found = crew.audit()
    assert (found.messages.sent, found.clean) == (0, True)


async def test_what_a_program_of_others_consumed_is_taken_not_lost(crew):
    await crew.inbox("ben").put(InboxEntry(LEAD, "to a stranger", msg_id=message_id()))
    array = crew.array("ben")
    crew.rewrite("ben", [entry | {"read": True} for entry in array])
    found = crew.audit()
    assert (found.messages.sent, found.messages.taken, found.clean) == (1, 1, True)


async def test_a_prompt_that_was_told_twice_is_named(crew):
    for _ in range(2):
        crew.talks[LEAD].append_user_message(_told("go", "prompt:1"))
    found = crew.audit()
    assert found.messages.again == ("prompt:1",)
    assert found.problems == ["1 prompt or notice was delivered twice: prompt:1"]


async def test_many_ids_are_counted_and_the_first_are_named(crew):
    entries = [await crew.send("ann", str(number)) for number in range(9)]
    await crew.inbox("ann").mark_delivered([entry.msg_id for entry in entries])
    found = crew.audit()
    assert len(found.messages.lost) == 9
    assert found.problems[0].startswith("9 messages are lost: ")
    assert found.problems[0].endswith(" and 3 more")


def _told(text, id):
    from teamwright.agent.conversation import UserMessage
    from teamwright.protocol.messages import text_block

    return UserMessage((text_block(text),), (id,))


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("P2")
async def test_tasks_done_in_order_by_one_owner_each_are_clean(crew):
    await crew.tasks.create("first", "", by=LEAD)
    await crew.tasks.create("second", "", by=LEAD, blocked_by=["1"])
    await crew.tasks.create("third", "", by=LEAD)
    await crew.does("1", "ann")
    await crew.does("2", "ann")
    found = crew.audit()
    assert (found.tasks.done, found.tasks.open, found.clean) == (2, 1, True)
    assert dict(found.lines())["tasks"] == "2 done  0 twice  0 orphaned  1 open"


@pytest.mark.promise("P2", "F14")
async def test_a_task_that_two_completed_is_named_and_one_that_was_reopened_is_not(crew):
    await crew.tasks.create("first", "", by=LEAD)
    await crew.tasks.create("second", "", by=LEAD)
    await crew.does("1", "ann")
    crew.step("1", "claimed", "in_progress", "bob")
    crew.step("1", "completed", "completed", "bob")
    await crew.does("2", "ann")
    await crew.tasks.update("2", by=LEAD, lead=True, status="pending")
    await crew.tasks.update("2", by="ann", status="completed")
    crew.edit_task("1", owner="bob")
    found = crew.audit()
    assert found.tasks.twice == ("1",)
    assert found.problems == ["task #1 was completed twice"]


async def test_a_task_whose_file_has_another_owner_than_its_completion_was_done_twice(crew):
    await crew.tasks.create("first", "", by=LEAD)
    await crew.does("1", "ann")
    crew.edit_task("1", owner="bob")
    assert crew.audit().tasks.twice == ("1",)


@pytest.mark.promise("F16")
async def test_a_task_in_progress_whose_owner_is_not_on_the_roster_is_orphaned(crew):
    await crew.tasks.create("first", "", by=LEAD)
    await crew.tasks.update("1", by="ann", status="in_progress")
    assert crew.audit().clean
    await Roster(RosterFile(crew.home, crew.directory)).remove("ann")
    found = crew.audit()
    assert found.tasks.orphaned == ("1",)
    assert found.problems == ["task #1 is in progress, and its owner is not on the roster"]


@pytest.mark.promise("F17")
async def test_a_task_that_was_completed_before_its_blocker_is_out_of_order(crew):
    for subject in ("first", "second", "third"):
        await crew.tasks.create(subject, "", by=LEAD)
    await crew.tasks.update("2", by=LEAD, lead=True, add_blocked_by=["1"])
    crew.edit_task("2", status="completed", owner="ann")
    crew.step("2", "completed", "completed", "ann", ["1"])
    assert crew.audit().tasks.out_of_order == (("2", "1"),)
    await crew.does("1", "ann")
    assert crew.audit().problems == ["task #2 was completed before #1, for which it waits"]


@pytest.mark.promise("F17")
async def test_a_completion_that_a_member_reports_to_the_next_lead_counts_from_its_time(crew):
    for subject in ("first", "second"):
        await crew.tasks.create(subject, "", by=LEAD)
    await crew.tasks.update("2", by=LEAD, lead=True, add_blocked_by=["1"])
    for id in ("1", "2"):
        crew.edit_task(id, status="completed", owner="ann")
    now = time.time()
    crew.step("2", "completed", "completed", "ann", ["1"], at=now + 2)
    crew.step("1", "completed", "completed", "ann", at=now + 1)
    assert crew.audit().clean


async def test_a_completion_that_the_log_lost_with_a_killed_process_proves_nothing(crew):
    await crew.tasks.create("first", "", by=LEAD)
    await crew.tasks.create("second", "", by=LEAD, blocked_by=["1"])
    crew.edit_task("1", status="completed", owner="ann")
    await crew.does("2", "ann")
    assert crew.audit().clean


@pytest.mark.promise("F13")
async def test_a_number_that_was_given_twice_is_named(crew):
    await crew.tasks.create("first", "", by=LEAD)
    await crew.tasks.update("1", by=LEAD, lead=True, status="deleted")
    crew.step("1", "created", "pending", None)
    assert crew.audit().tasks.reused == ("1",)


async def test_two_tasks_of_one_call_are_named(crew):
    for _ in range(2):
        await crew.tasks.create("first", "", by=LEAD, metadata={"call": "c1-of-lead"})
    await crew.tasks.create("other", "", by=LEAD, metadata={"call": "c2-of-lead"})
    found = crew.audit()
    assert found.tasks.doubled == (("1", "2"),)
    assert found.problems == ["one call made 2 tasks: #1, #2"]


async def test_a_later_team_of_the_session_does_not_mix_its_tasks_and_mail_with_an_earlier_one(crew):
    await crew.tasks.create("first", "", by=LEAD)
    await crew.does("1", "ann")
    await crew.send(LEAD, "one", "ann")
    await crew.read(LEAD)
    told = await crew.send("ann", "go", logged=False)
    result = {"success": True, "msg_id": told.msg_id, "routing": {"sender": LEAD, "target": "@ann"}}
    crew.calls(LEAD, "SendMessage", {"to": "ann", "message": "go"}, json.dumps(result))
    await crew.read("ann")
    crew.log.flush()
    entry = await archive_team(crew.home, crew.directory)
    for talk in crew.talks.values():
        talk.close()
    crew.talks[LEAD] = Conversation.load(crew.talks[LEAD].path, crew.talks[LEAD].prefix)
    moment = now_ms()
    while now_ms() <= moment:  # teams of one session are never made within one millisecond
        pass
    later = await Audited(crew.home, crew.cwd, talks={LEAD: crew.talks[LEAD]}).made("later")
    await later.tasks.create("first", "", by=LEAD)
    await later.does("1", "ann")
    await later.send(LEAD, "two", "ann")
    await later.read(LEAD)
    for found, messages in ((later.audit(), 1), (later.audit(entry.name), 2)):
        assert found.problems == []
        assert (found.tasks.done, found.messages.sent, found.messages.seen) == (1, messages, messages)


# ── transcripts ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F57")
async def test_what_a_kill_leaves_at_the_end_of_a_transcript_still_loads(crew):
    entry = await crew.send("ann", "one")
    crew.told("ann", entry)
    crew.calls("ann", "Bash", {"command": "true"}, None)
    crew.talks[LEAD].append_user_message(_told("go", "prompt:1"))
    crew.talks[LEAD].close()
    with open(crew.talks[LEAD].path, "ab") as file:
        file.write(b'{"type":"user","at":"20')
    found = crew.audit()
    assert found.clean
    assert found.transcripts.torn == found.transcripts.owing == (str(crew.talks[LEAD].path),)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (b'{"type":"user","at":"20\n', "line 2 is not whole"),
        (
            b'{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}}\n',
            "no call",
        ),
        (
            b'{"message":{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"Bash"}]}}\n'
            b'{"message":{"role":"user","content":[{"type":"text","text":"go on"}]}}\n',
            "line 3 comes before the results of 1 calls",
        ),
    ],
)
async def test_a_transcript_that_cannot_go_on_is_named_with_the_reason(crew, damage, why):
    path = crew.talks["ann"].path
    with open(path, "ab") as file:
        file.write(damage)
    found = crew.audit()
    assert [where for where, _ in found.transcripts.broken] == [str(path)]
    assert why in found.problems[0]
    assert dict(found.lines())["transcripts"] == "1 of 2 load"


async def test_a_transcript_without_its_header_or_its_prefix_does_not_load(crew):
    path = crew.talks["ann"].path
    path.write_bytes(b"{}\n")
    for prefix in (crew.home.session(crew.cwd, crew.session) / "prefixes").iterdir():
        prefix.unlink()
    broken = dict(crew.audit().transcripts.broken)
    assert "does not begin like a transcript" in broken[str(path)]
    assert "prefix" in broken[str(crew.talks[LEAD].path)]


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("P4")
async def test_requests_are_open_or_answered_once(crew):
    box = RequestStore(crew.home.requests(crew.directory))
    box.open("shutdown-1@ann", {"kind": "shutdown"})
    box.open("shutdown-2@ann", {"kind": "shutdown"})
    box.answer("shutdown-1@ann", {"approve": True})
    found = crew.audit()
    assert (found.requests.answered, found.requests.open, found.clean) == (1, ("shutdown-2@ann",), True)
    crew.log.flush()
    archived = await archive_team(crew.home, crew.directory)
    assert crew.audit(archived.name).problems == [
        "the request shutdown-2@ann was never answered, and its team is no more"
    ]


@pytest.mark.promise("P4")
async def test_a_request_that_was_answered_twice_or_never_made_is_named(crew):
    box = RequestStore(crew.home.requests(crew.directory))
    for id in ("one", "two"):
        box.open(id, {"kind": "shutdown"})
        box.answer(id, {"approve": True})
    box.retire("one")
    (box.directory / "one.answer.json").write_text('{"id": "one", "approve": false}')
    (box.directory / "three.answer.json").write_text('{"id": "three"}')
    for _ in range(2):
        agreed = ShutdownApproved(request_id="two", sender="ann", timestamp="2026-01-01T00:00:00.000Z")
        await crew.send(LEAD, agreed.encode(), "ann")
    found = crew.audit()
    assert found.requests.twice == ("one", "two")
    assert "there is an answer to three, and no such request" in found.problems


# ── what is left ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F29")
async def test_a_lock_whose_owner_was_killed_is_left_and_one_that_is_held_or_a_strangers_is_not(crew):
    path = crew.home.inbox(crew.directory, "ann")
    path.parent.mkdir(exist_ok=True)
    lock = FileLock(path, crew.home.guard(path))
    async with lock.hold():
        made = crew.audit()
        record = Path(lock.guard).read_bytes()
        mark = os.stat(lock.directory)
    assert [str(one.path) for one in made.remains.foreign] == [lock.directory]
    assert made.clean
    os.mkdir(lock.directory)
    stranger = crew.audit()
    assert (len(stranger.remains.foreign), stranger.clean) == (1, True)
    standing = os.stat(lock.directory)
    killed = record.replace(
        b"%d %d" % (mark.st_ino, mark.st_mtime_ns), b"%d %d" % (standing.st_ino, standing.st_mtime_ns)
    )
    Path(lock.guard).write_bytes(killed)
    found = crew.audit()
    assert [(str(one.path), one.pid) for one in found.remains.locks] == [(lock.directory, os.getpid())]
    assert f"was left by process {os.getpid()}" in found.problems[0]
    assert dict(found.lines())["locks left"] == "1"


@pytest.mark.promise("F29")
async def test_a_lock_that_was_only_just_begun_when_its_owner_was_killed_is_left(crew):
    path = crew.home.config(crew.directory)
    os.mkdir(f"{path}.lock")
    crew.home.guard(path).parent.mkdir(parents=True, exist_ok=True)
    crew.home.guard(path).write_bytes(b" " * 64 + b"intent %d" % os.stat(f"{path}.lock").st_mtime_ns)
    assert len(crew.audit().remains.locks) == 1


async def test_a_process_that_drives_the_session_is_left_unless_it_is_expected(crew):
    lease = Lease.take(crew.home.session(crew.cwd, crew.session) / "lease", "a test")
    found = crew.audit()
    assert [one.pid for one in found.remains.processes] == [os.getpid()]
    assert found.problems[0].startswith(f"process {os.getpid()} lives: it drives the session of ")
    assert crew.audit(running=[os.getpid()]).clean
    lease.release()
    assert crew.audit().clean


@pytest.mark.promise("F21")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows the environment of processes")
async def test_a_command_whose_lead_is_gone_is_left(crew):
    environment = {**os.environ, MARK_VARIABLE: f"{crew.pid}.1.abcdef"}
    child = await asyncio.create_subprocess_exec("sleep", "60", env=environment)
    try:
        found = crew.audit()
    finally:
        child.kill()
        await child.wait()
    assert [one.pid for one in found.remains.processes] == [child.pid]
    assert found.problems == [f"process {child.pid} lives: it was started by process {crew.pid}, which is gone"]
    assert crew.audit().clean


@pytest.mark.promise("F21")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows the environment of processes")
async def test_a_command_of_an_earlier_process_with_the_number_of_one_that_drives_is_not_taken_for_its_own(crew):
    lease = Lease.take(crew.home.session(crew.cwd, crew.session) / "lease", "a test")
    environment = {**os.environ, MARK_VARIABLE: f"{os.getpid()}.1.abcdef"}
    child = await asyncio.create_subprocess_exec("sleep", "60", env=environment)
    try:
        assert crew.audit(running=[os.getpid()]).clean
    finally:
        child.kill()
        await child.wait()
        lease.release()


async def test_a_bell_of_a_team_that_nobody_leads_is_left(crew):
    bell = Doorbell.bind(crew.home.doorbell(crew.directory, "ann"))
    found = crew.audit()
    bell.close()
    assert found.remains.doorbells == (bell.path,)
    assert f"doorbell sockets are left in {bell.path.parent} (1), and the team has no lead" in found.problems[0]


async def test_drafts_of_writes_that_were_cut_are_listed_and_hurt_nobody(crew):
    draft = crew.home.team(crew.directory) / "config.json.tmp.0a1b2c3d"
    draft.write_text("{")
    found = crew.audit()
    assert (found.remains.debris, found.clean) == ((draft,), True)


# ── logs and damaged files ───────────────────────────────────────────────────────────────────────────────────


async def test_a_log_with_a_gap_a_number_twice_or_half_a_line_is_named(crew):
    for _ in range(3):
        await crew.send("ann", "one")
    crew.log.flush()
    lines = crew.log.path.read_bytes().splitlines(keepends=True)
    assert crew.audit().log == ()
    crew.log.path.write_bytes(lines[0] + lines[2] + lines[2] + b'{"n":4,\n' + b'{"n":4')
    found = crew.audit()
    for word in ("line 2 has number 3 behind 1", "line 3 has number 3 behind 3", "line 4 is not a whole event"):
        assert word in found.log[0]
    assert found.problems[0].startswith("the event log ")


async def test_snapshots_and_kinds_of_later_versions_are_no_gap(crew):
    crew.log.path.write_text(
        '{"n":1,"v":1,"type":"later","at":1,"member":"x"}\n{"n":1,"v":1,"type":"snapshot","state":{}}\n'
        '{"n":2,"v":1,"type":"later","at":1,"member":"x"}\n'
    )
    found = crew.audit()
    assert (found.log, found.events) == ((), 2)


@pytest.mark.promise("F04")
async def test_damaged_files_are_findings_and_what_is_whole_in_them_counts(crew):
    await crew.send("ann", "one")
    await crew.tasks.create("first", "", by=LEAD)
    box = RequestStore(crew.home.requests(crew.directory))
    box.open("one", {"kind": "shutdown"})
    inbox = crew.home.inbox(crew.directory, "ann")
    inbox.write_bytes(inbox.read_bytes()[:-1] + b',{"from":"be')
    archive = crew.home.inbox_archive(crew.directory, "ann")
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b'{"from":\n')
    files = [inbox, archive, crew.home.tasks(crew.directory) / "1.json", box.directory / "one.json"]
    files += [crew.home.config(crew.directory), crew.home.team_file(crew.directory)]
    for path in files[2:]:
        path.write_bytes(b'{"id')
    before = {path: path.read_bytes() for path in files}
    found = crew.audit(crew.directory)
    for path in files:
        assert [line for line in found.damaged if path.name in line], path
    assert found.messages.waiting == 1
    assert {path: path.read_bytes() for path in files} == before


@pytest.mark.slow
async def test_a_file_of_any_bytes_never_raises(crew):
    await crew.send("ann", "one")
    await crew.tasks.create("first", "", by=LEAD)
    crew.log.flush()
    for bytes_ in (b"", b"\0\xff\n[", b"[" * 100_000, b"null\n", b'{"n":1,"message":[1]}\n', b'[1,"x",null]\n'):
        for path in (p for p in crew.home.own.rglob("*") if p.is_file() and "prefixes" not in str(p)):
            kept = path.read_bytes()
            path.write_bytes(bytes_)
            found = crew.audit(crew.directory)
            assert isinstance(found.problems, list)
            json.dumps(found.rows())
            path.write_bytes(kept)


def test_a_team_that_is_not_there_is_an_error_with_the_nearest():
    with pytest.raises(TeamwrightError, match="there is no team 'nowhere'"):
        audit(find_home(), "nowhere")


async def test_an_audit_reads_each_file_once_however_much_was_consumed(crew):
    archive = crew.home.inbox_archive(crew.directory, "ann")
    archive.parent.mkdir(parents=True)
    entries = [
        InboxEntry(LEAD, f"words {n}", timestamp="2026-01-01T00:00:00.000Z", msg_id=f"id-{n}") for n in range(3_000)
    ]
    archive.write_bytes(b"".join(entry.encode() + b"\n" for entry in entries))
    for start in range(0, len(entries), 100):
        crew.told("ann", *entries[start : start + 100])
        crew.answers("ann")
    found = crew.audit()
    assert (found.messages.sent, found.messages.seen, found.clean) == (3_000, 3_000, True)


# ── the command, and shared lists ────────────────────────────────────────────────────────────────────────────


def audit_command(*args: str, cwd) -> subprocess.CompletedProcess:
    argv = [sys.executable, "-m", "teamwright", "audit", *args]
    return preloaded.run(argv, cwd=cwd, text=True, timeout=WAIT_S)


@pytest.mark.finding("T25")
async def test_the_audit_command_ends_with_1_and_names_the_problem_when_something_is_wrong(crew, tmp_path):
    await crew.tasks.create("Read", "", by=LEAD)
    await crew.tasks.update("1", by="ann", status="in_progress")
    clean = await asyncio.to_thread(audit_command, "crew", cwd=tmp_path)
    assert clean.returncode == 0, clean.stdout
    assert "1 open" in clean.stdout and "!" not in clean.stdout
    await Roster(RosterFile(crew.home, crew.directory)).remove("ann")
    wrong = await asyncio.to_thread(audit_command, "crew", "--json", cwd=tmp_path)
    rows = {row["row"]: row for row in json.loads(wrong.stdout)}
    assert wrong.returncode == 1
    assert rows["tasks"]["orphaned"] == ["1"] and rows["problems"]["problems"]


@pytest.mark.finding("T25")
async def test_an_audit_of_a_team_on_a_shared_list_judges_the_tasks_that_no_other_team_owns(crew):
    path = crew.home.team_file(crew.directory)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"task_list": "common"}))
    shared = TaskList(FileTaskStore(crew.home.tasks("common"), crew.home.guard), realm=f"session-{crew.session[:8]}")
    for subject in ("ours", "theirs", "free"):
        await shared.create(subject, "", by=LEAD)
    await shared.update("1", by="ann", status="in_progress")
    await shared.update("2", by="zoe@session-99999999", status="in_progress")
    found = audit(crew.home, "crew")
    assert (found.tasks.open, found.tasks.orphaned) == (2, ())
