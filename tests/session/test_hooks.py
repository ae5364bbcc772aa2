"""Hooks on every route: calls, prompts, turns, sub-agents, teammates, tasks, requests; each start has one stop."""

import asyncio
import gc
import json
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright import Result, Team
from teamwright.agent.transcript import read_history
from teamwright.agent.turn_loop import MAX_BLOCKS
from teamwright.hooks.payload import SUBAGENT
from teamwright.models.model import Failure
from teamwright.permissions.verdict import Question
from teamwright.protocol.events import Notice
from teamwright.protocol.messages import text_block
from teamwright.session.session_hooks import HookedAgent
from teamwright.testing import Call, ScriptedModel
from tests.session.hook_log import HookLog, unbalanced
from tests.session.test_modes import Stop
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, told, until, within


@pytest.fixture
def hooks(tmp_path) -> HookLog:
    (tmp_path / "work").mkdir()
    return HookLog(tmp_path)


def a_team(hooks: HookLog, model, **more) -> Team:
    kept = {"permission_mode": "bypassPermissions", "settings_file": hooks.settings} | more
    return Team("crew", model=model, cwd=hooks.directory / "work", **kept)


def refusing(reason: str) -> str:
    return f"echo '{reason}' >&2; exit 2"


def once(reason: str) -> str:
    """Refuses to let somebody stop, but not when it went on because of that."""
    return f"""case "$told" in *'"stop_hook_active": true'*) ;; *) {refusing(reason)};; esac"""


def saying(value: dict) -> str:
    return f"echo '{json.dumps(value)}'"


def own(event: str, **value: object) -> str:
    return saying({"hookSpecificOutput": {"hookEventName": event, **value}})


async def run(hooks: HookLog, script, **more) -> tuple[Result, ScriptedModel, list[str]]:
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    notices: list[str] = []
    async with a_team(hooks, model, **more) as team:
        team.session.log.subscribe(lambda _n, e: notices.append(e.text) if isinstance(e, Notice) else None)
        result = await team.run("Do it.")
    return result, model, notices


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G7")
async def test_a_call_that_a_hook_refuses_does_not_run_and_the_model_reads_why(hooks):
    hooks.on("PreToolUse", refusing("not here"), matcher="Write|Edit")
    result, model, _ = await run(
        hooks, [Call("Write", {"file_path": "new.txt", "content": "x"}), Call("Bash", {"command": "echo hi"}), "Done."]
    )
    assert not (hooks.directory / "work" / "new.txt").exists()
    assert "A hook refused this call: not here" in model.request_text(1)
    assert model.request_text(2).startswith("hi")
    [denial] = result.denials
    assert (denial["tool_name"], denial["rule"]) == ("Write", "hook")
    [event] = hooks.told
    assert (event["tool_name"], event["tool_input"]) == ("Write", {"file_path": "new.txt", "content": "x"})
    assert event["tool_use_id"] and event["permission_mode"] == "bypassPermissions" and event["kind"] == "lead"


@pytest.mark.promise("G7")
async def test_a_hook_after_a_call_reads_its_result_and_adds_to_it(hooks):
    hooks.on("PostToolUse", own("PostToolUse", additionalContext="2 tests <fail>"), matcher="Bash")
    calls = [Call("Bash", {"command": "echo hi"}), Call("Bash", {"command": "exit 3"}), "Done."]
    _, model, _ = await run(hooks, calls)
    assert "hi" in model.request_text(1) and "2 tests <fail>" in model.request_text(1), "what a hook says is data"
    assert "2 tests" not in model.request_text(2), "only what went well has a hook after it"
    [event] = hooks.told
    assert event["tool_response"]["stdout"].strip() == "hi"


