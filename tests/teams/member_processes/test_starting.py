"""Starting a member as a process: ready in time, or an error with its last words, and nothing of it is left."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.backends import process_launcher
from teamwright.backends.terminal_adapter import DETACHED
from teamwright.protocol.errors import CannotStart, TeamwrightError, UnknownMember
from teamwright.protocol.events import MemberChanged
from teamwright.protocol.ids import LEAD
from teamwright.storage.file_lease import lease_held
from teamwright.teams.outgoing_mail import send_text
from teamwright.teams.shutdown_answers import shutdown_answer
from teamwright.testing.model_server import LoopbackModel
from tests.parity.house import PROCESS, House, Parts, house
from tests.support.waits import WAIT_S
from tests.teams.crew import until
from tests.teams.member_processes.started_members import Tampered, runs, told, without
from tests.ui.program import KEY

pytestmark = pytest.mark.promise("E6", "F27")

REFUSED = {
    "a missing program": (runs("/nowhere/python", "-m", "teamwright"), "No such file"),
    "a python without it": (runs(sys.executable, "-I", "-S", "-m", "teamwright"), "No module named teamwright"),
    "an end at once": (runs("/bin/sh", "-c", "echo the disk is gone >&2; exit 3"), "the disk is gone"),
    "a wrong token": (told(token="guessed"), "does not know this process"),
    "another version": (told(version=99), "is of another version"),
    "nobody at the wire": (told(wire="/nowhere/wire"), "does not answer"),
    "no spawn file": (without("TEAMWRIGHT_SPAWN_FILE"), "ended before it called"),
    "no key": (without("ANTHROPIC_API_KEY"), "ANTHROPIC_API_KEY"),
    "a home of its own": (told(home="/nowhere/home"), "no longer a member"),
    "another member's file": (told(member="bob"), "the spawn file is for bob"),
    "a life that is over": (told(incarnation=7), "no longer a member"),
}


def nothing_left(home: Path) -> None:
    """No trace of the member but the files that say what happened."""
    [config] = home.glob("teams/*/config.json")
    assert [member["name"] for member in json.loads(config.read_text())["members"]] == ["team-lead"]
    ours = json.loads((config.parent / "team.json").read_text())
    assert not ours.get("lives")
    for inbox in config.parent.glob("inboxes/*.json"):
        assert [entry for entry in json.loads(inbox.read_text()) if not entry["read"]] == [], inbox
    assert not list(config.parent.glob("requests/*"))
    assert not list(home.rglob("spawn.json")), "it may contain tokens"


async def quiet_about(here: House) -> None:
    """Nobody hears of the end of one who never began."""
    lives = [task for task in asyncio.all_tasks() if task.get_name() == "process of ann"]
    async with asyncio.timeout(WAIT_S):
        await asyncio.gather(*lives)
    assert not here.mail("team-lead")
    assert {one.state for one in here.of(MemberChanged) if one.member == "ann"} <= {"failed"}


def said(problem: TeamwrightError) -> str:
    return "\n".join([problem.what, *(line for _, line in problem.looked_at)])


@pytest.mark.slow_after(1)
@pytest.mark.promise("A4", "F35", "P3")
@pytest.mark.parametrize("how", REFUSED)
async def test_a_process_that_cannot_begin_is_an_error_with_its_own_words_and_nothing_is_left(tmp_path, marked, how):
    change, words = REFUSED[how]
    async with house(tmp_path, PROCESS, {"ann": []}) as here:
        elsewhere = here.team.session.team.launcher.processes
        elsewhere.host = Tampered(elsewhere.host, {"ann": change})
        with pytest.raises(TeamwrightError) as caught:
            await here.spawn("ann")
        assert words in said(caught.value)
        assert not here.parts.of("ann")
        assert not marked.pids()
        nothing_left(here.home)
        await quiet_about(here)


@pytest.mark.slow
async def test_a_process_that_never_calls_is_ended_at_the_deadline(tmp_path, marked, monkeypatch):
    monkeypatch.setattr(process_launcher, "READY_S", 1.0)
    async with house(tmp_path, PROCESS, {"ann": []}) as here:
        elsewhere = here.team.session.team.launcher.processes
        elsewhere.host = Tampered(elsewhere.host, {"ann": runs("/bin/sh", "-c", "echo begun; sleep 1000")})
        with pytest.raises(CannotStart) as caught:
            await here.spawn("ann")
        assert "was not ready within 1 s" in said(caught.value)
        assert "begun" in said(caught.value)
        assert not marked.pids()
        nothing_left(here.home)


async def test_a_start_that_is_cancelled_before_the_process_called_leaves_nobody(tmp_path, marked):
    async with house(tmp_path, PROCESS, {"ann": []}) as here:
        team, up = here.team.session.team, tmp_path / "up"
        os.mkfifo(up)
        team.launcher.processes.host = Tampered(
            team.launcher.processes.host, {"ann": runs("/bin/sh", "-c", f"echo up > {up}; sleep 1000")}
        )
        starts = asyncio.create_task(here.spawn("ann"))
        assert await asyncio.to_thread(up.read_text) == "up\n"
        await cancelled(starts)
        assert not team.members
        assert not marked.pids()
        nothing_left(here.home)


async def test_a_start_that_is_cancelled_once_the_process_called_leaves_nobody(tmp_path, marked):
    async with house(tmp_path, PROCESS, {"ann": []}) as here:
        team = here.team.session.team
        starts = asyncio.create_task(here.spawn("ann"))
        await here.until(lambda: team.members or starts.done())
        async with asyncio.timeout(WAIT_S):
            await team.members["ann"].connected.wait()
        await cancelled(starts)
        assert not team.members
        assert not marked.pids()
        nothing_left(here.home)


async def cancelled(starts: "asyncio.Task[object]") -> None:
    starts.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starts


@pytest.mark.slow
async def test_the_name_of_one_that_could_not_begin_is_free(tmp_path, marked):
    async with house(tmp_path, PROCESS, {"ann": []}) as here:
        elsewhere = here.team.session.team.launcher.processes
        elsewhere.host = Tampered(elsewhere.host, {"ann": REFUSED["an end at once"][0]})
        with pytest.raises(CannotStart):
            await here.spawn("ann")
        elsewhere.host = elsewhere.host.housing
        await here.spawn("ann")
        await here.quiet()
        assert len(here.parts.of("ann")) == 1
        assert len(marked.members("ann")) == 1


@pytest.mark.finding("T5")
@pytest.mark.slow
async def test_a_member_whose_process_fails_during_a_resume_keeps_its_place_and_its_conversation(
    tmp_path, marked, monkeypatch
):
    parts, home = Parts({"ann": ["I am here.", "I am back."]}), tmp_path / "home"
    async with LoopbackModel(parts) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY}
        options = {"model": "sonnet", "cwd": tmp_path, "home": home, "env": env, "backend": DETACHED}
        async with Team("crew", **options) as team:
            await team.tasks.add("the job", metadata={"for": ["ann"]})
            await team.spawn("ann", "JOB ann")
            await until(team, team.session.team.is_quiet)
            await team.session.stop_members("as a kill would", keep=True)
        monkeypatch.setattr(process_launcher, "READY_S", 0.0)
        async with Team.resume("crew", **options) as team:
            entries = json.loads((home / "teams/crew/config.json").read_text())["members"]
            assert [entry["name"] for entry in entries] == ["team-lead", "ann"]
            back = team.session.resumed
            assert (back.members, back.not_resumed, back.gone) == ((), ("ann",), ())
            assert not marked.pids()
            with pytest.raises(UnknownMember) as caught:
                await send_text(team.session.team, LEAD, "ann", "Are you there?")
            assert 'Agent with name "ann" resumes it' in caught.value.render()
        monkeypatch.setattr(process_launcher, "READY_S", WAIT_S)
        told = (home / "teams/crew/inboxes/team-lead.json").read_text()
        assert told.count("Its conversation is kept") == 1
        async with Team.resume("crew", **options) as team:
            assert team.session.resumed.members == ("ann",)
            await team.send("ann", "Go on.")
            await until(team, lambda: len(parts.of("ann")) == 2)
    said = json.dumps(parts.of("ann")[-1]["messages"])
    assert "JOB ann" in said and "I am here." in said and "Go on." in said


@pytest.mark.slow
@pytest.mark.promise("A4", "F26")
async def test_of_sixteen_at_once_of_which_some_fail_the_others_are_there(tmp_path, marked):
    names = [f"m{number:02}" for number in range(16)]
    bad = {name: REFUSED[how][0] for name, how in zip(names[::3], REFUSED, strict=False)}
    settings = {"limits": {"members": 16, "spawns_per_minute": 32}}
    async with house(tmp_path, PROCESS, {name: [] for name in names}, settings=settings) as here:
        team = here.team.session.team
        ours = team.launcher.processes
        ours.host = Tampered(ours.host, bad)
        done = await asyncio.gather(*(here.spawn(name) for name in names), return_exceptions=True)
        failed = {name for name, one in zip(names, done, strict=True) if isinstance(one, TeamwrightError)}
        assert failed == set(bad)
        there = [name for name in names if name not in bad]
        assert sorted(here.roster()) == sorted(["team-lead", *there])
        assert sorted(team.members) == there
        assert len(marked.members()) == len(there)
        assert len({member["color"] for member in here.roster().values() if "color" in member}) == 8
        await here.quiet()
        assert {name for name, _ in here.parts.bodies} == set(there)


@pytest.mark.slow
async def test_a_member_that_agrees_to_stop_and_ends_during_the_resume_is_not_started_again(
    tmp_path, marked, monkeypatch
):
    parts, home = Parts({"ann": ["I am here."]}), tmp_path / "home"
    async with LoopbackModel(parts) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY}
        options = {"model": "sonnet", "cwd": tmp_path, "home": home, "env": env, "backend": DETACHED}
        async with Team("crew", **options) as team:
            await team.spawn("ann", "JOB ann")
            await until(team, team.session.team.is_quiet)
            requests = team.session.team.requests
            asked = {"kind": "shutdown", "requester": LEAD, "target": "ann", "incarnation": 1}
            requests.open("shutdown-1@ann", asked | {"reason": "done", "opened_at": 1, "deadline": 2})
            await team.session.stop_members("as a kill would", keep=True)

        def agrees(lease: Path) -> bool:
            requests.answer("shutdown-1@ann", shutdown_answer(True, "", "ann"))
            return lease_held(lease)

        monkeypatch.setattr(process_launcher, "lease_held", agrees)
        async with Team.resume("crew", **options) as team:
            assert (team.session.resumed.members, team.session.resumed.gone) == ((), ("ann",))
            assert not marked.pids()
    told = (home / "teams/crew/inboxes/team-lead.json").read_text()
    assert "shutdown_approved" in told and "shut down on request" in told
    assert len(parts.of("ann")) == 1
