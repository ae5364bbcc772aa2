"""What is too old goes when a session begins, and nothing else does."""

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.models.model import Prefix
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.saved import retention
from teamwright.saved.retention import MOST
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.event_log import read_events
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import Home, find_home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.shared_task_lists import create_shared_list
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import Incarnation, LeadLease, TeamStateFile
from teamwright.testing import ScriptedModel
from teamwright.ui.cli.main import main

CWD = Path("/repo")
DAY_S = 86_400


@pytest.fixture
def home(own_home: Path) -> Home:
    made = find_home()
    made.prepare()
    for number in range(90, 94):
        a_session(made, number, days=0)
    return made


async def prune(home: Home, days: float, keep: str = "") -> list[str]:
    return (await retention.prune(home, days, keep=keep)).sessions


def id_of(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000001"


def a_session(home: Home, number: int = 1, days: float = 31, cwd: Path = CWD) -> Path:
    """A session with a log and a member's transcript, all of it that old."""
    id = id_of(number)
    prefix = Prefix.build({"model": "m", "system": []})
    talk = Conversation.start(home.transcript(cwd, id), prefix, {"session": id, "member": LEAD, "cwd": str(cwd)})
    talk.append_user_message(UserMessage((text_block("hi"),), ()))
    talk.close()
    directory = home.session(cwd, id)
    for name in ("events.jsonl", "lease", "agents/ada.jsonl", "output/c1.txt"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("")
    aged(talk.path, days)
    return directory


def aged(transcript: Path, days: float) -> None:
    then = time.time() - days * DAY_S
    for path in (*transcript.with_suffix("").rglob("*"), transcript.with_suffix(""), transcript):
        os.utime(path, (then, then))


async def a_team_of(home: Home, number: int, name: str = "crew") -> str:
    lead = LeadLease(id_of(number), 2_000_000_000, str(home.session(CWD, id_of(number)) / "lease"))
    return (await Teams(home).create(NewTeam(name, lead, str(CWD), "m", 1))).directory


@pytest.mark.promise("F55")
async def test_only_a_session_in_which_nothing_changed_for_so_long_goes_with_all_of_it(home):
    old, young, touched = a_session(home, 1), a_session(home, 2, days=29), a_session(home, 3)
    (touched / "output/c1.txt").write_text("more")
    assert await prune(home, 30) == [id_of(1)]
    assert not old.exists() and not old.with_suffix(".jsonl").exists()
    assert young.exists() and touched.exists() and young.with_suffix(".jsonl").exists()
    assert await prune(home, 30) == []
    assert await prune(home, 0) == [], "0 keeps everything"
    assert await prune(home, 1) == [id_of(2)]


@pytest.mark.promise("F55", "D8")
async def test_a_session_stays_while_its_team_is_on_disk_whoever_leads_it_now(home):
    for number in (1, 2, 3):
        a_session(home, number)
    directory = await a_team_of(home, 1)
    life = Incarnation(1, str(home.agent_transcript(CWD, id_of(2), "ada")), "m-1")
    await TeamStateFile(home, directory).change(lambda file: file.with_incarnation("ada", life))
    assert await prune(home, 30) == [id_of(3)], "one led it, in the other one lies the transcript of a member"
    await Teams(home).delete(directory)
    assert sorted(await prune(home, 30)) == [id_of(1), id_of(2)]


@pytest.mark.promise("F18", "F55")
async def test_a_session_stays_while_its_own_list_has_an_open_task_and_then_the_list_is_archived(home):
    a_session(home)
    tasks = TaskList(FileTaskStore(home.tasks("session-00000001"), home.guard))
    task = await tasks.create("count", "lines", by=LEAD)
    assert await prune(home, 30) == []
    await tasks.update(task.id, by=LEAD, status="completed")
    assert await prune(home, 30) == [id_of(1)]
    assert not tasks.store.directory.exists()
    [entry] = home.archive.iterdir()
    assert (entry / "tasks/1.json").exists()


@pytest.mark.promise("F55", "P3")
async def test_a_session_that_somebody_drives_stays_and_so_does_the_one_that_is_resumed(home):
    directory = a_session(home)
    assert await prune(home, 30, keep=id_of(1)) == []
    lease = Lease.take(directory / "lease", "a session")
    aged(directory.with_suffix(".jsonl"), 31)
    try:
        assert await prune(home, 30) == []
    finally:
        lease.release()
    aged(directory.with_suffix(".jsonl"), 31)
    assert await prune(home, 30) == [id_of(1)]


@pytest.mark.promise("F55")
@pytest.mark.parametrize("damage", [lambda path: path.write_text("{torn"), lambda path: path.chmod(0)])
async def test_while_a_team_cannot_be_read_no_session_goes(home, damage: Callable[[Path], object]):
    a_session(home)
    directory = await a_team_of(home, 2)
    if damage(home.team_file(directory)) is None and os.geteuid() == 0:
        pytest.skip("root reads everything")
    assert await prune(home, 30) == []
    (home.shared / "teams" / "empty").mkdir()
    home.team_file(directory).chmod(0o600)
    await Teams(home).delete(directory)
    assert await prune(home, 30) == [id_of(1)], "a directory without any file is no team"


async def test_one_start_removes_so_many_the_oldest_first_and_the_next_goes_on(home):
    for number in range(1, MOST + 3):
        a_session(home, number, days=100 - number)
    for number in range(100, 100 + 3 * MOST):
        a_session(home, number, days=0)
    first = await prune(home, 30)
    assert first == [id_of(number) for number in range(1, MOST + 1)]
    assert len(await prune(home, 30)) == 2


async def test_what_a_kill_in_the_middle_left_goes_the_next_time_and_what_is_no_session_stays(home):
    directory = a_session(home)
    directory.with_suffix(".jsonl").unlink()
    notes = directory.parent / "notes.txt"
    notes.write_text("mine")
    os.utime(notes, (1, 1))
    begins = home.session(CWD, id_of(2))
    begins.mkdir()
    assert await prune(home, 30) == [id_of(1)]
    assert notes.exists() and begins.exists(), "a session that begins at this moment has no file yet"


@pytest.mark.promise("F55")
async def test_a_session_that_begins_prunes_by_the_setting_and_one_that_is_resumed_keeps_itself(home, tmp_path):
    old = a_session(home, 1, cwd=tmp_path)
    other = a_session(home, 2, cwd=tmp_path)
    for number in range(100, 104):
        a_session(home, number, days=0)
    async with open_session(Options(cwd=tmp_path, model=ScriptedModel("ok"))) as session:
        assert session.id not in (id_of(1), id_of(2))
        (home.own / "settings.json").write_text('{"retention_days": 0}')
    assert not old.exists() and not other.exists()
    said = [event.text for _, event in read_events(session.log.path) if isinstance(event, Notice)]
    assert len(said) == 1 and said[0].startswith("Removed 2 sessions (0000000")
    old = a_session(home, 1, cwd=tmp_path)
    async with open_session(Options(cwd=tmp_path, model=ScriptedModel("ok"))):
        pass
    assert old.exists()


@pytest.mark.finding("3L12")
async def test_sessions_that_begin_soon_after_a_look_in_vain_do_not_read_the_whole_home_again(home, tmp_path):
    async def begin() -> None:
        async with open_session(Options(cwd=tmp_path, model=ScriptedModel("ok"))):
            pass

    await begin()
    looked = home.own / retention.LOOKED_FILE
    assert looked.read_text() == "30"
    for number in range(1, 5):
        a_session(home, number, cwd=tmp_path, days=40 if number == 1 else 0)
    old = home.transcript(tmp_path, id_of(1))
    await begin()
    assert old.exists(), "within the hour nobody looks"
    past = time.time() - retention.AGAIN_S - 60
    os.utime(looked, (past, past))
    await begin()
    assert not old.exists() and looked.stat().st_mtime == pytest.approx(past), "more may be left: the next one looks"
    await begin()
    assert looked.stat().st_mtime > past + 60
    assert (await retention.prune_hourly(home, 29)).days == 29 and looked.read_text() == "29", (
        "another age is looked at"
    )


@pytest.mark.promise("E7")
async def test_old_shell_snapshots_go_and_the_session_s_own_stays(home):
    home.shell_snapshots.mkdir()
    for name in (f"{id_of(1)}.sh", f"{id_of(2)}.sh", ".left.dump"):
        (home.shell_snapshots / name).write_text("")
        os.utime(home.shell_snapshots / name, (1, 1))
    (home.shell_snapshots / f"{id_of(3)}.sh").write_text("")
    await prune(home, 30, keep=id_of(2))
    assert {path.name for path in home.shell_snapshots.iterdir()} == {f"{id_of(2)}.sh", f"{id_of(3)}.sh"}


@pytest.mark.finding("D3")
@pytest.mark.promise("F55")
async def test_a_clock_that_runs_ahead_removes_nothing_and_no_call_removes_more_than_a_quarter(home, monkeypatch):
    for number in range(1, 9):
        a_session(home, number, days=number)
    archived = home.archive / "crew"
    archived.mkdir(parents=True)
    ahead = time.time() + 60 * DAY_S
    monkeypatch.setattr("teamwright.saved.retention.time.time", lambda: ahead)
    assert await prune(home, 30) == [] and archived.exists(), "ages count from the newest session"
    a_session(home, 50, days=0)
    aged(home.transcript(CWD, id_of(50)), -60)
    removed = await retention.prune(home, 30)
    assert removed.sessions == [id_of(number) for number in (8, 7, 6, 5)], "one of four, the oldest first"
    assert "Removed 4 sessions (00000008, " in str(removed) and "30 days" in str(removed)


@pytest.mark.finding("T25")
async def test_finished_tasks_leave_a_shared_list_with_their_guards_a_quarter_at_once_and_the_rest_stays(home):
    directory = home.tasks("common")
    tasks = TaskList(FileTaskStore(directory, home.guard))
    create_shared_list(directory)
    for number in range(8):
        await tasks.create(f"task {number}", "", by="ada", owner="ada")
    for id in ("1", "2", "3", "4", "5"):
        await tasks.update(id, by="ada", status="completed")
    await tasks.update("8", by="ada", add_blocked_by=["1"])  # an open task is tied to it
    for number in range(1, 7):  # 6 is open, however old
        then = time.time() - (100 - number) * DAY_S
        os.utime(directory / f"{number}.json", (then, then))
    removed = await retention.prune(home, 30)
    assert (removed.tasks, numbers(directory)) == ({"common": 2}, [1, 4, 5, 6, 7, 8])
    assert "Archived 2 finished tasks of the shared list common" in str(removed)
    await retention.prune(home, 30)
    await retention.prune(home, 30)
    assert numbers(directory) == [1, 6, 7, 8]
    assert numbers(home.guard(directory / "1.json").parent) == [1, 8]  # 6 and 7 were never changed
    assert sorted(path.name for path in home.archive.glob("common-*/tasks/*.json")) == [
        f"{n}.json" for n in (2, 3, 4, 5)
    ]
    assert (await tasks.create("next", "", by="ada")).id == "9"
    assert (await retention.prune(home, 30)).tasks == {}


@pytest.mark.finding("T25")
async def test_guards_of_a_list_that_is_no_more_go_and_those_of_one_that_is_there_stay(home):
    for name in ("gone", "there"):
        tasks = TaskList(FileTaskStore(home.tasks(name), home.guard))
        await tasks.create("one", "", by="ada")
        guard = home.guard(home.tasks(name) / ".lock")
        await tasks.update("1", by="ada", status="completed")
        for path in guard.parent.iterdir():
            os.utime(path, (0, 0))
    shutil.rmtree(home.tasks("gone"))
    await retention.prune(home, 30)
    assert not home.guard(home.tasks("gone") / "1.json").exists()
    assert home.guard(home.tasks("there") / "1.json").exists()


def numbers(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.json"))


@pytest.mark.finding("T16")
async def test_finished_teams_go_into_the_archive_by_age_and_those_with_something_open_stay(home):
    for number, name in enumerate(("old", "busy", "new", "other"), 1):
        directory = await a_team_of(home, number, name)
        if name == "busy":
            await TaskList(FileTaskStore(home.tasks(directory), home.guard)).create("open", "it is", by=LEAD)
        then = time.time() - (0 if name == "new" else 40 * DAY_S)
        place = home.team(directory)
        for path in (*place.rglob("*"), place, *home.tasks(directory).rglob("*")):
            os.utime(path, (then, then))
    made = await retention.prune(home, 30)
    assert made.finished == ["old"] and "Archived 1 finished team (old)" in str(made), "a quarter of four at once"
    assert await asyncio.to_thread(main, ["teams", "rm", "--finished", "--older", "7d"]) == 0
    assert sorted(path.name for path in (home.shared / "teams").iterdir()) == ["busy", "new"]
    assert await asyncio.to_thread(main, ["teams", "rm", "--finished"]) == 0
    assert [path.name for path in (home.shared / "teams").iterdir()] == ["busy"]
    for wrong in (["--finished", "--older", "soon"], [], ["crew", "--finished"], ["crew", "--older", "7d"]):
        assert await asyncio.to_thread(main, ["teams", "rm", *wrong]) == 2