@pytest.mark.promise("G7")
async def test_a_call_that_fails_has_its_own_hook_which_adds_to_it_and_one_that_is_refused_has_none(hooks):
    hooks.on("PostToolUseFailure", own("PostToolUseFailure", additionalContext="look at <make>"), matcher="Bash")
    calls = [Call("Bash", {"command": "echo well"}), Call("Bash", {"command": "echo no >&2; exit 3"}), "Done."]
    _, model, _ = await run(hooks, calls)
    assert "look at" not in model.request_text(1), "what went well has the other one"
    assert "look at <make>" in model.request_text(2)
    [event] = hooks.told
    assert (event["tool_name"], event["tool_input"]["command"]) == ("Bash", "echo no >&2; exit 3")
    assert "no" in event["error"] and event["is_interrupt"] is False and event["tool_use_id"]
    calls = [Call("Bash", {"command": "touch denied"}), "Done."]
    await run(hooks, calls, permission_mode="default", disallowed_tools=["Bash(touch denied)"])
    assert len(hooks.told) == 1, "a call that did not run has not failed"


@pytest.mark.promise("G7")
async def test_a_call_that_an_interrupt_cuts_off_has_its_failure_told_as_one(hooks):
    hooks.on("PostToolUseFailure", matcher="mcp__.*|python__hold")
    stop = Stop()
    async with a_team(hooks, ScriptedModel([Call("python__hold", {}), "Done."]), tools=[stop.hold]) as team:
        going = team.run("Do it.")
        await stop.at()
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going
    [event] = hooks.of("PostToolUseFailure")
    assert event["is_interrupt"] is True


@pytest.mark.promise("G7")
async def test_a_changed_input_is_validated_decided_on_and_shown_as_it_ran(hooks):
    hooks.on("PreToolUse", own("PreToolUse", permissionDecision="allow", updatedInput={"command": "echo changed"}))
    calls: list = []
    model = ScriptedModel([Call("Bash", {"command": "echo original"}), "Done."])
    async with a_team(hooks, model) as team:
        team.session.log.subscribe(lambda _n, e: calls.append(e.input) if e.KIND == "tool_called" else None)
        await team.run("Do it.")
    assert "changed" in model.request_text(1) and "original" not in model.request_text(1)
    assert "A hook changed the input of this call" in model.request_text(1)
    assert calls == [{"command": "echo changed"}]


@pytest.mark.promise("G7", "P4")
async def test_an_allowed_call_answers_a_question_and_never_lifts_a_refusal(hooks):
    hooks.on("PreToolUse", own("PreToolUse", permissionDecision="allow"))
    calls = [Call("Bash", {"command": "touch asked"}), Call("Bash", {"command": "touch denied"}), "Done."]
    _, model, _ = await run(hooks, calls, permission_mode="default", disallowed_tools=["Bash(touch denied)"])
    assert (hooks.directory / "work" / "asked").exists(), model.request_text(1)
    assert not (hooks.directory / "work" / "denied").exists()
    assert "not allowed" in model.request_text(2)


@pytest.mark.promise("G7")
async def test_a_changed_input_that_is_denied_or_unfit_does_not_run(hooks):
    hooks.on(
        "PreToolUse",
        own("PreToolUse", permissionDecision="allow", updatedInput={"command": "touch denied"}),
        matcher="Bash",
    ).on("PreToolUse", own("PreToolUse", updatedInput={"file_path": 3, "x": 1}), matcher="Write")
    calls = [Call("Bash", {"command": "true"}), Call("Write", {"file_path": "a", "content": "x"}), "Done."]
    _, model, _ = await run(hooks, calls, disallowed_tools=["Bash(touch denied)"])
    assert not list((hooks.directory / "work").iterdir())
    assert "not allowed" in model.request_text(1)
    assert "A hook changed this call, and it cannot run that way" in model.request_text(2)


@pytest.mark.promise("G7")
async def test_a_hook_can_have_a_call_asked_that_would_run(hooks):
    hooks.on("PreToolUse", own("PreToolUse", permissionDecision="ask", permissionDecisionReason="new host"))
    _, model, _ = await run(hooks, [Call("Bash", {"command": "echo hi"}), "Done."])
    assert "no user is present to ask" in model.request_text(1)


