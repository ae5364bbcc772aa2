"""Forks: the same bytes up to the placeholders, the job last, nothing of the caller's agenda, and never of a fork."""

import asyncio
import json
import re

import pytest
from msgspec.structs import force_setattr, replace

from teamwright import ModelCard
from teamwright.agent.fork_origin import FORK_TAG
from teamwright.agent.prompt import load_conversation
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.events import ModelCallEnded
from teamwright.protocol.ids import LEAD
from teamwright.testing import Call, LoopbackModel, ScriptedModel
from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S
from tests.teams.subagents.crowd import crew, notices_in, only, results, start, until

ON = {"agents": {"fork": True}}


def job_of(request) -> str:
    """What a request of a fork is there for; empty when it is no fork's."""
    for item in request.items:
        for block in json.loads(item)["content"]:
            if block["type"] == "text" and block["text"].startswith(FORK_TAG):
                return block["text"].rpartition("\n\n")[2]
    return ""


class Forking(ScriptedModel):
    """The lead plays `lead`; a fork, or a member that is named, what stands under its job or its name."""

    def __init__(self, *lead: object, card: ModelCard | None = None, **others: list[object]) -> None:
        super().__init__(self._said, card=card)
        self.lead, self.others = list(lead), others

    def _said(self, request):
        if request.aside:
            return "A summary."
        script = self.lead if request.agent_name == LEAD else self.others.get(job_of(request) or request.agent_name)
        answer = script.pop(0) if script else "Done."
        return answer(request) if callable(answer) else answer

    def first(self, job: str):
        """The first request of the fork with this job."""
        return next(r for r in self.requests if job_of(r) == job)


def refusals(model: Forking, job: str) -> list[str]:
    asker = model.first(job).agent_name
    return results(model, asker)


@pytest.mark.promise("row F5", "F41")
async def test_the_callers_next_request_and_its_forks_are_the_same_bytes_up_to_the_placeholders(tmp_path, monkeypatch):
    calls = [
        ("Agent", {"description": "tests", "prompt": "Count the tests."}),
        ("Glob", {"pattern": "*.md"}),
        ("Agent", {"description": "docs", "prompt": "Count the pages."}),
    ]
    answers = {"Count the tests.": "There are 3.", "Count the pages.": "There are 4."}

    def script(body):
        last = body["messages"][-1]["content"][-1]
        if last.get("text", "").startswith(FORK_TAG):
            return Answer(answers[last["text"].rpartition("\n\n")[2]])
        if len(body["messages"]) == 1:
            return Answer("I look.", calls, thinking="Two counts.")
        return Answer("I wait.")

    async with within_s(WAIT_S), LoopbackModel(script) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0000000000000000")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        async with crew(tmp_path, "haiku", settings=ON) as team:
            await team.run("How much is there?")
    sent = [request.body for request in server.requests if request.method == "POST"]
    forks = sorted(
        (body for body in sent if FORK_TAG.encode() in body), key=lambda body: b"Count the pages" in body[-300:]
    )
    [first, second] = [body for body in sent if FORK_TAG.encode() not in body][:2]
    assert len(forks) == 2
    answer = next(m for m in json.loads(second)["messages"] if m["role"] == "assistant")
    place = second.index(b'{"role":"user","content":[{"type":"tool_result"')
    result = second.index(b'"content":', second.index(b'"tool_use_id"', place)) + len(b'"content":')
    for fork in forks:
        assert fork[:result] == second[:result], "system, tools, thinking, messages and cache breakpoints"
        assert fork[result:] != second[result:]
    assert [block["type"] for block in answer["content"]] == ["thinking", "text", "tool_use", "tool_use", "tool_use"]
    one, other = forks
    common = next(at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    assert one[common:].startswith(b"tests.") and other[common:].startswith(b"pages.")
    assert re.sub(b"tests|pages", b"", one[common:]) == re.sub(b"tests|pages", b"", other[common:])
    body = json.loads(one)
    *stand_ins, words = body["messages"][-1]["content"]
    assert [block["tool_use_id"] for block in stand_ins] == [b["id"] for b in answer["content"][2:]]
    assert len({json.dumps(block["content"]) for block in stand_ins}) == 1
    key = re.search(r'<system-reminder key=\\"(\w+)\\">\\n# This session', first.decode())
    assert key and words["text"].startswith(f'{FORK_TAG} key="{key[1]}">'), "P15"
    assert words["text"].endswith("</fork-boilerplate>\n\nCount the tests.")
    assert one.count(b'"cache_control"') <= 4
    assert plain(json.loads(first)["messages"]) == plain(body["messages"][: len(json.loads(first)["messages"])])


def within_s(seconds):
    return asyncio.timeout(seconds)


def plain(messages):
    """Messages without cache breakpoints."""
    return [[{k: v for k, v in b.items() if k != "cache_control"} for b in m["content"]] for m in messages]


@pytest.mark.promise("row F5")
async def test_a_fork_has_the_very_prefix_and_all_messages_of_its_caller_and_ends_like_any_in_the_background(tmp_path):
    model = Forking("First.", [start("count"), start("list")], "I wait.")
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON) as team:
        events = []
        team.session.log.subscribe(lambda _n, event: events.append(event), live=False)
        await team.run("Begin.")
        await team.run("Go.")
        runs = list(team.session.agents.runs.values())
        assert {run.state for run in runs} == {"completed"} and all(run.background for run in runs)
        assert {run.agent_type for run in runs} == {"fork"}
    caller = [r for r in model.requests if r.agent_name == LEAD][1]
    for job in ("count", "list"):
        fork = model.first(job)
        assert fork.prefix is caller.prefix
        assert fork.items[: len(caller.items)] == caller.items
        assert len(fork.items) == len(caller.items) + 2, "the answer that asked for it, and its own line"
    assert model.first("count").items[:-1] == model.first("list").items[:-1]
    assert all("runs in the background" in text for text in results(model)[:2])
    assert {run.id for run in runs} == set(notices_in(told(model)))
    booked = [event for event in events if isinstance(event, ModelCallEnded) and event.member != LEAD]
    assert {(event.member, event.caller) for event in booked} == {(run.id, LEAD) for run in runs}


