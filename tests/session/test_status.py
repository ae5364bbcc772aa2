"""A team's standing: for the lead, in its own process; and for anybody else, from files that may be whole or not."""

import asyncio
import json
import os
import time
from importlib import resources
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.agent.tool_input import NoInput
from teamwright.mail.inbox import inbox_for
from teamwright.models.model import AlivePart
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import MemberChanged, Notice, Progress, RequestOpened, SessionOpened, TeamChanged
from teamwright.protocol.ids import LEAD, now_ms
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import RosterMember
from teamwright.storage.event_log import EventLog
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.snapshots import resolve_home
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import LeadLease
from teamwright.team_records.team_status import TeamStatus
from teamwright.testing import ScriptedModel
from teamwright.tools.caller import Caller
from teamwright.tools.team.list_agents import ListAgents
from teamwright.views.status import StatusReader, StatusView, status_views
from tests.support.waits import WAIT_S

SESSION = "7f3a0000-0000-4000-8000-000000000002"


# ── in the process of the team ───────────────────────────────────────────────────────────────────────────────


class Moody(ScriptedModel):
    """Members think until they are let go, wait for a rate limit, or break."""

    def __init__(self) -> None:
        super().__init__("ok")
        self.go = asyncio.Event()
        self.broken = {"cyd"}

    async def stream(self, request):
        if request.agent_name in self.broken:
            raise ZeroDivisionError("a mistake of a program's model")
        if request.agent_name == "ben":
            yield AlivePart("the rate limit")
        if request.agent_name in {"ada", "ben"}:
            await self.go.wait()
        async for part in super().stream(request):
            yield part


async def listed(team: Team) -> dict[str, dict]:
    tool = ListAgents(Caller(LEAD, team.session.team))
    made = json.loads((await tool.run(NoInput(), None)).content)
    return {one["name"]: one for one in made["members"]}


async def until(team: Team, fits) -> None:
    """Until an event fits; what was logged before counts."""
    async with asyncio.timeout(WAIT_S):
        async for _, event in team.events(after=0, answers=False):
            if fits(event):
                return


def told(member: str, doing: str, *, stalled: bool = False):
    return lambda e: isinstance(e, Progress) and (e.member, e.doing, e.stalled) == (member, doing, stalled)


@pytest.mark.promise("D7", "F24", "D2")
async def test_the_lead_is_told_who_works_waits_stalls_and_failed_until_that_one_is_replaced(tmp_path):
    model = Moody()
    async with Team("crew", model=model, cwd=tmp_path) as team:
        watchdog = team.session.agent_factory.watchdog
        watchdog.notify_s, watchdog.stalled_s = 0.01, 3600.0
        for name in ("ada", "ben", "cyd", "dan"):
            await team.spawn(name, "Work.")
        await until(team, told("ada", "model"))
        await until(team, told("ben", "pause"))
        await until(team, lambda e: isinstance(e, MemberChanged) and (e.member, e.state) == ("cyd", "failed"))
        await until(team, lambda e: isinstance(e, MemberChanged) and (e.member, e.state, e.turn) == ("dan", "idle", 1))
        seen = await listed(team)
        assert (seen["ada"]["state"], seen["ada"]["doing"]) == ("working", "the model answers")
        assert (seen["ben"]["state"], seen["ben"]["waiting_for"]) == ("waiting", "the rate limit")
        assert seen["cyd"]["state"] == "failed" and "ZeroDivisionError" in seen["cyd"]["reason"]
        assert (seen["dan"]["state"], seen["dan"]["tokens"]) == ("idle", 0)
        view = StatusReader(resolve_home(None), "crew").read()
        assert {one.name: one.state for one in view.members} == {
            "lead": "idle",
            "ada": "working",
            "ben": "waiting",
            "cyd": "failed",
            "dan": "idle",
        }
        model.broken.clear()
        await team.spawn("cyd", "Work again.")
        assert (await listed(team))["cyd"]["state"] in {"working", "idle"}
        model.go.set()