@pytest.mark.promise("G7")
async def test_continue_false_ends_the_turn_after_this_round(hooks):
    hooks.on("PostToolUse", saying({"continue": False, "stopReason": "enough"}))
    result, model, _ = await run(hooks, [["I begin.", Call("Bash", {"command": "echo hi"})], "never asked"])
    assert (result.stop, result.text, len(model.requests)) == ("done", "I begin.", 1)


@pytest.mark.promise("G7", "P6")
@pytest.mark.slow
async def test_a_hook_that_hangs_before_a_call_does_not_block_it(hooks):
    hooks.on("PreToolUse", "sleep 600", timeout=0.5)
    _, model, notices = await run(hooks, [Call("Bash", {"command": "echo hi"}), "Done."])
    assert model.request_text(1).startswith("hi")
    assert [text for text in notices if "ended after 0.5 s" in text]


# ── words and turns ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G7")
async def test_words_that_a_hook_refuses_reach_nobody_and_the_result_says_so(hooks):
    hooks.on("UserPromptSubmit", refusing("it holds a password"))
    result, model, _ = await run(hooks, ["never asked"])
    assert not model.requests
    assert (result.stop, result.error.slug if result.error else "") == ("failed", "hook-refused")
    assert "it holds a password" in str(result.error)
    assert hooks.told[0]["prompt"] == "Do it."


@pytest.mark.promise("G7")
async def test_what_hooks_add_to_the_session_and_to_words_goes_along_with_them(hooks):
    hooks.on("SessionStart", "echo 'The build is red.'").on("UserPromptSubmit", "echo 'Today is Monday.'")
    _, model, _ = await run(hooks, ["Done."])
    assert all(part in told(model, "team-lead") for part in ("The build is red.", "Do it.", "Today is Monday."))
    assert [one["hook_event_name"] for one in hooks.told] == ["SessionStart", "UserPromptSubmit"]
    assert hooks.told[0]["source"] == "startup"


@pytest.mark.promise("G7")
async def test_words_for_a_busy_lead_are_looked_at_before_its_next_round(hooks):
    hooks.on("UserPromptSubmit", f"""case "$told" in *secret*) {refusing("no secrets")};; *) echo Noted.;; esac""")
    model = Holding([Call("Bash", {"command": "true"}), "Done."], "team-lead")
    async with a_team(hooks, model) as team:
        running = asyncio.ensure_future(team.run("Do it."))
        await within(WAIT_S, model.thinking.wait())
        team.session.lead.add_prompt([text_block("A secret.")])
        team.session.lead.add_prompt([text_block("Be brief.")])
        model.go.set()
        result = await running
    assert "Be brief." in model.request_text(1) and "secret" not in told(model, "team-lead")
    assert told(model, "team-lead").count("Noted.") == 2
    assert (result.stop, result.text) == ("failed", "Done.")


@pytest.mark.promise("G7")
async def test_a_stop_hook_sends_the_lead_back_to_work_once(hooks):
    hooks.on("Stop", once("run the tests"))
    result, model, _ = await run(hooks, ["All done.", "Tests pass."])
    assert result.text == "All done.\n\nTests pass."
    assert "A hook does not let you stop yet: run the tests" in model.request_text(1)
    assert [one["stop_hook_active"] for one in hooks.told] == [False, True]
    assert hooks.told[0]["last_assistant_message"] == "All done."


def context_once(event: str) -> str:
    return f"""case "$told" in *'"stop_hook_active": true'*) ;; *) {own(event, additionalContext="MARKER")};; esac"""


