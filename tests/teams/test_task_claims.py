"""Idle members of a real team and a lead that creates, connects and assigns tasks."""

import asyncio
import json
import random
import re
from functools import partial
from pathlib import Path

import pytest

from teamwright import TaskRefused, UnknownMember
from teamwright.protocol.events import TaskChanged, TurnEnded
from teamwright.protocol.ids import LEAD
from teamwright.testing import ScriptedModel
from tests.teams.crew import a_team, newest, told, until

NAMES = ("ada", "bob", "cy")


class Script:
    """A random sequence of calls that create, connect and assign tasks, beginning behind `first` existing tasks."""

    def __init__(self, seed: int, first: int) -> None:
        self.random = random.Random(seed)
        self.ids = list(range(first + 1, first + 1 + self.random.randint(2, 5)))
        self.ready: set[int] = set()
        self.reserved: dict[int, str] = {}
        self.calls = [self.create(id) for id in self.ids]
        for id in self.ids:
            self.connect(id)

    def create(self, id: int):
        given = {"subject": f"task {id}", "description": "do it"}
        if self.random.random() < 0.2:
            self.ready.add(id)
            given["ready"] = True
        elif self.random.random() < 0.3:
            self.reserved[id] = given["owner"] = self.random.choice(NAMES)
        elif self.random.random() < 0.2:
            self.reserved[id] = self.random.choice(NAMES)
            given["for"] = [self.reserved[id]]
        return ("TaskCreate", given)

    def connect(self, id: int) -> None:
        free = [i for i in self.ids if i not in self.ready and i not in self.reserved]
        if id not in free:
            return
        earlier = [i for i in self.ids if i < id]
        if earlier and self.random.random() < 0.5:
            self.calls.append(("TaskUpdate", {"taskId": str(id), "addBlockedBy": [str(self.random.choice(earlier))]}))
        elif self.random.random() < 0.4:
            self.reserved[id] = self.random.choice(NAMES)
            self.calls.append(("TaskUpdate", {"taskId": str(id), "owner": self.reserved[id]}))


def work(request):
    """A member completes each task that it receives and ends its turn."""
    found = re.findall(r"#(\d+)(?: task|: )|\"taskId\":\"(\d+)\"", newest(request))
    ids = [one or other for one, other in found]
    if ids and "updated" not in newest(request):
        return [("TaskUpdate", {"taskId": id, "status": "completed"}) for id in ids]
    return "done"


async def play(place: Path, seeds) -> None:
    """Play a script for each seed, one after another, in a team with a home of its own."""
    place.mkdir()
    scripts: list[Script] = []

    def model(request):
        if request.agent_name != LEAD:
            return work(request)
        calls = scripts[-1].calls
        return [calls.pop(0)] if calls else "done"

    events: list[object] = []
    async with a_team(place, ScriptedModel(model), home=place / "home") as team:
        for name in NAMES:
            await team.spawn(name, "Wait.")
        await until(team, lambda: all(member.state == "idle" for member in team.members))
        team.session.log.subscribe(lambda _n, event: events.append(event))
        total = 0
        for seed in seeds:
            events.clear()
            scripts.append(Script(seed, total))
            total = scripts[-1].ids[-1]
            assert (await team.run("Plan.")).ok
            await until(team, partial(all_done, scripts[-1], events))
            check_claims(scripts[-1], events, seed)


def all_done(script: Script, events: list[object]) -> bool:
    changes = [event for event in events if isinstance(event, TaskChanged)]
    return {int(event.task.id) for event in changes if event.task.status == "completed"} >= set(script.ids)


def check_claims(script: Script, events: list[object], seed: int) -> None:
    ended = next(at for at, e in enumerate(events) if isinstance(e, TurnEnded) and e.member == LEAD)
    completed: set[str] = set()
    for at, event in enumerate(events):
        if not isinstance(event, TaskChanged):
            continue
        id = int(event.task.id)
        if event.change == "claimed":
            assert at > ended or id in script.ready, f"seed {seed}: #{id} was claimed before the lead's turn had ended"
            assert set(event.task.blocked_by) <= completed, f"seed {seed}: #{id} was claimed before its blockers"
            assert event.member == script.reserved.get(id, event.member), f"seed {seed}: #{id} was meant for another"
        if event.task.status == "completed":
            completed.add(event.task.id)