def told(model) -> str:
    last = [request for request in model.requests if request.agent_name == LEAD][-1]
    return "\n".join(item.decode() for item in last.items)


@pytest.mark.promise("row F5", "F59", "F41")
async def test_a_fork_is_never_forked_and_what_would_speak_for_its_caller_refuses(tmp_path):
    inner = [
        start("deeper"),
        start("named", subagent_type="Explore"),
        Call("Task", {"description": "other name", "prompt": "x"}),
        Call("SendMessage", {"to": "lead", "message": "hello", "summary": "hello"}),
        Call("TaskCreate", {"subject": "more", "description": "more"}),
        Call("AskUserQuestion", {"questions": []}),
        Call("Bash", {"command": "echo own work > made"}),
    ]
    model = Forking(start("work"), "I wait.", work=[inner, "Finished."])
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON, on_request=lambda _request: None) as team:
        await team.run("Go.")
        assert only(team).text == "Finished."
        assert not await team.tasks.all()
    said = refusals(model, "work")
    assert [len([text for text in said if word in text]) for word in ("starts no agents", "sends no messages")] == [
        3,
        1,
    ]
    assert "does not have TaskCreate" in said[-3] and "asks no questions" in said[-2]
    assert (tmp_path / "work" / "made").read_text() == "own work\n"


@pytest.mark.promise("row F5")
async def test_a_conversation_that_says_it_is_a_forks_is_not_forked_whatever_else_is_known_of_it(tmp_path):
    model = Forking(start("work"), "I wait.")
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON) as team:
        await team.run(f"{FORK_TAG}\nYou are a fork.")
        assert not team.session.agents.runs
    assert "a fork cannot be forked" in results(model)[0]


@pytest.mark.promise("row F5", "row F1")
async def test_what_a_fork_has_of_its_caller_cannot_be_said_and_a_named_kind_begins_anew_in_the_background(tmp_path):
    model = Forking(
        [start("a", model="haiku"), start("b", mode="plan"), start("c", run_in_background=False)],
        [start("d", subagent_type="general-purpose"), start("e", subagent_type="Explore", model="other")],
        "I wait.",
    )
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON) as team:
        schema = next(t for t in team.session.lead.agent.toolbox.schemas if t["name"] == "Agent")
        await team.run("Go.")
        kinds = [run.agent_type for run in team.session.agents.runs.values()]
        assert kinds == ["general-purpose", "Explore"] and all(r.background for r in team.session.agents.runs.values())
    first = results(model)[:3]
    assert "model cannot be given" in first[0] and "mode cannot be given" in first[1]
    assert "does not take run_in_background now" in first[2]
    assert "run_in_background" not in schema["input_schema"]["properties"] and "a fork of you" in schema["description"]
    assert "default" not in schema["input_schema"]["properties"]["subagent_type"]
    children = [r for r in model.requests if r.agent_name != LEAD]
    assert all(len(request.items) == 1 for request in children)