@pytest.mark.finding("3W16")
@pytest.mark.parametrize("answer", ["context", "context each time", "block"])
@pytest.mark.parametrize("event", ["Stop", "SubagentStop", "TeammateIdle"])
async def test_what_a_stop_hook_adds_reaches_the_model_and_the_answer_before_it_is_kept(hooks, event, answer):
    always = own(event, additionalContext="MARKER")
    hooks.on(event, {"context": context_once(event), "context each time": always, "block": once("MARKER")}[answer])
    work = ["BANANA (the deliverable)", "ok"]
    spawn = {"description": "look", "prompt": "Look around."} | ({} if event == "SubagentStop" else {"name": "ada"})
    starts = [] if event == "Stop" else [Call("Agent", spawn)]
    seen: list[str] = []

    def answer_of(request):
        text = b"".join(request.items).decode()
        is_worker = event == "Stop" or request.agent_name == "ada" or "Look around." in text.split("Do it.")[0]
        seen.append(text if is_worker else "")
        if is_worker:
            return work[1] if "MARKER" in text else work[0]
        return starts.pop(0) if starts else "Done."

    model = ScriptedModel(answer_of)
    result, _, _ = await run(hooks, model)
    assert [text.count("MARKER") for text in seen if text] == [0, 1], "one more call, with the words of the hook"
    lead = told(model, "team-lead") if event != "Stop" else result.text
    assert "BANANA (the deliverable)" in lead and "ok" in lead.split("BANANA (the deliverable)")[1]


@pytest.mark.finding("3W16")
@pytest.mark.parametrize("event", ["TaskCreated", "TaskCompleted", "PermissionRequest"])
async def test_the_context_of_any_other_event_comes_with_the_next_input(hooks, event):
    hooks.on(event, own(event, additionalContext="MARKER"))
    create = Call("TaskCreate", {"subject": "one", "description": "d"})
    done = Call("TaskUpdate", {"taskId": "1", "status": "completed"})
    touch = Call("Bash", {"command": "touch new"})
    model = ScriptedModel([create, done, touch, "Done.", "Again."])
    async with a_team(hooks, model, permission_mode="default") as team:
        await team.run("Do it.")
        await team.run("And again.")
    assert "MARKER" in told(model, "team-lead")


@pytest.mark.promise("G7", "P6")
async def test_a_stop_hook_that_refuses_for_ever_is_bounded(hooks):
    hooks.on("Stop", refusing("never"))
    result, model, notices = await run(hooks, ["Again."] * 20)
    assert result.stop == "done"
    assert len(model.requests) == MAX_BLOCKS + 1
    assert [text for text in notices if "would not let" in text]


@pytest.mark.promise("G7")
async def test_a_failed_turn_has_no_stop_hook_and_the_session_still_ends(hooks):
    hooks.on("Stop").on("SessionStart").on("SessionEnd").on("Notification")
    result, _, _ = await run(hooks, [Failure("model-failed", "it broke")])
    assert result.stop == "failed"
    assert not hooks.of("Stop") and not unbalanced(hooks.told)
    [note] = hooks.of("Notification")
    assert note["notification_type"] == "run_failed" and "it broke" in note["message"]


# ── sub-agents and teammates ─────────────────────────────────────────────────────────────────────────────────────

AGENT = {"description": "look", "prompt": "Look around.", "subagent_type": "Explore"}


def both(hooks: HookLog) -> HookLog:
    return hooks.on("SubagentStart").on("SubagentStop")


def agents_of(script: dict):
    """Sub-agents have ids that nobody knows before: whoever is not named is one."""

    def answer(request):
        part = script.get(request.agent_name, script["*"])
        said = part.pop(0)
        return said

    return ScriptedModel(answer)


@pytest.mark.promise("G7", "F69")
async def test_a_sub_agent_has_one_start_and_one_stop_that_say_whose_it_is(hooks):
    both(hooks).on("PreToolUse", own("PreToolUse", additionalContext="seen"))
    model = agents_of(
        {"team-lead": [Call("Agent", AGENT), "Done."], "*": [Call("Bash", {"command": "ls"}), "Nothing here."]}
    )
    await run(hooks, model)
    start, stop = hooks.of("SubagentStart", "SubagentStop")
    assert start["agent_id"] == stop["agent_id"] != "" and start["agent_type"] == "Explore"
    assert (start["kind"], start["parent"], start["generation"]) == ("subagent", "lead", 1)
    assert (stop["outcome"], stop["last_assistant_message"]) == ("done", "Nothing here.")
    assert Path(stop["agent_transcript_path"]).is_file() and stop["agent_transcript_path"] != stop["transcript_path"]
    calls = {(one["tool_name"], one.get("agent_id", "")) for one in hooks.of("PreToolUse")}
    assert calls == {("Agent", ""), ("Bash", start["agent_id"])}, "hooks of calls know sub-agents"