@pytest.mark.slow
@pytest.mark.finding("T1")
async def test_idle_members_claim_no_task_early_and_leave_none_waiting(tmp_path):
    await play(tmp_path / "team", range(15))


@pytest.mark.slow
@pytest.mark.finding("T1")
async def test_idle_members_claim_no_task_early_and_leave_none_waiting_in_60_random_scripts(tmp_path):
    """Ten teams at a time, because the scripts mostly wait for the delays of claims."""
    seeds = range(1_000, 1_060)
    await asyncio.gather(*(play(tmp_path / str(number), seeds[number::10]) for number in range(10)))


@pytest.mark.finding("T1")
@pytest.mark.slow
async def test_an_idle_member_is_woken_when_a_draft_becomes_claimable_by_its_time(tmp_path):
    """The lead creates a task and its turn goes on for ever."""
    model = ScriptedModel(lambda request: work(request) if request.agent_name != LEAD else "done")
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Wait.")
        await until(team, lambda: all(member.state == "idle" for member in team.members))
        await team.session.team.tasks.create("task one", "do it", by="team-lead", draft=True)
        await until(team, lambda: "completed" in statuses(team))


def statuses(team) -> list[str]:
    return [json.loads(path.read_text())["status"] for path in team.session.team.tasks.store.directory.glob("*.json")]


@pytest.mark.finding("T2")
async def test_a_member_whose_task_is_given_away_or_deleted_is_told_to_stop(tmp_path):
    steps = [
        ("TaskCreate", {"subject": "map", "description": "all of it", "owner": "ada"}),
        ("TaskUpdate", {"taskId": "1", "owner": "bob"}),
        ("TaskUpdate", {"taskId": "1", "status": "deleted"}),
    ]

    def model(request):
        if request.agent_name != LEAD:
            return "I note it."
        return [steps.pop(0)] if steps else "done"

    scripted = ScriptedModel(model)
    async with a_team(tmp_path, scripted) as team:
        for name in ("ada", "bob"):
            await team.spawn(name, "Wait.")
        await until(team, lambda: all(member.state == "idle" for member in team.members))
        await team.run("Plan.")
        for name in ("ada", "bob"):
            await team.send(name, "Any news?")
        await until(team, lambda: all("Any news?" in told(scripted, name) for name in ("ada", "bob")))
        ada, bob = told(scripted, "ada"), told(scripted, "bob")
    assert "Task #1 (map) was given to bob by lead. Stop working on it." in ada
    assert "Task #1 (map) was deleted by lead. Stop working on it." in bob and "was deleted" not in ada


@pytest.mark.finding("T3")
async def test_a_task_is_not_given_to_a_name_that_is_no_running_member(tmp_path):
    replies: list[str] = []
    steps = [
        ("TaskCreate", {"subject": "map", "description": "all of it", "owner": "adda"}),
        ("TaskCreate", {"subject": "map", "description": "all of it"}),
        ("TaskUpdate", {"taskId": "1", "owner": "ghost"}),
    ]

    def model(request):
        if request.agent_name != LEAD:
            return "I wait."
        replies.append(newest(request))
        return [steps.pop(0)] if steps else "done"

    async with a_team(tmp_path, ScriptedModel(model)) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        await team.run("Plan.")
        assert "did you mean ada?" in replies[1] and "nothing was changed" in replies[1]
        assert "'ghost' is not in team crew" in replies[3]
        assert [(task.id, task.owner) for task in await team.tasks.all()] == [("1", "ada")]
        with pytest.raises(UnknownMember, match="ghost"):
            await team.tasks.update("1", owner="ghost")
        await ada.stop()
        with pytest.raises(UnknownMember, match="ada"):
            await team.tasks.update("1", owner="ada")
        await team.tasks.update("1", owner="lead")
        with pytest.raises(TaskRefused):
            await team.tasks.update("9", owner="lead")
