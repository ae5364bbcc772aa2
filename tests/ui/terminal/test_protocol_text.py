"""Plans, reports, task lists and answers of tools are shown as what they are, and never as JSON."""

import json

import pytest

from teamwright.protocol.events import MessageSent, TurnEnded
from teamwright.protocol.mail import (
    IdleNotification,
    PermissionRequest,
    PermissionResponse,
    PlanApprovalRequest,
    PlanApprovalResponse,
    ShutdownApproved,
    ShutdownRejected,
    ShutdownRequest,
    TaskAssignment,
    TaskCompleted,
    TeammateTerminated,
    wire_type,
)
from teamwright.testing.model_server_replies import Answer
from teamwright.ui.protocol_text import input_lines, message_words, output_lines
from teamwright.ui.terminal.agent_output import MAX_REPORT_LINES, MemberReports, raw_lines
from teamwright.ui.terminal.events import EventFormatter
from tests.ui.test_terminal_session import at_terminal, told, who

AT = "2026-11-23T10:00:00Z"
MESSAGES = [
    (IdleNotification(sender="ann", timestamp=AT, result="All pass."), "All pass."),
    (IdleNotification(sender="ann", timestamp=AT, failure_reason="no key"), "no key"),
    (TaskAssignment(task_id="3", subject="write it", description="", assigned_by="x", timestamp=AT), "#3 is yours"),
    (TaskCompleted(sender="ann", task_id="3", task_subject="write it", timestamp=AT), "#3 is completed: write it"),
    (ShutdownRequest(request_id="r", sender="lead", reason="all done", timestamp=AT), "you may stop: all done"),
    (ShutdownApproved(request_id="r", sender="ann", timestamp=AT), "agrees to stop"),
    (ShutdownRejected(request_id="r", sender="ann", reason="busy", timestamp=AT), "does not stop yet: busy"),
    (
        PlanApprovalRequest(
            sender="ann", timestamp=AT, plan_file_path="/p.md", plan_content="1. Look\n2. Mend", request_id="r"
        ),
        "asks for approval of its plan:\n1. Look\n2. Mend",
    ),
    (PlanApprovalResponse(request_id="r", approved=False, feedback="shorter", timestamp=AT), "not approved: shorter"),
    (
        PermissionRequest(
            request_id="r",
            agent_id="ann",
            tool_name="Bash",
            tool_use_id="t",
            description="make",
            input={},
            permission_suggestions=[],
        ),
        "asks for permission: Bash make",
    ),
    (PermissionResponse(request_id="r", subtype="error", error="no"), "the permission is refused: no"),
    (TeammateTerminated(name="ann", cause="killed", message="ann has ended."), "ann has ended."),
]


@pytest.mark.finding("U3")
@pytest.mark.parametrize(("message", "words"), MESSAGES, ids=lambda one: getattr(one, "TYPE", ""))
def test_a_protocol_message_is_a_text_for_people(message, words):
    said = message_words(message.encode())
    assert words in said and "{" not in said and wire_type(message) not in said


def test_a_text_that_is_no_protocol_message_stays_as_it_is():
    assert message_words('{"type": "mine"}') == '{"type": "mine"}'
    assert message_words("plain") == "plain"


@pytest.mark.finding("U3")
def test_input_and_output_of_a_call_are_lines_of_names_and_values():
    assert input_lines({"command": "one\ntwo", "timeout": 3}) == ["one", "two"]
    given = {"to": "ann", "message": {"approve": True, "reason": None}, "names": ["a", "b"]}
    assert input_lines(given) == ["to: ann", "message:", "  approve: yes", "  reason: none", "names:", "  - a", "  - b"]
    assert output_lines(json.dumps({"success": False, "message": "one\ntwo"})) == [
        "success: no",
        "message:",
        "  one",
        "  two",
    ]
    assert output_lines("{not json\n\nat all}\n") == ["{not json", "", "at all}"]


def a_report(text: str, summary: str = "", viewed: str = "") -> list[str]:
    reports = MemberReports(EventFormatter(), raw_lines, str)
    assert reports.lines(TurnEnded(member="ann", stop="done", text=text), viewed) == []
    sent = MessageSent(
        member="ann", to="team-lead", message_id="m", summary=summary or text[:20], wire="idle_notification"
    )
    return reports.lines(sent, viewed)


@pytest.mark.finding("U3")
def test_a_report_that_fits_no_line_is_shown_whole_and_a_very_long_one_is_counted():
    text = "All tests pass.\n\n- one is slow\n- two are skipped"
    assert a_report(text + " " + "x" * 60)[:4] == ["ann → lead:", "  All tests pass.", "", "  - one is slow"]
    long = a_report("\n\n".join(f"paragraph {n}" for n in range(20)))
    assert len(long) == MAX_REPORT_LINES + 2 and long[-1] == "  … 27 more lines: /view ann"


@pytest.mark.finding("U3")
def test_a_short_report_has_one_line_and_a_viewed_one_none_nor_a_text_that_is_not_the_notice():
    assert a_report("All pass, and " + "this is after sixty columns.") == [
        "ann → lead: All pass, and this is after sixty columns."
    ]
    assert a_report("word " * 40, viewed="ann") == []
    assert a_report("word " * 40, summary="it hit a limit") == []
    assert a_report("word " * 40, summary="idle") == []


@pytest.mark.finding("U3")
def test_a_members_report_is_on_the_screen_of_its_lead_and_task_calls_are_no_json(repo, tmp_path):
    def play(body: dict) -> Answer | str:
        if who(body) != "lead":
            return "# Result\n\nAll of the tests pass on this machine, and two of them are slow:\n\n1. api\n2. cli"
        if "tool_use" in str(body["messages"]):
            return "Reported." if "All of the tests" in told(body) else "Started."
        return Answer(tools=[("Agent", {"description": "test", "prompt": "Test it.", "name": "ann"})])

    with at_terminal(play, repo, HOME=str(tmp_path / "home")) as (person, _):
        person.says("test it")
        person.sees("ann → lead:\n", "All of the tests pass on this machine", "1. api\n", "2. cli\n", "Reported.")
        person.says("/log c1")
        person.sees("c1 lead Agent", "description: test", "prompt: Test it.", "name: ann")
        assert '"name"' not in person.screen.text