@pytest.mark.promise("G7")
async def test_a_sub_agent_hears_what_its_start_adds_and_goes_on_when_its_stop_is_refused(hooks):
    hooks.on("SubagentStart", own("SubagentStart", additionalContext="Mind the tests."), matcher="Explore")
    hooks.on("SubagentStop", once("look again"))
    model = agents_of({"team-lead": [Call("Agent", AGENT), "Done."], "*": ["Nothing.", "A bug."]})
    await run(hooks, model)
    texts = "\n".join(model.request_text(n) for n in range(len(model.requests)))
    assert "Mind the tests." in texts and "look again" in texts
    assert "A bug." in model.request_text(-1), "the lead reads the last answer"
    assert [one["outcome"] for one in hooks.of("SubagentStop")] == ["done", "done"]


@pytest.mark.promise("F69")
@pytest.mark.parametrize(
    ("answers", "more", "outcome"),
    [
        ([Failure("model-failed", "it broke")], {}, "failed"),
        ([Call("Bash", {"command": "true"})] * 3, {"max_turns": 1}, "limit"),
    ],
)
async def test_a_sub_agent_that_does_not_come_to_its_end_has_its_stop_too(hooks, answers, more, outcome):
    both(hooks)
    model = agents_of({"team-lead": [Call("Agent", AGENT | more), "Done."], "*": list(answers)})
    await run(hooks, model)
    assert [one.get("outcome") for one in hooks.told] == [None, outcome]


@pytest.mark.promise("F69")
async def test_a_sub_agent_whose_caller_is_interrupted_has_its_stop(hooks):
    both(hooks)
    thinking = asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request):
            if request.agent_name != "team-lead":
                thinking.set()
                await asyncio.Event().wait()
            async for part in super().stream(request):
                yield part

    async with a_team(hooks, Slow([Call("Agent", AGENT), "Done."])) as team:
        running = asyncio.ensure_future(team.run("Do it."))
        await within(WAIT_S, thinking.wait())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [one.get("outcome") for one in hooks.told] == [None, "cancelled"]


@pytest.mark.promise("G7", "F69")
async def test_a_teammate_has_a_start_and_on_every_end_one_stop(hooks):
    both(hooks)
    hooks.on("TeammateIdle")
    model = Holding({"lead": ["ok"] * 20, "ada": ["Done."], "ben": [Failure("model-failed", "broke")] * 3}, "cyd")
    async with a_team(hooks, model) as team:
        ada = await team.spawn("ada", "Work.")
        await team.spawn("ben", "Work.")
        cyd = await team.spawn("cyd", "Think.")
        await within(WAIT_S, model.thinking.wait())
        await until(team, lambda: ada.state == "idle")
        await cyd.stop()
        await ada.stop()
    assert not unbalanced(hooks.told)
    outcomes = {one["teammate_name"]: one["outcome"] for one in hooks.of("SubagentStop")}
    assert outcomes["cyd"] == "killed" and set(outcomes) == {"ada", "ben", "cyd"}
    starts = {one["teammate_name"]: one for one in hooks.of("SubagentStart")}
    assert starts["ada"]["agent_id"] == "ada@crew" and starts["ada"]["kind"] == "teammate"
    assert [one["teammate_name"] for one in hooks.of("TeammateIdle")] == ["ada"], "only a turn that is done"


@pytest.mark.promise("G7")
async def test_an_idle_hook_keeps_a_teammate_at_work_with_its_reason(hooks):
    hooks.on("TeammateIdle", once("lint first"))
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Done.", "Linted."]})
    async with a_team(hooks, model) as team:
        ada = await team.spawn("ada", "Work.")
        await until(team, lambda: ada.state == "idle" and len(hooks.told) == 2)
    assert "lint first" in told(model, "ada")


