"""Looking from outside: teams, tasks, mail, sessions and receipts, whole and damaged."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.mail.inbox import inbox_for
from teamwright.models.model import Prefix, Reply
from teamwright.protocol.errors import StorageError, TeamwrightError, UnknownMember
from teamwright.protocol.events import MemberChanged, MessageSent, ToolCalled
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import IdleNotification, InboxEntry, TaskCompleted
from teamwright.protocol.members import RosterMember
from teamwright.protocol.messages import text_block, tool_result_block
from teamwright.protocol.usage import Usage
from teamwright.saved.saved_members import find_inbox
from teamwright.saved.sessions import find_session, latest_session, session_views
from teamwright.saved.teams import find_tasks, find_team_view
from teamwright.storage.event_log import EventLog
from teamwright.storage.file_lease import Lease, lease_holder, lease_path
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.snapshots import (
    archived_teams,
    mail_views,
    resolve_home,
    team_view,
    team_views,
)
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import LeadLease
from teamwright.views.log import find_call, find_log, log_events
from tests.support.waits import WAIT_S

SESSION = "7f3a0000-0000-4000-8000-000000000001"
PREFIX = Prefix.build({"model": "m", "system": []})


@pytest.fixture
def home() -> Home:
    found = resolve_home(None)
    found.prepare()
    return found


async def make_team(home: Home, name: str = "release", *, lease: str = "/nowhere/lease", log: str = "") -> str:
    lead = LeadLease(SESSION, os.getpid(), lease)
    new = NewTeam(name, lead, "/repo", "m", int(time.time() * 1000), description="ships it", log=log)
    made = await Teams(home).create(new)
    member = RosterMember(f"tess@{name}", "tess", model="m", backend_type="in-process", joined_at=1)
    await Roster(RosterFile(home, made.directory)).join(member)
    return made.directory


async def write_to(home: Home, directory: str, name: str, entry: InboxEntry) -> str:
    path = home.inbox(directory, name)
    return await inbox_for(path, home.guard(path), home.inbox_archive(directory, name)).put(entry)


def make_session(home: Home, cwd: Path, id: str = SESSION, prompt: str = "count the lines") -> Conversation:
    path = home.transcript(cwd, id)
    made = Conversation.start(path, PREFIX, {"session": id, "member": LEAD, "cwd": str(cwd), "model": "m"})
    made.append_user_message(UserMessage((text_block(prompt),), ("prompt:1",)))
    return made


def called(call: str, output: str, member: str = LEAD, command: str = "git log") -> ToolCalled:
    return ToolCalled(
        member=member,
        call=call,
        tool="Bash",
        summary=command,
        outcome="done",
        seconds=0.5,
        input={"command": command},
        output=output[:4000],
    )


def bash_round(talk: Conversation, id: str, command: str, output: str) -> None:
    use = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": command}}
    talk.append_reply(Reply([use], "tool_use", Usage(), "m"))
    talk.append_user_message(UserMessage((tool_result_block(id, output),)))


# ── teams, tasks, mail ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_team_is_live_exactly_as_long_as_a_process_holds_its_lease(home: Home, tmp_path: Path):
    path = tmp_path / "lease"
    lease = Lease.take(path, "a session")
    directory = await make_team(home, lease=str(path))
    live = team_view(home, directory)
    assert (live.state, live.lead_pid) == ("live", os.getpid())
    assert [(m.name, m.state) for m in live.members] == [("lead", "live"), ("tess", "live")]
    lease.release()
    dead = team_view(home, directory)
    assert (dead.state, dead.lead_pid) == ("finished", 0)
    assert {m.state for m in dead.members} == {"not running"}


@pytest.mark.promise("P3")
def test_a_lease_of_a_killed_process_counts_as_free_though_its_note_is_still_there(tmp_path: Path):
    path = tmp_path / "lease"
    code = (
        "import sys, pathlib\nfrom teamwright.storage.file_lease import Lease\n"
        "held = Lease.take(pathlib.Path(sys.argv[1]), 'x')\nprint('held', flush=True)\nsys.stdin.read()"
    )
    args = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout and child.stdout.readline() == "held\n"
        assert lease_holder(path) == child.pid
        child.kill()
        child.wait(timeout=WAIT_S)
    assert path.read_bytes()
    assert lease_holder(path) == 0


async def test_a_team_without_its_lead_is_open_while_a_task_or_a_message_waits(home: Home):
    directory = await make_team(home)
    assert team_view(home, directory).state == "finished"
    tasks = TaskList(FileTaskStore(home.tasks(directory), home.guard))
    task = await tasks.create("write it", "all of it", by="tess")
    assert team_view(home, directory).state == "open"
    await tasks.update(task.id, by="tess", status="completed")
    assert team_view(home, directory).state == "finished"
    await write_to(home, directory, "tess", InboxEntry("team-lead", "are you there?"))
    view = team_view(home, directory)
    assert (view.state, view.unread) == ("open", 1)


async def test_a_notice_that_somebody_is_idle_does_not_keep_a_team_open(home: Home):
    directory = await make_team(home)
    notice = IdleNotification(sender="tess", timestamp="2026-11-20T00:00:00.000Z")
    await write_to(home, directory, LEAD, InboxEntry("tess", notice.encode()))
    view = team_view(home, directory)
    assert (view.state, view.unread, view.members[0].messages) == ("finished", 0, 1)


async def test_tasks_show_in_numeric_order_with_what_they_wait_for_and_a_damaged_file_as_damaged(home: Home):
    directory = await make_team(home)
    tasks = TaskList(FileTaskStore(home.tasks(directory), home.guard))
    first = await tasks.create("one", "d", by="tess")
    for number in range(2, 11):
        await tasks.create(f"task {number}", "d", by="tess", blocked_by=[first.id] if number == 2 else [])
    (home.tasks(directory) / "3.json").write_text('{"id": "3", "subj')
    of_others = {"id": "4", "subject": "x", "description": "", "status": "pending", "blocks": [], "blockedBy": []}
    (home.tasks(directory) / "4.json").write_text(json.dumps(of_others | {"metadata": {"_internal": True}}))
    views = find_tasks(home, "release")
    assert [view.id for view in views] == ["1", "2", "3", "5", "6", "7", "8", "9", "10"]
    assert views[1].waits_for == ("1",)
    assert views[2].damaged and views[2].open
    assert not views[0].damaged


async def test_the_list_of_a_session_without_a_team_is_found_by_its_directory(home: Home):
    await TaskList(FileTaskStore(home.tasks("session-7f3a0000"), home.guard)).create("alone", "d", by=LEAD)
    assert [view.subject for view in find_tasks(home, "session-7f3a0000")] == ["alone"]
    with pytest.raises(TeamwrightError) as caught:
        find_tasks(home, "session-ffff0000")
    assert caught.value.slug == "unknown-team"


async def test_a_damaged_roster_or_team_file_is_shown_as_damaged_and_hides_no_other_team(home: Home):
    broken, half, _ = [await make_team(home, name) for name in ("broken", "half", "whole")]
    home.config(broken).write_bytes(b'{"name": "brok')
    home.team_file(half).write_bytes(b"[]")
    (home.shared / "teams" / "empty").mkdir()
    views = {view.directory: view for view in team_views(home)}
    assert set(views) == {"broken", "half", "empty", "whole"}
    assert "config.json" in views["broken"].damaged
    assert views["broken"].state == "open"
    assert "team.json" in views["half"].damaged
    assert views["half"].name == "half"
    assert views["empty"].damaged
    assert not views["whole"].damaged


async def test_a_team_of_another_product_is_foreign_and_its_members_are_as_they_say(home: Home):
    directory = await make_team(home)
    home.team_file(directory).unlink()
    config = json.loads(home.config(directory).read_text())
    config["members"][1] |= {"backendType": "tmux", "isActive": True}
    home.config(directory).write_text(json.dumps(config))
    view = team_view(home, directory)
    assert (view.state, view.members[1].state) == ("foreign", "at work, it says")


async def test_a_team_is_found_by_name_or_directory_and_the_nearest_is_named_otherwise(home: Home):
    await make_team(home, "Release 2")
    assert find_team_view(home, "Release 2") == find_team_view(home, "release-2")
    with pytest.raises(TeamwrightError) as caught:
        find_team_view(home, "relaese 2")
    assert caught.value.slug == "unknown-team"
    assert "Release 2" in caught.value.do[0]


async def test_an_archived_team_is_found_behind_the_living_one_with_tasks_and_mail(home: Home):
    directory = await make_team(home)
    await TaskList(FileTaskStore(home.tasks(directory), home.guard)).create("left over", "d", by="tess")
    await write_to(home, directory, "tess", InboxEntry("team-lead", "bye"))
    await Teams(home).delete(directory)
    (home.archive / "release-tasksonly" / "tasks").mkdir(parents=True)
    old = find_team_view(home, "release", archived=True)
    assert (old.state, [task.subject for task in old.tasks]) == ("archived", ["left over"])
    assert [mail.text for mail in mail_views(find_inbox(old, "tess"))] == ["bye"]
    assert len(archived_teams(home)) == 1
    await make_team(home)
    assert find_team_view(home, "release", archived=True).state == "finished"


async def test_mail_is_shown_in_order_and_looking_changes_no_byte(home: Home):
    directory = await make_team(home)
    id = await write_to(home, directory, "tess", InboxEntry("team-lead", "first", summary="one"))
    done = TaskCompleted(sender="ben", task_id="1", timestamp="2026-11-20T00:00:00.000Z")
    await write_to(home, directory, "tess", InboxEntry("ben", done.encode()))
    before = home.inbox(directory, "tess").read_bytes()
    view = team_view(home, directory)
    mail = mail_views(find_inbox(view, "TESS"))
    assert [(one.sender, one.kind, one.read) for one in mail] == [("lead", "", False), ("ben", "task_completed", False)]
    assert (mail[0].id, mail[0].summary) == (id, "one")
    assert home.inbox(directory, "tess").read_bytes() == before
    assert mail_views(find_inbox(view, "lead")) == []


async def test_mail_of_nobody_names_the_members_and_of_a_damaged_inbox_says_so(home: Home):
    directory = await make_team(home)
    view = team_view(home, directory)
    with pytest.raises(UnknownMember) as caught:
        mail_views(find_inbox(view, "tessa"))
    assert "tess" in caught.value.do[0]
    home.inbox(directory, "tess").parent.mkdir(exist_ok=True)
    home.inbox(directory, "tess").write_bytes(b'[{"from": "x"')
    with pytest.raises(StorageError):
        mail_views(find_inbox(view, "tess"))
    damaged = team_view(home, directory)
    assert damaged.members[1].unread == -1
    assert (damaged.unread, damaged.state) == (0, "open")


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_sessions_of_a_directory_are_listed_newest_first_with_the_prompt_that_began_them(home: Home, tmp_path: Path):
    here, other = tmp_path / "a-b", tmp_path / "a" / "b"  # both have the same slug
    for number, cwd in enumerate((here, here, other), 1):
        talk = make_session(home, cwd, f"{number}f3a0000-0000-4000-8000-000000000001", f"prompt {number}")
        os.utime(talk.path, (number, number))
        talk.close()
    assert home.project(here) == home.project(other)
    assert [view.prompt for view in session_views(home, here)] == ["prompt 2", "prompt 1"]
    assert [view.prompt for view in session_views(home)] == ["prompt 3", "prompt 2", "prompt 1"]
    assert latest_session(home, here).prompt == "prompt 2"


def test_a_session_says_which_process_drives_it_now(home: Home, tmp_path: Path):
    make_session(home, tmp_path).close()
    lease = Lease.take(lease_path(home.session(tmp_path, SESSION)), "session")
    assert session_views(home, tmp_path)[0].pid == os.getpid()
    lease.release()
    assert session_views(home, tmp_path)[0].pid == 0


def test_damaged_transcripts_are_listed_as_damaged_and_never_chosen(home: Home, tmp_path: Path):
    make_session(home, tmp_path).close()
    for name, content in (
        ("aaaa0000-0000-4000-8000-000000000001", b""),
        ("bbbb0000", b'{"v": 99}\n'),
        ("cccc", b"\xff\x00\n"),
    ):
        (home.project(tmp_path) / f"{name}.jsonl").write_bytes(content)
    views = {view.id: view for view in session_views(home, tmp_path)}
    assert sum(bool(view.damaged) for view in views.values()) == 3
    assert latest_session(home, tmp_path).id == SESSION


def test_a_session_is_found_by_a_beginning_of_its_id_and_an_ambiguous_one_lists_them(home: Home, tmp_path: Path):
    make_session(home, tmp_path, "7f3a0000-0000-4000-8000-000000000001").close()
    make_session(home, tmp_path, "7f3b0000-0000-4000-8000-000000000001").close()
    assert find_session(home, tmp_path, "7F3B").id.startswith("7f3b")
    assert find_session(home, Path("/elsewhere"), "7f3a").cwd == str(tmp_path)
    for wanted, word in (("7f3", "2 sessions"), ("", "no session"), ("zz", "no session")):
        with pytest.raises(TeamwrightError, match=word) as caught:
            find_session(home, tmp_path, wanted)
        assert caught.value.slug == "unknown-session"


# ── logs and receipts ────────────────────────────────────────────────────────────────────────────────────────


def write_log(path: Path, *events) -> None:
    log = EventLog(path)
    for event in events:
        log.emit(event)
    log.close()


async def test_a_log_is_found_by_team_by_session_and_without_a_name(home: Home, tmp_path: Path):
    talk = make_session(home, tmp_path)
    log = talk.path.with_suffix("") / "events.jsonl"
    write_log(log, MemberChanged(member="tess", state="idle"))
    directory = await make_team(home, log=str(log))
    by_team, by_id, newest = (find_log(home, tmp_path, name) for name in ("release", "7f3a", None))
    assert by_team.path == by_id.path == newest.path == log
    assert by_team.team == "release"
    await Teams(home).delete(directory)
    assert find_log(home, tmp_path, "release").path == log
    with pytest.raises(TeamwrightError) as caught:
        find_log(home, tmp_path, "nobody")
    assert caught.value.slug == "unknown-team"


def test_a_log_is_read_by_member_and_from_a_time_on_and_a_torn_end_is_left_out(home: Home, tmp_path: Path):
    talk = make_session(home, tmp_path)
    path = talk.path.with_suffix("") / "events.jsonl"
    write_log(
        path,
        MemberChanged(member=LEAD, state="working", at=100),
        MemberChanged(member="tess", state="idle", at=200),
        MessageSent(member=LEAD, to="tess", message_id="1", summary="s", at=300),
    )
    with open(path, "ab") as file:
        file.write(b'{"n":4,"v":1,"type":"member_ch')
    log = find_log(home, tmp_path, None)
    assert [n for n, _ in log_events(log)] == [1, 2, 3]
    assert [n for n, _ in log_events(log, member="lead")] == [1, 3]
    assert [n for n, _ in log_events(log, since=200)] == [2, 3]


def test_a_receipt_takes_the_whole_output_from_the_transcript_where_the_log_is_cut(home: Home, tmp_path: Path):
    long = "".join(f"{n}\n" for n in range(3000))
    talk = make_session(home, tmp_path)
    bash_round(talk, "t1", "git log", "short")
    bash_round(talk, "t2", "seq 3000", long)
    path = talk.path.with_suffix("") / "events.jsonl"
    write_log(
        path, called("c1", "short"), called("c2", long, command="seq 3000"), called("c3", long, "gone", "seq 3000")
    )
    log = find_log(home, tmp_path, None)
    assert (find_call(log, "c1").output, find_call(log, "1").member) == ("short", "lead")
    whole = find_call(log, "c2")
    assert (whole.output, whole.complete) == (long, True)
    cut = find_call(log, "c3")
    assert (len(cut.output), cut.complete) == (4000, False)
    with pytest.raises(TeamwrightError, match="no call c9"):
        find_call(log, "c9")


def test_a_receipt_of_a_member_comes_from_the_transcript_of_the_right_life(home: Home, tmp_path: Path):
    long = "x" * 5000
    make_session(home, tmp_path).close()
    for stem, output in (("tess", "y" * 5000), ("tess-2", long)):
        talk = Conversation.start(home.agent_transcript(tmp_path, SESSION, stem), PREFIX, {"session": SESSION})
        talk.append_user_message(UserMessage((text_block("go"),)))
        bash_round(talk, "t1", "git log", output)
        talk.close()
    write_log(home.session(tmp_path, SESSION) / "events.jsonl", called("c1", long, "tess"))
    assert find_call(find_log(home, tmp_path, None), "c1").output == long
