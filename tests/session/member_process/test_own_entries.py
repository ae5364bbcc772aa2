"""config.json and team.json match the state of each member, on every backend."""

import asyncio
import json
import os

import pytest

from teamwright import MemberChanged, Notice, Team
from teamwright.permissions.verdict import PermissionAnswer
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.teams.plan_approval import answer_plan
from teamwright.testing import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import wait_until
from tests.teams.watched import Told

PLAN = Answer(tools=[("ExitPlanMode", {"plan": "# Plan\n1. Look."})])


async def file_says(found) -> None:
    await asyncio.to_thread(wait_until, found)


@pytest.mark.promise("A3", "P3")
@pytest.mark.finding("T10", "T14")
@pytest.mark.parametrize("backend", ["in-process", "detached"])
@pytest.mark.slow_after(1)
async def test_the_files_have_each_mode_of_a_member_and_no_notice_calls_that_an_overwrite(tmp_path, backend):
    away, home = backend == "detached", tmp_path / "home"

    def entry(name: str = "ann") -> dict:
        members = json.loads((home / "teams/crew/config.json").read_bytes())["members"]
        return next((one for one in members if one["name"] == name), {})

    def modes() -> tuple[str, str]:
        life = json.loads((home / "teams/crew/team.json").read_bytes())["lives"]["ann"]
        return entry().get("mode", ""), life["mode"]

    async def play(body: dict) -> Answer | str:
        if away:
            await file_says(lambda: entry().get("isActive"))
        words = json.dumps(body["messages"])
        if "enter plan mode" in words and "EnterPlanMode" not in words:
            return Answer(tools=[("EnterPlanMode", {})])
        return PLAN if len(body["messages"]) == 1 else "Done."

    async with LoopbackModel(play) as server:
        env = {**os.environ, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-none"}
        options = {"cwd": tmp_path, "home": home, "env": env, "backend": backend}
        async with Team("crew", permission_mode="bypassPermissions", **options) as team:
            told, crew = Told(team), team.session.team
            ann = await team.spawn("ann", "Plan it.", mode="plan")
            await told.one(MemberChanged, member="ann", state="awaiting")
            assert modes() == ("plan", "plan")
            [request] = crew.requests.open_requests()
            await answer_plan(crew, str(request["id"]), PermissionAnswer(True, "user"))
            await file_says(lambda: modes() == ("", ""))
            assert ann.mode == "bypassPermissions"
            await ann.set_mode("dontAsk")
            assert modes() == ("dontAsk", "dontAsk")
            await ann.set_mode("acceptEdits")
            assert modes() == ("acceptEdits", "acceptEdits")
            await team.send("ann", "Now enter plan mode.")
            await file_says(lambda: modes() == ("plan", "plan"))
            await file_says(lambda: entry().get("isActive") is (False if away else None))
            before = entry()
            await Roster(RosterFile(crew.home, crew.directory)).remove("ann")  # as another program does
            await told.until(lambda: told.of(Notice, member="outside"))
            assert [one.text.split(":")[0] for one in told.of(Notice, member="outside")] == [
                "ann was put right in the roster"
            ]
            assert entry() == before