@pytest.mark.promise("G7")
async def test_an_idle_hook_ends_a_teammate_and_the_lead_is_told_why(hooks):
    both(hooks).on("TeammateIdle", saying({"continue": False, "stopReason": "no more of this"}))
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Done."]})
    async with a_team(hooks, model) as team:
        await team.spawn("ada", "Work.")
        await until(team, lambda: not team.members)
        await team.run("What happened?")
    assert "no more of this" in told(model, "team-lead")
    assert [one["outcome"] for one in hooks.of("SubagentStop")] == ["done"]


@pytest.mark.promise("F69")
async def test_a_teammate_that_is_asked_to_stop_has_one_stop(hooks):
    both(hooks)
    stop = Call("SendMessage", {"to": "ada", "message": {"type": "shutdown_request", "reason": "all done"}})
    model = ScriptedModel({"lead": [stop, "Asked.", "Over."] + ["ok"] * 9, "ada": ["Done.", "Goodbye."]})
    async with a_team(hooks, model) as team:
        ada = await team.spawn("ada", "Work.")
        await until(team, lambda: ada.state == "idle")
        await team.run("Let ada go.")
        await until(team, lambda: not team.members)
    assert [one.get("outcome") for one in hooks.told] == [None, "done"]


@pytest.mark.promise("F69")
async def test_a_teammate_that_keeps_its_place_stops_with_the_session_and_starts_with_the_next_one(hooks):
    both(hooks).on("SessionStart").on("SessionEnd")
    async with a_team(hooks, ScriptedModel({"lead": ["ok"] * 9, "ada": ["Done."]})) as team:
        ada = await team.spawn("ada", "Work.")
        await until(team, lambda: ada.state == "idle")
    assert not unbalanced(hooks.told)
    assert [one["outcome"] for one in hooks.of("SubagentStop")] == ["suspended"]
    more = {"cwd": hooks.directory / "work", "settings_file": hooks.settings}
    async with Team.resume("crew", model=ScriptedModel({"lead": ["ok"] * 9, "ada": ["ok"] * 9}), **more) as team:
        await until(team, lambda: len(hooks.of("SubagentStart")) == 2)
    assert not unbalanced(hooks.told)
    assert [one["source"] for one in hooks.of("SessionStart")] == ["startup", "resume"]
    assert [one["generation"] for one in hooks.of("SubagentStart")] == [1, 1], "it is the same life"


# ── tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────

TASK = Call("TaskCreate", {"subject": "Fix it", "description": "All of it."})


@pytest.mark.promise("G7", "F19")
async def test_a_task_that_a_hook_refuses_is_not_on_the_list_and_others_cannot_take_it_meanwhile(hooks):
    hooks.on("TaskCreated", """case "$told" in *Fix*) echo 'name the file' >&2; exit 2;; esac""")
    other = Call("TaskCreate", {"subject": "Test it", "description": "x", "metadata": {"for": ["zoe"], "n": 1}})
    model = ScriptedModel({"lead": [TASK, other, "Done."] + ["ok"] * 9, "ada": ["Ready."] * 9})
    async with a_team(hooks, model) as team:
        ada = await team.spawn("ada", "Wait for tasks.")
        await until(team, lambda: ada.state == "idle")
        await team.run("Do it.")
        [task] = await team.tasks.all()
    assert (task.subject, (task.metadata or {})["for"], (task.metadata or {})["n"]) == ("Test it", ["zoe"], 1)
    assert "name the file" in told(model, "team-lead")
    assert [one["task_subject"] for one in hooks.told] == ["Fix it", "Test it"]


@pytest.mark.promise("G7", "F19")
async def test_a_task_is_not_completed_while_a_hook_refuses_it(hooks):
    allowed = hooks.directory / "work/allowed"
    hooks.on("TaskCompleted", f"test -e {allowed} || {{ echo 'the build is red' >&2; exit 2; }}")
    done = Call("TaskUpdate", {"taskId": "1", "status": "completed"})
    calls = [TASK, done, Call("Bash", {"command": f"touch {allowed}"}), done, "Done."]
    model = ScriptedModel(calls)
    async with a_team(hooks, model) as team:
        await team.run("Do it.")
        [task] = await team.tasks.all()
    assert "Task #1 is not completed: the build is red" in model.request_text(2)
    assert "updated" in model.request_text(4) and task.status == "completed"
    assert [(one["task_id"], one["teammate_name"]) for one in hooks.told] == [("1", "team-lead")] * 2