@pytest.mark.promise("row F5", "F45")
async def test_a_rule_that_denies_forks_denies_every_one_and_no_other_agent(tmp_path):
    model = Forking([start("a"), start("b", subagent_type="Explore")], "I wait.")
    rules = {"permissions": {"deny": ["Agent(fork)"]}}
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON | rules) as team:
        await team.run("Go.")
        assert only(team).agent_type == "Explore"
    assert "Agent(fork)" in results(model)[0]


async def test_without_the_setting_a_call_without_a_kind_is_a_sub_agent_of_general_purpose(tmp_path):
    model = Forking(start("a"), "Good.")
    async with within_s(WAIT_S), crew(tmp_path, model) as team:
        await team.run("Go.")
        assert only(team).agent_type == "general-purpose" and not only(team).background


@pytest.mark.promise("F41")
@pytest.mark.parametrize(
    "settings, why",
    [({"coordinator": True}, "coordinator is on"), ({"agents": {"fork": True, "background": False}}, "always runs")],
)
async def test_forks_that_cannot_be_had_are_an_error_that_says_why_and_nothing_starts(tmp_path, settings, why):
    model = Forking("Never.")
    with pytest.raises(CannotStart, match=why) as refused:
        async with crew(tmp_path, model, settings=ON | settings):
            pass
    assert refused.value.slug == "bad-settings" and not model.requests


@pytest.mark.promise("row F5", "F46")
async def test_a_member_forks_itself_and_the_fork_is_held_to_what_the_member_is_held_to(tmp_path):
    guard = [{"matcher": "Glob", "hooks": [{"type": "command", "command": "echo guarded >&2; exit 2"}]}]
    stop = [{"hooks": [{"type": "command", "command": "touch stop-hook-of-the-member; exit 0"}]}]
    kind = {
        "description": "d",
        "prompt": "p",
        "disallowedTools": ["Write", "Bash(touch:*)"],
        "hooks": {"PreToolUse": guard, "Stop": stop, "SubagentStop": stop},
    }
    tries = [
        Call("Write", {"file_path": "made", "content": "x"}),
        Call("Bash", {"command": "touch made"}),
        Call("Glob", {"pattern": "*"}),
        Call("Bash", {"command": "echo fine > other"}),
    ]
    model = Forking("I wait.", ada=[start("try"), "Forked."], **{"try": [tries, "Tried."]})
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON, agents={"kind": kind}) as team:
        await team.spawn("ada", "Fork.", agent_type="kind")
        await until(team, lambda: [r for r in team.session.agents.runs.values() if r.state == "completed"])
        [run] = team.session.agents.runs.values()
        assert run.owner == "ada"
        fork, ada = model.first("try"), next(r for r in model.requests if r.agent_name == "ada")
        assert fork.prefix is ada.prefix and fork.items[: len(ada.items)] == ada.items
        said = results(model, run.id)[1:]
        assert "There is no tool 'Write'" in said[0]
        assert "Bash(touch:*)" in said[1] and "guarded" in said[2]
        assert not (tmp_path / "work" / "made").exists() and (tmp_path / "work" / "other").exists()
        assert not (tmp_path / "work" / "stop-hook-of-the-member").exists()


@pytest.mark.promise("row F5", "F59", "row F15")
async def test_where_depth_allows_it_a_sub_agent_forks_itself_and_however_deep_a_fork_starts_nobody(tmp_path):
    inner = [start("deeper"), start("named", subagent_type="Explore")]
    model = Forking(start("split it", subagent_type="general-purpose"), "I wait.", part=[inner, "My part."])
    split = [start("part"), "I wait for it.", "Both parts."]
    said = model._said
    model._answers = lambda r: said(r) if r.agent_name == LEAD or job_of(r) else (split.pop(0) if split else "Done.")
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON) as team:
        limits = team.session.team.limits
        limits.settings = replace(limits.settings, depth=3)
        await team.run("Go.")
        top, fork = team.session.agents.runs.values()
        assert (top.agent_type, top.owner, fork.agent_type, fork.owner) == ("general-purpose", LEAD, "fork", top.id)
        assert fork.text == "My part." and top.text == "Both parts."
    own = next(r for r in model.requests if r.agent_name == top.id)
    first = model.first("part")
    assert first.prefix is own.prefix and first.items[: len(own.items)] == own.items
    assert all("starts no agents" in text for text in results(model, fork.id)[-2:])