@pytest.mark.promise("D7", "F40")
async def test_a_member_of_whom_nothing_comes_shows_as_stalled_and_its_next_word_ends_that(tmp_path):
    model = Moody()
    async with Team("crew", model=model, cwd=tmp_path) as team:
        watchdog = team.session.agent_factory.watchdog
        watchdog.notify_s, watchdog.stalled_s = 0.005, 0.02
        await team.spawn("ada", "Work.")
        await until(team, told("ada", "model", stalled=True))
        assert (await listed(team))["ada"]["state"] == "stalled"
        watchdog.stalled_s = 3600.0
        model.go.set()
        await until(team, lambda e: isinstance(e, MemberChanged) and (e.member, e.state, e.turn) == ("ada", "idle", 1))
        assert (await listed(team))["ada"]["state"] == "idle"


@pytest.mark.promise("F67", "D7")
async def test_after_the_team_is_removed_the_lead_has_nobody_to_list(tmp_path):
    async with Team("crew", model=ScriptedModel("ok"), cwd=tmp_path) as team:
        inner = team.session.team
        assert list(await listed(team)) == ["lead"]
        await inner.teams.archive(inner.directory)
        inner.forget()
        tool = ListAgents(Caller(LEAD, inner))
        assert json.loads((await tool.run(NoInput(), None)).content) == {"members": []}
        assert team.session.log.state.team == ""
        assert status_views(resolve_home(None), tmp_path) == []


async def test_a_gap_is_noticed_by_the_state_of_the_file_that_an_event_names(tmp_path):
    async with Team("crew", model=ScriptedModel("ok"), cwd=tmp_path) as team:
        marks = []
        team.session.log.subscribe(lambda _n, e: marks.append(getattr(e, "file", None)), live=False)
        await team.session.team.tasks.create("one", "d", by=LEAD)
        await team.send("lead", "hello")
        home = resolve_home(None)
        found = {mark.name: mark for mark in marks if mark is not None}
        assert set(found) == {"tasks/crew/1.json", "teams/crew/inboxes/team-lead.json"}
        for name, mark in found.items():
            stat = (home.shared / name).stat()
            assert (stat.st_size, stat.st_mtime_ns) == (mark.size, mark.mtime_ns)


# ── from files ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def home() -> Home:
    found = resolve_home(None)
    found.prepare()
    return found


async def make_team(home: Home, cwd: Path, *, lease: str = "/nowhere/lease", name: str = "release") -> Path:
    """A team with a member, a task, a message; returns where its log belongs."""
    log = home.session(cwd, SESSION) / "events.jsonl"
    new = NewTeam(name, LeadLease(SESSION, os.getpid(), lease), str(cwd), "m", int(time.time() * 1000), log=str(log))
    made = await Teams(home).create(new)
    await Roster(RosterFile(home, made.directory)).join(
        RosterMember(f"tess@{name}", "tess", model="m", backend_type="in-process")
    )
    tasks = TaskList(FileTaskStore(home.tasks(made.directory), home.guard))
    first = await tasks.create("find", "d", by=LEAD)
    await tasks.create("fix", "d", by=LEAD, blocked_by=[first.id])
    path = home.inbox(made.directory, "tess")
    await inbox_for(path, home.guard(path), home.inbox_archive(made.directory, "tess")).put(InboxEntry("ben", "fixed?"))
    return log


def write_log(path: Path, *events, closed: bool = True) -> None:
    log = EventLog(path, TeamStatus())
    for event in events:
        log.emit(event)
    log.close() if closed else log.flush()


OPENED = SessionOpened(member=LEAD, pid=1, at=1.0)
LED = TeamChanged(member=LEAD, team="release", directory="release", change="created", at=2.0)


def moved(name: str, state: str, at: float = 3.0, **more) -> MemberChanged:
    return MemberChanged(member=name, state=state, at=at, incarnation=0 if name == LEAD else 1, **more)


def states(view: StatusView) -> dict[str, str]:
    return {one.name: one.state for one in view.members}