@pytest.mark.promise("G7")
async def test_a_hook_ends_the_teammate_that_would_complete_a_task_and_the_task_goes_back(hooks):
    hooks.on("TaskCompleted", saying({"continue": False, "stopReason": "it cheats"}))
    done = Call("TaskUpdate", {"taskId": "1", "status": "completed"})
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": [done, "never asked"]})
    async with a_team(hooks, model) as team:
        await team.tasks.add("Fix it", metadata={"for": ["ada"]})
        await team.spawn("ada", "Work.")
        await until(team, lambda: not team.members)
        [task] = await team.tasks.all()
    assert (task.status, task.owner) == ("pending", None)
    assert len([request for request in model.requests if request.agent_name == "ada"]) == 1


@pytest.mark.promise("G7")
async def test_a_teammate_that_would_rest_with_a_task_in_progress_is_asked_about_it(hooks):
    hooks.on("TaskCompleted", """case "$told" in *never*) ;; *) echo 'finish it' >&2; exit 2;; esac""")
    model = ScriptedModel(
        {
            "lead": ["ok"] * 9,
            "ada": ["Ready.", "Half done.", Call("TaskUpdate", {"taskId": "1", "description": "never"}), "Done."],
        }
    )
    async with a_team(hooks, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        await team.tasks.add("Fix it")
        await until(team, lambda: len(model.requests) == 4 and ada.state == "idle")
    assert "task #1: finish it" in told(model, "ada")


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G7", "G4", "F44")
@pytest.mark.slow
async def test_of_two_sub_agents_that_are_called_alike_each_has_its_hooks_also_when_the_other_is_over(hooks):
    """A hook that denies must not be lost with a namesake."""
    no = own("PermissionRequest", decision={"behavior": "deny", "message": "not on Fridays"})
    hooks.on("PermissionRequest", no)
    async with a_team(hooks, ScriptedModel("ok"), permission_mode="default") as team:
        hooking, shown = team.session.agent_factory.toolset.hooking, "lead › Explore: find it"
        place, policy = team.session.lead.agent.toolbox.workplace, team.session.agent_factory.policy
        who = [replace(hooking.identity, kind=SUBAGENT, agent_id=f"agent-{number}") for number in range(2)]
        like = [hooking.make(HookedAgent(one, shown, place, policy), []) for one in who]
        del like[1]
        gc.collect()
        asked = Question(shown, "Bash", "permission", "touch x", "mode default")
        answer = await hooking.answer(asked)
    assert answer is not None and not answer.allowed and answer.text == "not on Fridays"
    assert [event["agent_id"] for event in hooks.told] == ["agent-0"]


@pytest.mark.promise("G7", "G4", "F44", "F69")
async def test_a_request_of_a_nested_sub_agent_is_answered_by_a_hook(hooks):
    hooks.on("PermissionRequest", own("PermissionRequest", decision={"behavior": "allow"}), matcher="Bash")
    model = agents_of(
        {
            "team-lead": ["ok"] * 9,
            "ada": [Call("Agent", AGENT | {"subagent_type": "general-purpose"}), "Done."],
            "*": [Call("Bash", {"command": "touch asked"}), "It worked."],
        }
    )
    async with a_team(hooks, model, permission_mode="default") as team:
        ada = await team.spawn("ada", "Work.")
        await until(team, lambda: ada.state == "idle")
    assert (hooks.directory / "work" / "asked").exists()
    [event] = hooks.told
    assert (event["tool_name"], event["tool_input"], event["parent"]) == ("Bash", {"command": "touch asked"}, "ada")


@pytest.mark.promise("G7", "G4")
async def test_a_hook_denies_a_request_with_its_words_or_runs_another_input(hooks):
    no = own("PermissionRequest", decision={"behavior": "deny", "message": "not on Fridays"})
    hooks.on("PermissionRequest", no, matcher="Write")
    other = {"behavior": "allow", "updatedInput": {"command": "touch other"}}
    hooks.on("PermissionRequest", own("PermissionRequest", decision=other), matcher="Bash")
    calls = [Call("Write", {"file_path": "a", "content": "x"}), Call("Bash", {"command": "touch asked"}), "Done."]
    _, model, _ = await run(hooks, calls, permission_mode="default")
    assert "not on Fridays" in model.request_text(1)
    assert [path.name for path in (hooks.directory / "work").iterdir()] == ["other"]


@pytest.mark.promise("G7")
async def test_who_should_look_is_notified_without_anybody_waiting(hooks):
    hooks.on("Notification")
    asked = asyncio.Event()

    def on_request(request):
        asked.set()
        return request.deny("no")

    await run(hooks, [Call("Bash", {"command": "touch x"}), "Done."], permission_mode="default", on_request=on_request)
    assert asked.is_set()
    assert sorted(one["notification_type"] for one in hooks.told) == ["idle_prompt", "permission_prompt"]


# ── compaction, and nothing at all ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G7")
async def test_a_compaction_has_its_hooks(hooks):
    hooks.on("PreCompact", matcher="manual").on("PostCompact", matcher="manual").on("PreCompact", matcher="auto")
    async with a_team(hooks, ScriptedModel(["ok", "We did it.", "Fine."])) as team:
        await team.run("Begin.")
        assert (await team.compact(keep="Keep the names.")).done
    assert [(one["hook_event_name"], one["trigger"]) for one in hooks.told] == [
        ("PreCompact", "manual"),
        ("PostCompact", "manual"),
    ]
    assert hooks.told[0]["custom_instructions"] == "Keep the names."
    assert hooks.told[1]["compact_summary"] == "We did it."


@pytest.mark.promise("G7")
async def test_after_a_compaction_the_session_starts_anew_and_what_that_adds_reaches_the_next_request(hooks):
    hooks.on("SessionStart", own("SessionStart", additionalContext="mind the <whales>"), matcher="compact")
    model = ScriptedModel({"lead": ["One.", "We did it.", "Two."], "ada": ["Hm.", "Her summary."]})
    async with a_team(hooks, model) as team:
        await team.spawn("ada", "Hello.")
        await team.run("Do it.")
        assert not hooks.told, "a start is no compaction"
        assert (await team.compact()).done
        await team.run("And now?")
        last = [one for one in model.requests if one.agent_name != "ada"][-1]
        assert "mind the <whales>" in last.items[0].decode()
        again = read_history(team.session.lead.agent.conversation.path)
        assert again.items[0] == last.items[0], "a kill loses none of it"
        await team.compact("ada")
    [event] = hooks.told
    assert (event["source"], event["kind"], event["hook_event_name"]) == ("compact", "lead", "SessionStart")


@pytest.mark.promise("G7")
async def test_without_hooks_nothing_is_put_around_calls_and_nothing_is_noted(tmp_path):
    async with Team("crew", model=ScriptedModel(["ok"]), cwd=tmp_path) as team:
        agent = team.session.lead.agent
        assert agent.hooks.wrap is None and not agent.hooks.hooks.index.hooks
        await team.run("Do it.")
        assert not list(team.session.agent_factory.home.session(tmp_path, team.session.id).glob("hooks.jsonl"))


@pytest.mark.promise("G7", "P7")
async def test_hooks_see_no_credentials_and_know_their_project(hooks, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    hooks.on("Stop", f"env > {hooks.directory}/env")
    await run(hooks, ["Done."])
    env = (hooks.directory / "env").read_text()
    assert "sk-secret" not in env
    work = hooks.directory / "work"
    assert f"CLAUDE_PROJECT_DIR={work}\n" in env and f"TEAMWRIGHT_PROJECT_DIR={work}\n" in env
