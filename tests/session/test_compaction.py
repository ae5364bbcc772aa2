"""Compaction in a team: each member by its own window, over the wire, with what it must still know afterwards."""

import asyncio
import itertools
import json
import os
from pathlib import Path

import pytest

from teamwright import Budget, Compacted, ModelCard, Team, UnknownMember
from teamwright.agent.compaction_texts import DIRECTIVE
from teamwright.team_records.snapshots import resolve_home
from teamwright.testing import LoopbackModel, ScriptedModel
from teamwright.testing.model_server_replies import Answer, Status
from teamwright.views.audit.audit import audit
from tests.session.test_modes import HOLD, Asked, Stop, goes_on, until
from tests.support.waits import WAIT_S

TAKE = ("TaskUpdate", {"taskId": "1", "status": "in_progress"})
WINDOW = 40_000
SMALL = ModelCard("own/small", "small", "own", context_tokens=WINDOW, max_output_tokens=2_000, usd_in=0.0, usd_out=0.0)


def a_team(tmp_path: Path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    more = {"permission_mode": "bypassPermissions", **more}
    return Team("crew", model=model, cwd=tmp_path / "work", home=tmp_path / "home", **more)


def first_of(request) -> list[str]:
    """The texts of a request's first message."""
    return [block["text"] for block in json.loads(request.items[0])["content"]]


class Noted(Asked):
    """Keeps which requests were asked aside."""

    def __init__(self, answers, card: ModelCard = SMALL) -> None:
        super().__init__(answers)
        self._card = card


@pytest.mark.promise("H6", "F54", "F18")
@pytest.mark.slow
async def test_afterwards_the_lead_still_knows_its_team_tasks_requests_mode_and_jobs(tmp_path):
    stop = Stop()
    job = ("Bash", {"command": "sleep 60", "run_in_background": True})
    script = {
        "lead": [job, "I wait.", "Summary of the lead.", "Go on."],
        "ada": [("ExitPlanMode", {"plan": "Paint it blue."}), HOLD, "done"],
        "ben": [HOLD, "done"],
    }
    model = Asked(script)
    async with a_team(tmp_path, model, tools=[stop.hold]) as team:
        await team.spawn("ada", "Plan it.", mode="plan")
        await team.spawn("ben", "Hold.")
        await team.tasks.add("count <the> files")
        await team.tasks.add("write it down", after="1")
        await stop.at()
        await until(team, lambda: team.members[0].state == "awaiting")
        lead = asyncio.ensure_future(team.session.lead.run_turn())
        async with asyncio.timeout(WAIT_S):
            team.session.lead.add_prompt([{"type": "text", "text": "Start."}])
            await lead
            await team.session.lead.run_turn()
        made = await team.compact()
        assert made.done and made.summary == "Summary of the lead."
        restated = "\n".join(first_of_item(team.session.lead.agent.conversation.items[0]))
        [request] = team.session.team.requests.open_requests()
        for words in (
            'You lead the team "crew"',
            "- ada (general-purpose): awaiting, waits for the lead to answer its plan",
            "- ben (general-purpose): working",
            "- #1 [pending] count <the> files",
            "- #2 [pending] write it down, waits for #1",
            f"- plan_approval {request['id']}, of ada",
            f'{{"type": "plan_approval_response", "request_id": "{request["id"]}", "approve": true}}',
            "Your permission mode is bypassPermissions.",
            "Your running background commands:",
            "sleep 60",
        ):
            assert words in restated
        assert [t.subject for t in await team.tasks.all()] == ["count <the> files", "write it down"]
        stop.go.set()
        await team.stop("ada")


@pytest.mark.slow
@pytest.mark.promise("H6", "F54", "F58")
async def test_a_lead_whose_conversation_is_three_windows_long_works_on_and_knows_its_team_after_each_summary(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "long.txt").write_text("word " * 2_800)
    stop = Stop()
    begin = [
        ("Bash", {"command": "sleep 60", "run_in_background": True}),
        ("Agent", {"description": "count tests", "prompt": "Count.", "run_in_background": True}),
        ("TaskCreate", {"subject": "read it all", "description": "to the end"}),
    ]
    left = iter([begin, *[("Bash", {"command": f"echo {n}; cat long.txt"}) for n in range(40)], "All of it is read."])
    plan = iter([("ExitPlanMode", {"plan": "Paint it blue."})])

    def play(request):
        if request.aside:
            return "I read on."
        if request.agent_name == "team-lead":
            return next(left)
        return next(plan, HOLD) if request.agent_name == "ada" else HOLD

    model = Noted(play)
    async with a_team(tmp_path, model, tools=[stop.hold]) as team:
        await team.spawn("ada", "Plan it.", mode="plan")
        await team.spawn("ben", "Hold.")
        await stop.at()
        await until(team, lambda: team.members[0].state == "awaiting")
        await team.tasks.add("paint", metadata={"for": ["ben"]})
        async with asyncio.timeout(WAIT_S):
            team.session.lead.add_prompt([{"type": "text", "text": "Read it."}])
            end = await team.session.lead.run_turn()
        assert end is not None and (end.stop, end.text) == ("done", "All of it is read.")
        [asked], [run] = team.session.team.requests.open_requests(), team.session.agents.runs
    mine = model.of("team-lead")
    after = [mine[at + 1] for at, request in enumerate(mine) if request.aside]
    assert len(after) >= 3
    words = (
        'You lead the team "crew"',
        "- ada (general-purpose): awaiting, waits for the lead to answer its plan",
        "- ben (general-purpose): working",
        "[pending] paint",
        "[pending] read it all",
        f"- plan_approval {asked['id']}, of ada",
        "sleep 60",
        f"- {run}: count tests",
    )
    for request in after:
        restated = "\n".join(first_of(request))
        assert [word for word in words if word not in restated] == []
    assert sum(size(request) for request in mine if request.aside) > 3 * WINDOW
    assert max(size(request) for request in mine) < WINDOW


def size(request) -> int:
    """About how many tokens a request has."""
    return (len(request.prefix.head) + sum(map(len, request.items))) // 4


def first_of_item(item: bytes) -> list[str]:
    return [block["text"] for block in json.loads(item)["content"]]


@pytest.mark.promise("H6", "P6")
async def test_what_is_restated_is_bounded_however_many_tasks_there_are(tmp_path):
    take = [
        ("TaskUpdate", {"taskId": str(number), "status": "in_progress", "owner": "team-lead"})
        for number in range(1, 51)
    ]
    script = iter([take, "Hello."])
    model = ScriptedModel(lambda request: "In short." if request.aside else next(script))
    async with a_team(tmp_path, model) as team:
        for number in range(100):
            await team.tasks.add(f"task {number}")
        team.session.lead.add_prompt([{"type": "text", "text": "Take them."}])
        await team.session.lead.run_turn()
        assert (await team.compact()).done
        restated = "\n".join(first_of_item(team.session.lead.agent.conversation.items[0]))
    assert restated.count("[in_progress] task") == restated.count("[pending] task") == 40
    assert restated.count("- and 10 more: TaskList") == 2


@pytest.mark.promise("H6", "F58")
async def test_members_compact_each_by_its_own_window(tmp_path):
    """Ada's window is small, the lead's is not; both have read the same long words."""
    long = "word " * 27_000
    small = ScriptedModel(lambda request: "Ada's summary." if request.aside else "read", card=SMALL)
    large = ScriptedModel(lambda _request: "The lead has read.")
    async with a_team(tmp_path, large) as team:
        await team.spawn("ada", "Read.", model=small)
        await until(team, lambda: team.members[0].state == "idle")
        await team.send("ada", long)
        await until(team, lambda: len(small.requests) >= 2 and team.members[0].state == "idle")
        await team.send("ada", "And now?")
        await until(team, lambda: len(small.requests) >= 4 and team.members[0].state == "idle")
        await team.run(long)
        await team.run("And now?")
        teammate = team.session.team.find("ada")
        assert teammate is not None and teammate.agent.conversation.is_compacted
        assert not team.session.lead.agent.conversation.is_compacted
        restated = "\n".join(first_of(small.requests[-1]))
        assert "Ada's summary." in restated
        assert 'You are ada, a member of the team "crew"; its lead is lead.' in restated
        assert [r.aside for r in small.requests].count(True) == 1
    events = [e for e in log_of(tmp_path) if e["type"] == "compacted"]
    assert [(e["member"], e["state"], e["trigger"]) for e in events] == [
        ("ada", "begun", "auto"),
        ("ada", "done", "auto"),
    ]
    assert events[1]["before"] > events[1]["after"] > 0


def log_of(tmp_path: Path) -> list[dict]:
    [path] = (tmp_path / "home").glob("projects/*/*/events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.promise("H6", "P1", "F05")
async def test_mail_that_arrives_during_a_compaction_is_told_once_and_after_a_resume_not_again(tmp_path):
    summary, go = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request):
            if request.aside:
                summary.set()
                await go.wait()
            async for part in super().stream(request):
                yield part

    model = Slow(lambda request: "Summary." if request.aside else "ok", card=SMALL)
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Begin.")
        await until(team, lambda: team.members[0].state == "idle")
        async with asyncio.timeout(WAIT_S):
            asked = asyncio.ensure_future(team.compact("ada"))
            await summary.wait()
            await team.send("ada", "mail-of-that-moment")
            await asyncio.sleep(0)
            go.set()
            assert (await asked).done
        await until(team, lambda: "mail-of-that-moment" in text_of(model.requests[-1]))
        await until(team, lambda: team.members[0].state == "idle")
    again = ScriptedModel(lambda _request: "still here", card=SMALL)
    async with goes_on(tmp_path, again, permission_mode="bypassPermissions") as team:
        await team.send("ada", "second letter")
        await until(team, lambda: bool(again.requests) and team.members[0].state == "idle")
        told = text_of(again.requests[-1])
    assert told.count(r"\nmail-of-that-moment\n<") == 1 and told.count(r"\nsecond letter\n<") == 1
    assert "Summary." in told and len(again.requests) == 1


def text_of(request) -> str:
    return "\n".join(item.decode() for item in request.items)


@pytest.mark.promise("H6", "row F7a")
async def test_over_the_wire_the_request_for_a_summary_has_the_same_bytes_before_its_directive(tmp_path, monkeypatch):
    reports = iter([1_000, 170_000, 170_500, 9_000])

    def play(body):
        count = {"input_tokens": next(reports)}
        last = body["messages"][-1]["content"][-1].get("text", "")
        if last == DIRECTIVE:
            return Answer("In short.", usage=count)
        look = [("Glob", {"pattern": "*"})]
        if len(body["messages"]) == 1:
            return Answer(thinking="hm", tools=look, usage=count)
        return Answer("x", tools=() if "In short" in str(body) else look, usage=count)

    async with LoopbackModel(play) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        async with a_team(tmp_path, "anthropic/claude-haiku-4-5") as team:
            result = await team.run("Look around.")
        bodies = [request.body for request in server.requests]
    assert result.stop == "done" and len(bodies) == 4
    head = bodies[1][: bodies[1].index(b'"messages":[')]
    assert all(body.startswith(head) for body in bodies), "model, system, tools and settings, byte for byte"
    before, asked, after = (bare(json.loads(body)["messages"]) for body in bodies[1:])
    assert asked[:3] == before and len(asked) == 5
    assert [message["role"] for message in after] == ["user", "assistant", "user"]
    calls = [block["id"] for block in after[1]["content"] if block["type"] == "tool_use"]
    assert calls == [block["tool_use_id"] for block in after[2]["content"] if block["type"] == "tool_result"]
    assert "thinking" in json.dumps(asked) and "thinking" not in json.dumps(after)
    assert result.usage.requests == 4 and result.turns == 3, "a summary is no round of the lead"


def bare(messages):
    """Without the marks of the cache."""
    return [
        {**m, "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in m["content"]]}
        for m in messages
    ]


@pytest.mark.promise("F58", "H6")
async def test_a_service_that_says_it_is_full_is_asked_for_less_and_the_work_goes_on(tmp_path, monkeypatch):
    limit = 9_000

    def play(body):
        if len(json.dumps(body["messages"])) > limit:
            return Status(400, "prompt is too long: 250000 tokens > 200000 maximum")
        said = str(body["messages"][-1]["content"])
        return Answer("In short." if "takes its place" in said else "Answer.", usage={"input_tokens": 5})

    async with LoopbackModel(play) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        async with a_team(tmp_path, "anthropic/claude-haiku-4-5", budget=Budget(tokens=10_000_000)) as team:
            for number in range(12):
                result = await team.run(f"{number} " + "word " * 300)
                assert (result.stop, result.text) == ("done", "Answer."), result.error
            assert team.session.lead.agent.conversation.is_compacted


@pytest.mark.promise("H6", "J1")
async def test_a_program_asks_for_it_by_name_and_reads_what_was_in_the_way(tmp_path):
    model = ScriptedModel({"lead": ["Hello.", "In short."]})
    async with a_team(tmp_path, model) as team:
        nothing = await team.compact()
        assert (nothing.done, nothing.why) == (False, "there is nothing yet that a summary could replace")
        with pytest.raises(UnknownMember) as problem:
            await team.compact("adda")
        assert "'adda' is not in" in str(problem.value)
        events = team.events()
        await team.run("Hello?")
        assert (await team.compact("lead", keep="names")).summary == "In short."
    seen = [event.state async for _, event in events if isinstance(event, Compacted)]
    assert seen == ["begun", "done"]


@pytest.mark.promise("H6", "F61")
async def test_what_a_compaction_costs_is_booked_and_bounded_like_any_other_call(tmp_path):
    from tests.session.test_api import Priced

    model = Priced(lambda request: "In short." if request.aside else "Hello.", usd=2.0)
    async with a_team(tmp_path, model, budget=Budget(usd=7.0)) as team:
        await team.run("Hello?")
        assert (await team.compact()).done
        assert team.usage.usd == pytest.approx(4.0) and team.usage.requests == 2
        assert (await team.run("Again?")).stop == "done"
        made = await team.compact()
        assert not made.done and made.limit == "money"


@pytest.mark.promise("H6", "D8", "F54")
async def test_a_resumed_team_goes_on_from_the_summary_and_still_knows_its_tasks(tmp_path):
    script = {"team-lead": itertools.repeat("Hello."), "ada": iter([TAKE, "mine"])}
    model = ScriptedModel(lambda request: "In short." if request.aside else next(script[request.agent_name]))
    async with a_team(tmp_path, model) as team:
        await team.tasks.add("count", metadata={"for": ["ada"]})
        await team.spawn("ada", "Take task 1.")
        await until(team, lambda: team.members[0].state == "idle")
        await team.run("Hello?")
        assert (await team.compact()).done and (await team.compact("ada")).done
        restated = "\n".join(first_of_item(team.session.team.find("ada").agent.conversation.items[0]))
        assert "Your tasks:\n- #1 [in_progress] count (ada)" in restated
    again = Asked(lambda _request: "Yes.")
    async with goes_on(tmp_path, again, permission_mode="bypassPermissions") as team:
        teammate = team.session.team.find("ada")
        assert teammate is not None and teammate.agent.conversation.is_compacted
        await until(team, lambda: team.session.team.is_quiet())
        assert again.of("ada") == [], "it is not told of its task again"
        assert (await team.run("Still there?")).text == "Yes."
        assert "In short." in text_of(again.of("team-lead")[-1])
        after = [e["after"] for e in log_of(tmp_path) if e["type"] == "compacted" and e["member"] == "ada"][-1]
        assert team.session.team.status.members["ada"].context == after > 0
    found = audit(resolve_home(str(tmp_path / "home")), "crew", running=[os.getpid()])
    assert not found.problems, found.problems
