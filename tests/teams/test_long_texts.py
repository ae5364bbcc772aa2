"""A text of the runtime that is too long for a message is cut, with the file of the whole; a model's own is refused."""

import re
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.mail.message_size import MAX_TEXT_BYTES, check_text_size, fit_text
from teamwright.protocol.mail import (
    IdleNotification,
    PermissionRequest,
    PermissionResponse,
    PlanApprovalRequest,
    PlanApprovalResponse,
    ShutdownRejected,
    ShutdownRequest,
    TaskAssignment,
    TeammateTerminated,
    parse_protocol,
    wire_type,
)
from teamwright.testing import Call, ScriptedModel

LONG = 'a line of "words" — äöü\n' * 15_000
NOW = "2026-11-28T00:00:00.000Z"
PLACE = {"sender": "ada", "timestamp": NOW, "request_id": "r"}

MESSAGES = [
    TaskAssignment(task_id="1", subject="s", description=LONG, assigned_by="team-lead", timestamp=NOW),
    IdleNotification(sender="ada", timestamp=NOW, result=LONG),
    IdleNotification(sender="ada", timestamp=NOW, result=LONG, failure_reason=LONG, summary=LONG),
    ShutdownRequest(reason=LONG, **PLACE),
    ShutdownRejected(reason=LONG, **PLACE),
    PlanApprovalRequest(plan_file_path="/plan.md", plan_content=LONG, **PLACE),
    PlanApprovalResponse(request_id="r", approved=False, feedback=LONG, timestamp=NOW),
    TeammateTerminated(name="ada", cause="failed", message=LONG),
]


@pytest.mark.finding("3W7")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: wire_type(one))
def test_every_message_of_the_runtime_is_cut_until_it_fits_and_stays_the_same_message(message):
    saved = []

    def save(text):
        saved.append(text)
        return f"/whole-{len(saved)}"

    text = fit_text(message.encode(), save)
    check_text_size(text)
    cut = parse_protocol(text)
    assert type(cut) is type(message) and "/whole-1 has all of it" in text
    assert set(saved) == {LONG}


@pytest.mark.finding("3W7")
def test_a_plain_note_is_cut_at_a_character_and_a_short_one_is_as_it_was():
    text = fit_text("x" + "ä" * MAX_TEXT_BYTES, lambda _: "/whole")
    check_text_size(text)
    assert text.startswith("xää") and text.endswith("/whole has all of it]") and "�" not in text
    assert fit_text("short") == "short"


@pytest.mark.finding("3W7")
def test_a_permission_request_and_its_answer_are_never_cut():
    request = PermissionRequest(
        request_id="r",
        agent_id="ada",
        tool_name="Write",
        tool_use_id="t",
        description="d",
        input={"content": LONG},
        permission_suggestions=[],
    )
    answer = PermissionResponse(request_id="r", subtype="success", response={"updated_input": {"a": LONG}})
    for text in (request.encode(), answer.encode()):
        assert fit_text(text) == text


@pytest.mark.finding("3W7")
async def test_a_report_longer_than_a_message_reaches_the_lead_with_the_file_of_the_whole(tmp_path):
    spawn = Call("Agent", {"name": "ada", "description": "w", "prompt": "work"})
    model = ScriptedModel({"team-lead": [spawn, "I wait.", "Done."], "ada": [LONG]})
    async with Team("crew", model=model, cwd=tmp_path, env={}) as team:
        result = await team.run("Go.")
    assert (result.text, result.exit_code, [one.error for one in result.members]) == ("Done.", 0, ["", ""])
    read = "\n".join(model.request_text(n) for n, one in enumerate(model.requests) if one.agent_name == "team-lead")
    assert LONG[:1000] in read
    [file] = set(re.findall(r"; (/\S+) has all of it\]", read))
    assert Path(file).read_text() == LONG


@pytest.mark.finding("3W7")
@pytest.mark.parametrize(
    ("tool", "given", "what"),
    [
        ("SendMessage", {"to": "ada", "message": LONG, "summary": "s"}, "the message is longer than 256 kB"),
        ("Agent", {"name": "bob", "description": "w", "prompt": LONG}, "the prompt is longer than 256 kB"),
    ],
)
async def test_a_models_own_text_over_the_limit_is_an_error_that_says_so(tmp_path, tool, given, what):
    model = ScriptedModel({"team-lead": [Call(tool, given), "Done."], "ada": ["Fine."]})
    async with Team("crew", model=model, cwd=tmp_path, env={}) as team:
        await team.spawn("ada", "Wait.")
        await team.run("Go.")
        names = [one.name for one in team.members]
    read = "\n".join(str(one.items[-1]) for one in model.requests if one.agent_name == "team-lead")
    assert what in read and "write it to a file" in read and "bob" not in names