@pytest.mark.promise("P3", "D7")
async def test_a_lease_that_nobody_holds_makes_the_members_dead_and_a_log_that_was_closed_says_it_ended(home, tmp_path):
    log = await make_team(home, tmp_path)
    asks = RequestOpened(member="tess", request="r", kind="permission", tool="Bash", what="rm x", at=4.0)
    write_log(log, OPENED, LED, moved(LEAD, "working"), moved("tess", "blocked", detail="x"), asks, closed=False)
    [view] = status_views(home, tmp_path, "release")
    assert states(view) == {"lead": "dead", "tess": "dead"}
    assert (view.requests, view.resume, view.unread) == ((), "teamwright resume release", 1)
    assert [(t.id, t.waits_for) for t in view.tasks] == [("1", ()), ("2", ("1",))]
    log.unlink()
    write_log(log, OPENED, LED, moved(LEAD, "idle"), moved("tess", "suspended", detail="left"))
    [view] = status_views(home, tmp_path, "release")
    assert states(view) == {"lead": "completed", "tess": "suspended"} and view.in_order


@pytest.mark.promise("D7")
async def test_a_reader_takes_in_what_comes_and_open_requests_are_those_of_log_and_files(home, tmp_path):
    lease = Lease.take(tmp_path / "lease", "a test")
    log = await make_team(home, tmp_path, lease=str(lease.path))
    reader = StatusReader(home, "release")
    assert states(reader.read()) == {"lead": "unknown", "tess": "unknown"}  # the log is not there yet
    asks = RequestOpened(member="tess", request="r", kind="permission", tool="Bash", what="rm x", at=4.0)
    write_log(log, OPENED, LED, moved(LEAD, "working", turn=1), moved("tess", "working"), asks, closed=False)
    box = home.requests("release")
    box.mkdir(parents=True, exist_ok=True)
    body = {"id": "shutdown-1@tess", "kind": "shutdown", "target": "tess", "opened_at": 9000, "reason": "done"}
    (box / "shutdown-1@tess.json").write_text(json.dumps(body))
    (box / "old.json").write_text(json.dumps(body))
    (box / "old.answer.json").write_text("{}")
    (box / "torn.json").write_text('{"id"')
    view = reader.read()
    assert states(view) == {"lead": "working", "tess": "blocked"}
    assert [(one.kind, one.asker, one.what) for one in view.requests] == [
        ("damaged", "", "the file is not a whole request"),
        ("permission", "tess", "rm x"),
        ("shutdown", "tess", "done"),
    ]
    assert sorted(os.listdir(box)) == ["old.answer.json", "old.json", "shutdown-1@tess.json", "torn.json"]
    lease.release()


async def test_a_log_without_snapshots_and_without_the_newer_events_is_read_all_the_same(home, tmp_path):
    lease = Lease.take(tmp_path / "lease", "a test")
    log = EventLog(await make_team(home, tmp_path, lease=str(lease.path)))
    log.emit(MemberChanged(member=LEAD, state="working"))
    for state in ("idle", "working", "idle"):
        log.emit(MemberChanged(member="tess", state=state))
    log.flush()
    [view] = status_views(home, tmp_path)
    assert states(view) == {"lead": "working", "tess": "idle"}
    lease.release()


async def test_a_session_that_leads_another_team_now_tells_nothing_of_this_one(home, tmp_path):
    lease = Lease.take(tmp_path / "lease", "a test")
    log = await make_team(home, tmp_path, lease=str(lease.path))
    other = TeamChanged(member=LEAD, team="other", directory="other", change="created")
    write_log(log, OPENED, LED, moved("tess", "working"), other, moved("tess", "idle"), closed=False)
    assert states(StatusReader(home, "release").read())["tess"] == "unknown"
    lease.release()


@pytest.mark.finding("D4")
async def test_status_advises_to_name_a_model_where_the_team_ran_on_the_script_of_the_demo(home, tmp_path):
    await make_team(home, tmp_path)
    script = resources.files("teamwright.ui.demo") / "demo.toml"
    roster = json.loads(home.config("release").read_text())
    roster["members"][0]["model"] = f"scripted:{script}"
    home.config("release").write_text(json.dumps(roster))
    assert status_views(home, tmp_path, "release")[0].resume == "teamwright resume release --model MODEL"


