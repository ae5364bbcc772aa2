"""What the demo shows of an event, without running one: whatever stands in it, a line stays a line."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.events import (
    LimitReached,
    MemberChanged,
    MessageSent,
    Notice,
    TaskChanged,
    TaskInfo,
    ToolCalled,
)
from teamwright.ui.demo.demo_screen import WIDTH, DemoScreen, TeamPanel, demo_line, number_list
from teamwright.ui.display_text import cell_width

NASTY = ["\x1b[2J" * 9, "表" * 60, "a\u0301" * 70, "x [c1] y", "[c", "\u202e" * 40, "a\nb\tc", "\x9b1m"]
TEXT = st.text(max_size=120) | st.sampled_from(NASTY)
JOINERS = "\u200c\u200d\ufe0e\ufe0f"
NAME = st.sampled_from(["team-lead", "surveyor", "a-name-that-is-much-longer-than-others", "system"])
TOOL = st.sampled_from(
    ["Bash", "SendMessage", "TeamCreate", "TeamDelete", "Agent", "Read", "Grep", "Skill", "TaskUpdate"]
)
CHANGE = st.sampled_from(["created", "claimed", "completed", "lost", "released", "updated"])
OUTCOME = st.sampled_from(["done", "failed", "denied"])
STATE = st.sampled_from(["idle", "killed", "working", "completed"])


def called(
    tool: str = "Bash", member: str = "surveyor", outcome: str = "done", output: str = "", **given
) -> ToolCalled:
    about = {"member": member, "tool": tool, "outcome": outcome, "output": output, "input": given}
    return ToolCalled(call="c7", summary=f"a {tool}", seconds=0.1, **about)


def changed(change: str, number: str = "5", status: str = "in_progress", subject: str = "Debts", **more) -> TaskChanged:
    task = TaskInfo(id=number, subject=subject, status=status, **more)
    return TaskChanged(member="surveyor", task=task, change=change, detail="taken by tester")


def anything_called(tool: str, member: str, outcome: str, text: str, output: str) -> ToolCalled:
    words = {"description": text, "name": text, "team_name": text, "to": text, "summary": output, "message": text}
    return called(tool, member, outcome, output, taskId=text, addBlockedBy=[text], **words)


def told(member: str, text: str) -> MessageSent:
    return MessageSent(member=member, to=text, message_id="m", summary=text, wire="idle_notification")


EVENTS = st.one_of(
    st.builds(anything_called, TOOL, NAME, OUTCOME, TEXT, TEXT),
    st.builds(told, NAME, TEXT),
    st.builds(lambda name, state, text: MemberChanged(member=name, state=state, detail=text), NAME, STATE, TEXT),
    st.builds(lambda text: Notice(member="system", text=text, level="warning"), TEXT),
    st.builds(lambda text: LimitReached(member="team-lead", limit="money", detail=text), TEXT),
    st.builds(lambda change, text: changed(change, subject=text), CHANGE, TEXT),
)


@given(st.lists(EVENTS, max_size=8))
def test_whatever_an_event_holds_its_line_fits_and_moves_no_cursor(events):
    out = io.StringIO()
    screen = DemoScreen(out, panel=False)
    for event in events:
        screen.show_event(event)
    lines = out.getvalue().split("\n")
    assert max(map(cell_width, lines)) <= WIDTH
    kinds = {unicodedata.category(char) for line in lines for char in line if char not in JOINERS}
    assert kinds.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    assert len(lines) - 1 <= len(events)


@given(st.lists(EVENTS, max_size=8))
def test_the_panel_is_straight_whatever_happened(events):
    board = TeamPanel()
    for event in events:
        board.note(event)
    assert {cell_width(line) for line in board.lines()} == {79}


@given(TEXT, TEXT)
def test_a_receipt_is_never_cut(about, output):
    out = io.StringIO()
    DemoScreen(out, panel=False).show_event(called(description=about, output=output))
    assert out.getvalue().endswith(" [c7]\n")


ANSWER = {"type": "shutdown_response"}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (called(description="count", output="\nhere: 160 text files\nmain: Go\n"), "Bash count 160 text files [c7]"),
        (
            called(description="count", output="no rule allows it", outcome="denied"),
            "Bash count refused: no rule allows it [c7]",
        ),
        (called("SendMessage", to="*", message="…", summary="Go, mostly"), "→ all   Go, mostly"),
        (called("SendMessage", to="team-lead", message="Done."), "→ lead   Done."),
        (called("SendMessage", to="tester", message={"type": "shutdown_request"}), "shutdown? → tester"),
        (called("SendMessage", to="lead", message={**ANSWER, "approve": False, "reason": "mine"}), "mine"),
        (called("SendMessage", to="lead", message={**ANSWER, "approve": True}), None),
        (called("SendMessage", outcome="failed", output="nobody"), "SendMessage a SendMessage (failed: nobody)"),
        (called("TaskUpdate", taskId="4", addBlockedBy=["2", "3"]), "#4 waits for #2 and #3"),
        (called("Agent", name="tester"), None),
        (changed("created", status="pending"), "adds #5 Debts"),
        (changed("claimed"), "claims #5"),
        (changed("lost"), "#5 went to another member: taken by tester"),
        (MemberChanged(member="tester", state="completed", detail="shut down"), "ended: shut down"),
    ],
)
def test_what_happened_is_said_in_words(event, line):
    said = demo_line(event, TeamPanel())
    assert (said and " ".join(said.split())) == (line and " ".join(line.split()))


def test_a_task_that_is_done_says_what_it_frees_once_nothing_else_holds_it():
    board = TeamPanel()
    for number in "23":
        board.note(changed("created", number, status="pending"))
    board.note(changed("updated", "4", status="pending", blocked_by=("2", "3")))
    first, second = (changed("completed", number, status="completed") for number in "23")
    board.note(first)
    assert demo_line(first, board) == "✓ #2"
    board.note(second)
    assert demo_line(second, board) == "✓ #3   #4 is free now"


def test_numbers_are_joined_as_people_do():
    assert [number_list(ids) for ids in (["1"], ["1", "2"], ["1", "2", "3"])] == ["#1", "#1 and #2", "#1, #2 and #3"]
