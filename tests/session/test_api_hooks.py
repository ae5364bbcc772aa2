"""Functions of a program as hooks: they see every call of every agent, and may change it, refuse it or add to it."""

import asyncio
import json
from typing import Any

import pytest

from teamwright import Hook, Notice, Team, UsageError
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S


def a_team(tmp_path, model, *hooks: Hook, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    more.setdefault("permission_mode", "bypassPermissions")
    return Team("crew", model=model, cwd=tmp_path / "work", hooks=list(hooks), **more)


def told(model: ScriptedModel) -> str:
    return json.dumps([json.loads(item) for item in model.requests[-1].items], ensure_ascii=False)


TOUCH = ("Bash", {"command": "touch made"})


@pytest.mark.promise("G7", "J1")
async def test_a_function_sees_each_call_before_and_after_it_on_every_route(tmp_path):
    seen: list[tuple[str, str]] = []

    def note(payload: Any) -> None:
        seen.append((payload["hook_event_name"], payload["tool_input"]["command"]))

    agent = ("Agent", {"description": "make it", "prompt": "Make it."})
    model = ScriptedModel(
        lambda request: script[request.agent_name if request.agent_name == "team-lead" else "sub"].pop(0)
    )
    script = {"team-lead": [agent, ("Bash", {"command": "true"}), "Done."], "sub": [TOUCH, "Made."]}
    hooks = [Hook(event, note, matcher="Bash") for event in ("PreToolUse", "PostToolUse")]
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, *hooks) as team:
        await team.run("Go.")
    assert seen == [(event, command) for command in ("touch made", "true") for event in ("PreToolUse", "PostToolUse")]


@pytest.mark.promise("G7")
async def test_a_function_refuses_changes_and_adds_as_a_command_would(tmp_path):
    async def guard(payload: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        if "push" in payload["tool_input"]["command"]:
            own = {"permissionDecision": "deny", "permissionDecisionReason": "Nobody pushes on a Friday."}
        else:
            own = {"permissionDecision": "allow", "updatedInput": {"command": "touch other"}}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **own}}

    def after(payload: Any) -> dict[str, Any]:
        return {"hookSpecificOutput": {"additionalContext": "It took no time."}}

    model = ScriptedModel([("Bash", {"command": "git push"}), TOUCH, "Done."])
    hooks = (Hook("PreToolUse", guard, matcher="Bash"), Hook("PostToolUse", after))
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, *hooks, permission_mode="default") as team:
        await team.run("Go.")
    assert "Nobody pushes on a Friday." in told(model)
    assert "It took no time." in told(model)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["other"]


@pytest.mark.promise("G7", "F69")
@pytest.mark.parametrize("kind", ["raises", "hangs", "garbage"])
@pytest.mark.slow_after(1)
async def test_a_function_that_fails_counts_for_nothing_and_is_told_once(tmp_path, kind):
    async def bad(payload: Any) -> object:
        match kind:
            case "raises":
                raise ValueError("broken")
            case "hangs":
                await asyncio.Event().wait()
        return ["no", "dict"]

    words = {"raises": "ValueError: broken", "hangs": "ended after 0.05 s", "garbage": "it returned list"}
    model = ScriptedModel([TOUCH, ("Bash", {"command": "true"}), "Done."])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, Hook("PreToolUse", bad, timeout_s=0.05)) as team:
        run = team.run("Go.")
        notices = [event.text async for event in run.events() if isinstance(event, Notice)]
        assert (await run).ok
    assert (tmp_path / "work/made").exists()
    assert [text for text in notices if words[kind] in text] == [
        text for text in notices if "counts for nothing" in text
    ]
    assert len([text for text in notices if "counts for nothing" in text]) == 1


WRONG = [
    (lambda: Hook("PreToolUze", print), "did you mean PreToolUse?"),
    (lambda: Hook("Stop", print, matcher="("), "no regular expression"),
    (lambda: Hook("Stop", "print"), "takes a function"),  # type: ignore[arg-type]
    (lambda: Hook("Stop", print, timeout_s=0), "a number of seconds"),
    (lambda: Team("crew", hooks=Hook("Stop", print)), "hooks= takes a list"),
    (lambda: Team("crew", hooks=[print]), "a list of Hook"),
]


@pytest.mark.parametrize(("make", "says"), WRONG)
def test_a_slip_is_a_sentence_and_nothing_is_started(make, says):
    with pytest.raises(UsageError) as caught:
        make()
    assert says in caught.value.render()