@pytest.mark.promise("P7", "F04")
async def test_damaged_files_are_shown_and_never_raised(home, tmp_path):
    log = await make_team(home, tmp_path)
    log.parent.mkdir(parents=True)
    log.write_bytes(
        b'\x00\xff\n{"n":1,"v":1,"type":"snapshot","state":7}\n{"n":2,"v":1,"type":"member_changed","member":[]}\n'
    )
    (home.tasks("release") / "2.json").write_text("{")
    home.inbox("release", "tess").write_text("[{")
    [view] = status_views(home, tmp_path, "release")
    assert states(view) == {"lead": "dead", "tess": "dead"}
    assert view.tasks[1].damaged and view.members[1].unread == -1
    home.team_file("release").write_text("[]")
    assert "team.json" in status_views(home, tmp_path, "release")[0].damaged
    home.config("release").write_text("[]")
    assert "config.json" in status_views(home, tmp_path, "release")[0].damaged


@pytest.mark.promise("P7")
async def test_another_product_s_team_is_unknown_and_says_so(home, tmp_path):
    await make_team(home, tmp_path)
    home.team_file("release").unlink()
    config = json.loads(home.config("release").read_text())
    pane = config["members"][1] | {"name": "pat", "agentId": "pat@release", "backendType": "tmux", "isActive": True}
    config["members"].append(pane)
    home.config("release").write_text(json.dumps(config))
    [view] = status_views(home, tmp_path, "release")
    assert (view.state, view.resume, set(states(view).values())) == ("foreign", "", {"unknown"})
    assert view.members[2].reason == "at work, it says"
    assert len(view.tasks) == 2


async def test_without_a_name_live_teams_of_the_directory_come_first_then_its_newest(home, tmp_path):
    await make_team(home, tmp_path, name="old")
    lease = Lease.take(tmp_path / "lease", "a test")
    transcript = home.transcript(tmp_path, SESSION)
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_text("{}\n")
    assert [view.name for view in status_views(home, tmp_path)] == ["old"]
    new = NewTeam("live", LeadLease(SESSION, os.getpid(), str(lease.path)), str(tmp_path), "m", 1)
    (home.config("old").parent).rename(tmp_path / "away")
    await Teams(home).create(new)
    (tmp_path / "away").rename(home.config("old").parent)
    assert [view.name for view in status_views(home, tmp_path)] == ["live"]
    lease.release()
    assert [view.name for view in status_views(home, tmp_path)] == ["old"]
    assert [view.name for view in status_views(home, Path("/elsewhere"))] == ["old"]
    with pytest.raises(TeamwrightError, match="there is no team"):
        status_views(home, tmp_path, "nobody")


def test_reading_the_state_of_a_long_log_reads_its_end_alone(home, tmp_path):
    path = tmp_path / "events.jsonl"
    log = EventLog(path, TeamStatus())
    for n in range(3_000):
        log.emit(Notice(member="system", text=f"{n}"))
    log.flush()
    from teamwright.storage.event_log import read_recent

    recent = read_recent(path)
    assert recent.snapshot is not None and recent.snapshot.number == 3_000 and recent.events == []
    assert TeamStatus.from_log(recent) == log.state


@pytest.mark.finding("T14")
async def test_a_member_that_is_being_started_is_shown_as_starting(home, tmp_path):
    lease = Lease.take(tmp_path / "lease", "a test")
    log = await make_team(home, tmp_path, lease=str(lease.path))
    starting = RosterMember("tom@release", "tom", model="m", backend_type="detached", joined_at=now_ms())
    await Roster(RosterFile(home, "release")).join(starting)
    write_log(log, OPENED, LED, moved(LEAD, "working"), moved("tess", "working"), closed=False)
    [tom] = [one for one in StatusReader(home, "release").read().members if one.name == "tom"]
    assert (tom.state, tom.reason) == ("working", "starts")
    lease.release()