@pytest.mark.promise("row F5", "G1", "F44")
async def test_what_a_fork_asks_goes_where_its_caller_would_ask_and_says_whose_it_is(tmp_path):
    asked = []

    def on_request(request):
        asked.append(request.member)
        return request.allow()

    inner = Call("Bash", {"command": "touch made"})
    model = Forking(start("touch it"), "I wait.", **{"touch it": [inner, "Touched."]})
    more = {"permission_mode": "default", "on_request": on_request}
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON, **more) as team:
        await team.run("Go.")
    assert (tmp_path / "work" / "made").exists()
    assert asked == ["lead › fork: job touch it"]


@pytest.mark.promise("row F5", "H6", "F57")
async def test_a_fork_outlives_its_callers_compaction_and_its_own_and_nothing_of_its_caller_is_copied(tmp_path):
    long = "word " * 4_000
    model = Forking(long, start("count", max_turns=9), "I wait.", "More.", count=["Counted.", "Again.", "And again."])
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON) as team:
        session = team.session
        await team.run("Begin.")
        await team.run("Go.")
        run = only(team)
        before = model.first("count").items
        prefixes = session.agent_factory.prefixes
        assert run.transcript.stat().st_size < 4_000 < len(long)
        assert (await team.compact()).done
        await team.run("On.")
        loaded = load_conversation(run.transcript, prefixes)
        assert tuple(loaded.items[: len(before)]) == before and loaded.inherited_count == len(before) - 1
        assert loaded.answer_count == 1 and loaded.delivered_ids({f"prompt:{run.id}"}) and not loaded.owes_answer
        await tell(session, run, "Once more.")
        second = [r for r in model.requests if r.agent_name == run.id][-1]
        assert second.items[: len(before)] == before and b"Once more." in second.items[-1]
        session.agent_factory.compact = type(session.agent_factory.compact)(at=0.1)
        force_setattr(session.agent_factory.compacting, "settings", session.agent_factory.compact)
        model._card = ModelCard("scripted", "scripted", "scripted", context_tokens=20_000, usd_in=0.0, usd_out=0.0)
        await tell(session, run, "And once more.")
        third = [r for r in model.requests if r.agent_name == run.id and not r.aside][-1]
        assert third.prefix.head == second.prefix.head
        assert long.encode() not in b"".join(third.items) and b"A summary." in third.items[0]
        assert third.items[0].count(b"# This session") == 1, "its caller's note too"
        assert FORK_TAG.encode() in third.items[0] and b"\\n\\ncount" in third.items[0], "its job is told once more"
        at = run.transcript
    lead = next(path for path in at.parent.parent.parent.glob("*.jsonl"))
    lead.rename(lead.with_suffix(".gone"))
    assert load_conversation(at, prefixes).is_compacted, "a fork that was compacted needs its caller's file no more"


async def tell(session, run, words) -> None:
    from teamwright.subagents.subagent_settings import CallRef

    await session.agents.send(run, words, LEAD, CallRef())
    assert await session.agents.wait(run, WAIT_S)


@pytest.mark.promise("F41")
async def test_what_hooks_say_at_a_forks_start_stands_before_its_job(tmp_path):
    say = 'echo \'{"hookSpecificOutput":{"hookEventName":"SubagentStart","additionalContext":"mind the gap"}}\''
    hooks = {"SubagentStart": [{"matcher": "fork", "hooks": [{"type": "command", "command": say}]}]}
    model = Forking(start("count"), "I wait.")
    async with within_s(WAIT_S), crew(tmp_path, model, settings=ON | {"hooks": hooks}) as team:
        await team.run("Go.")
    last = json.loads(model.first("count").items[-1])["content"]
    assert last[-1]["text"].endswith("count") and "mind the gap" in last[-2]["text"]
