"""Events as lines of a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.protocol.events import (
    IntegrationChanged,
    LimitReached,
    MemberChanged,
    MessageSent,
    Notice,
    RequestClosed,
    TaskChanged,
    TaskInfo,
    TextDelta,
    ToolCalled,
    ToolStarted,
)
from teamwright.protocol.task import IntegrationState
from teamwright.ui.display_text import cell_width, clean, cut
from teamwright.ui.terminal.events import MAX_DIFF_LINES, EventFormatter
from teamwright.ui.terminal.panel import RunningCalls
from teamwright.ui.terminal.styles import Paint, make_paint
from tests.support.examples import examples


def called(tool="Bash", summary="git status", outcome="done", member="team-lead", **more):
    return ToolCalled(
        member=member, call="c1", tool=tool, summary=summary, outcome=outcome, seconds=0.1, input={}, **more
    )


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("queued", "#3 is queued for i"),
        ("checking", "#3 is checked on i"),
        ("merged", "#3 is merged into i"),
        ("conflict", "#3 conflicts with i: a.txt, b.txt"),
        ("failed", "#3 fails the check on i"),
    ],
)
def test_a_commit_on_its_way_to_the_branch_of_the_team_has_a_line_for_each_state(state, text):
    paths = ("a.txt", "b.txt") if state == "conflict" else ()
    event = IntegrationChanged(
        member="ann", entry="e", state=IntegrationState(state), onto="i", tip="b" * 40, task="3", paths=paths
    )
    assert EventFormatter().lines(event) == [f"ann        {text}"]


def task(change, **more):
    info = TaskInfo(id="2", subject="write the tests", status="in_progress", owner=more.pop("owner", None))
    return TaskChanged(member=more.pop("member", "tester"), task=info, change=change, **more)


def a_diff(lines):
    return "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n" + "".join(f"+line {n}\n" for n in range(lines))


def test_a_tool_call_is_one_line_with_its_name_and_what_it_does():
    assert EventFormatter().lines(called()) == ["lead       Bash git status [c1]"]


def ran(output="", outcome="done", seconds=0.1, **facts):
    """A command that has run, with what its tool says of it."""
    facts = {"lines": output.count("\n"), "end": output[-600:], "brief": "", **facts}
    return ToolCalled(
        member="team-lead",
        call="c12",
        tool="Bash",
        summary="pytest -q",
        outcome=outcome,
        seconds=seconds,
        input={},
        output=output,
        facts=facts,
    )


@pytest.mark.finding("U3")
def test_a_command_is_its_line_with_its_number_and_its_result_on_one_line():
    tests = "tests/test_a.py ....\ntests/test_b.py ...\n\x1b[32m===== 12 passed in 3.42s =====\x1b[0m\n\n"
    assert EventFormatter().lines(ran(tests, seconds=4.12)) == [
        "lead       Bash pytest -q [c12]",
        "           ✓ 12 passed in 3.42s · 3 more lines · 4.1 s",
    ]
    assert EventFormatter().lines(ran()) == ["lead       Bash pytest -q [c12]"]
    assert EventFormatter().lines(ran("one\n")) == ["lead       Bash pytest -q [c12]", "           ✓ one"]
    assert EventFormatter().lines(ran(seconds=2)) == ["lead       Bash pytest -q [c12]", "           ✓ 2.0 s"]
    failed = EventFormatter().lines(ran("one\n2 failed\n", "failed", brief="exit code 1"))
    assert failed == ["lead       Bash pytest -q — failed: exit code 1 [c12]", "           ✗ 2 failed · 1 more line"]


@pytest.mark.finding("U3")
def test_a_result_fits_the_window_and_its_number_of_lines_is_never_cut():
    long = ran("word " * 99 + "\n" + "x" * 500 + "\n", seconds=3.42)
    for width in (60, 80, 200):
        call, result = EventFormatter(width=width).lines(long)
        assert result.endswith("… · 1 more line · 3.4 s") and max(map(cell_width, (call, result))) <= width
    (line,) = EventFormatter().lines(called(summary="x" * 99))
    assert line.endswith("x… [c1]") and cell_width(line) <= 80


@pytest.mark.finding("U3")
def test_a_result_has_the_last_state_of_a_line_that_was_overwritten_and_steers_no_terminal():
    _, result = EventFormatter().lines(ran(" 10 %\r 50 %\r100 % \x1b[2J done\r\n"))
    assert result == "           ✓ 100 % \\x1b[2J done"


@pytest.mark.finding("U3")
def test_the_tool_s_own_line_about_its_result_is_behind_a_call_that_prints_nothing():
    assert EventFormatter().lines(called("Read", "a.py", facts={"brief": "120 lines", "lines": 120})) == [
        "lead       Read a.py · 120 lines [c1]"
    ]
    (line,) = EventFormatter(width=60).lines(called("Read", "x/" * 99, facts={"brief": "120 lines"}))
    assert line.endswith("… · 120 lines [c1]") and cell_width(line) == 60


def test_a_call_that_failed_or_was_refused_says_why_even_when_the_command_is_long():
    (line,) = EventFormatter().lines(called(summary="x" * 300, outcome="failed", output="no such tool\nmore"))
    assert line.endswith("— failed: no such tool [c1]")
    assert cell_width(line) <= 80
    (line, why) = EventFormatter().lines(
        called(
            outcome="denied",
            output="This call was not allowed: Nothing allows it, by no rule at all (mode default).\nx",
        )
    )
    assert line == "lead       Bash git status — refused [c1]"
    assert why == "           Nothing allows it, by no rule at all (mode default)."
    long = EventFormatter().lines(called(outcome="denied", output="word " * 200))
    assert len(long) == 4 and long[-1].endswith("…") and max(map(cell_width, long)) <= 80
    (line,) = EventFormatter().lines(called(outcome="denied", output="The user refused this call: no"))
    assert line == "lead       Bash git status — refused: The user refused this call: no [c1]"


def test_an_edit_shows_its_diff_without_the_heads():
    lines = EventFormatter().lines(
        called(
            "Edit",
            "a.py",
            facts={"diff": "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one\n+two\n", "added": 1, "removed": 1},
        )
    )
    assert lines == ["lead       Edit a.py (+1 -1) [c1]", "  @@ -1 +1 @@", "  -one", "  +two"]


def test_a_long_diff_is_cut_and_the_rest_is_counted():
    lines = EventFormatter().lines(called("Write", "a.py", facts={"diff": a_diff(50), "added": 50, "removed": 0}))
    assert len(lines) == 1 + MAX_DIFF_LINES + 1
    assert lines[-1] == "  … 31 more lines"


def test_an_edit_that_failed_shows_no_diff():
    assert len(EventFormatter().lines(called("Edit", "a.py", "failed", facts={"diff": a_diff(3)}))) == 1


def test_a_message_names_both_ends_and_its_summary():
    sent = MessageSent(member="team-lead", to="tester", message_id="m", summary="look at five paths")
    assert EventFormatter().lines(sent) == ["lead → tester: look at five paths"]
    mine = MessageSent(member="user", to="tester", message_id="m", summary="stop that")
    assert EventFormatter().lines(mine) == ["you → tester: stop that"]


@pytest.mark.parametrize(
    "noise",
    [
        MessageSent(member="tester", to="team-lead", message_id="m", summary="idle", wire="idle_notification"),
        MessageSent(member="system", to="team-lead", message_id="m", summary="x", wire="teammate_terminated"),
        MessageSent(member="tester", to="team-lead", message_id="m", summary="x", wire="shutdown_approved"),
        TextDelta(member="tester", text="thinking aloud"),
        MemberChanged(member="team-lead", state="working"),
        RequestClosed(member="tester", request="r", verdict="allow", by="surface"),
        task("updated"),
    ],
    ids=lambda event: f"{event.KIND}",
)
def test_what_another_line_tells_already_is_not_told_again(noise):
    assert EventFormatter().lines(noise) == []


def test_an_idle_notice_with_a_result_is_told():
    sent = MessageSent(member="tester", to="team-lead", message_id="m", summary="all pass", wire="idle_notification")
    assert EventFormatter().lines(sent) == ["tester → lead: all pass"]


def test_tasks_are_told_by_their_marks():
    formatter = EventFormatter()
    assert formatter.lines(task("completed")) == ["tester     ✓ #2 write the tests"]
    assert formatter.lines(task("claimed")) == ["tester     ▸ #2 write the tests"]
    assert formatter.lines(task("assigned", owner="docs")) == ["tester     → #2 write the tests → docs"]
    assert formatter.lines(task("lost", detail="docs was first")) == [
        "tester     lost #2 write the tests (docs was first)"
    ]


def test_of_a_members_states_only_those_worth_telling_are_told():
    formatter = EventFormatter()
    states = ["pending", "idle", "working", "blocked", "working", "idle", "completed"]
    details = {"blocked": "permission for git push", "completed": "shut down on request"}
    told = [
        line
        for state in states
        for line in formatter.lines(
            MemberChanged(member="tester", state=state, detail=details.get(state, ""), model="haiku")
        )
    ]
    assert told == [
        "tester     joined (haiku)",
        "tester     waits for permission for git push",
        "tester     has ended: shut down on request",
    ]


def test_a_member_that_comes_again_is_introduced_again():
    formatter = EventFormatter()
    for state in ("idle", "failed"):
        formatter.lines(MemberChanged(member="tester", state=state))
    assert formatter.lines(MemberChanged(member="tester", state="idle")) == ["tester     joined"]


def test_limits_notices_and_deadlines_are_told():
    formatter = EventFormatter()
    assert formatter.lines(LimitReached(member="team-lead", limit="money", detail="the cap is spent")) == [
        "lead       limit: the cap is spent"
    ]
    assert formatter.lines(Notice(member="tester", text="trying again", level="warning")) == ["tester     trying again"]
    closed = RequestClosed(member="tester", request="r", verdict="deny", by="deadline", reason="no answer within 60 s")
    assert formatter.lines(closed) == ["tester     denied at its deadline (no answer within 60 s)"]
    gone = RequestClosed(member="tester", request="r", verdict="deny", by="cancelled")
    assert formatter.lines(gone) == ["tester     no longer asks"]


def test_no_text_of_others_steers_the_terminal():
    evil = "rm \x1b[2J\x1b]0;title\x07 \u202egnp.exe \x9b1m"
    (line,) = EventFormatter(width=200).lines(called(summary=evil))
    assert "\x1b" not in line and "\x07" not in line and "\x9b" not in line and "\u202e" not in line
    assert "\\x1b[2J" in line
    assert "\\u202e" in line


def test_line_feeds_in_a_subject_do_not_make_lines():
    (line,) = EventFormatter().lines(called(summary="one\ntwo\rthree"))
    assert line == "lead       Bash one two three [c1]"


@given(st.text(max_size=200), st.integers(1, 120))
@settings(max_examples=examples(150), deadline=None)
def test_a_line_never_passes_the_window_whatever_is_in_it(text, width):
    formatter = EventFormatter(width=width)
    lines = formatter.lines(called(summary=text, facts={"diff": "+" + clean(text).replace("\n", " ")}))
    assert all(cell_width(line) <= max(width, 20) for line in lines[:1])
    assert all(cell_width(line) <= max(width, 20) for line in lines[1:])


@given(st.text(max_size=100))
def test_what_is_cleaned_holds_no_control_character(text):
    made = clean(text)
    steering = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    allowed = "\n\u200c\u200d\ufe0e\ufe0f"
    assert not [char for char in made if unicodedata.category(char) in steering and char not in allowed]


def test_wide_characters_take_two_columns_and_combining_ones_none():
    assert cell_width("漢字") == 4
    assert cell_width("e\u0301") == 1
    assert cut("漢字漢字", 5) == "漢字…"
    assert cut("abc", 0) == ""


def test_colours_come_only_where_they_are_wanted():
    plain = {"TERM": "xterm-256color"}
    assert make_paint(plain, is_tty=True).on
    assert not make_paint(plain, is_tty=False).on
    assert not make_paint({**plain, "NO_COLOR": "1"}, is_tty=True).on
    assert not make_paint({"TERM": "dumb"}, is_tty=True).on
    assert not make_paint({}, is_tty=True).on
    assert Paint(False)("red", "x") == "x"


def test_a_member_keeps_its_colour():
    formatter = EventFormatter(Paint(True))
    formatter.lines(MemberChanged(member="tester", state="idle", color="green"))
    assert formatter.name("tester") == "\x1b[32mtester\x1b[0m"


def test_a_colour_does_not_count_as_width():
    formatter = EventFormatter(Paint(True), width=40)
    (line,) = formatter.lines(called(summary="y" * 200))
    assert line.endswith("… [c1]")
    assert line.count("y") == 40 - 11 - len("Bash ") - len("… [c1]")


def test_the_call_that_a_member_is_in_is_known_until_it_ended():
    activity = RunningCalls()
    activity.note(ToolStarted(member="tester", call="c2", tool="Bash", summary="make test"))
    assert activity.current_call("tester") == "Bash make test"
    ended = ToolCalled(member="tester", call="c2", tool="Bash", summary="", outcome="done", seconds=1.0, input={})
    activity.note(ended)
    assert activity.current_call("tester") == ""


@pytest.mark.promise("F67")
def test_a_call_whose_effect_has_a_line_of_its_own_is_told_once_and_a_failed_one_all_the_same():
    formatter = EventFormatter()
    update = ToolCalled(
        member="tester",
        call="c1",
        tool="TaskUpdate",
        summary="task #2",
        outcome="done",
        seconds=0.1,
        input={"taskId": "2"},
    )
    assert len(formatter.lines(task("claimed"))) == 1
    assert formatter.lines(update) == []
    assert len(formatter.lines(update)) == 1, "the next one changed what no line tells"
    assert formatter.lines(task("created", member="team-lead")) and not formatter.lines(called("TaskCreate"))
    sent = MessageSent(member="tester", to="bob", message_id="1", summary="hello")
    assert formatter.lines(sent) and not formatter.lines(called("SendMessage", member="tester"))
    assert formatter.lines(called("SendMessage", member="tester", outcome="failed", output="no bob"))


@pytest.mark.promise("F67")
def test_an_idle_notice_hides_no_message_that_has_no_line_of_its_own():
    formatter = EventFormatter()
    rests = MessageSent(member="tester", to="team-lead", message_id="1", summary="done", wire="idle_notification")
    assert formatter.lines(rests)
    assert formatter.lines(called("SendMessage", member="tester"))


def test_who_joins_with_everybody_s_model_is_not_said_to_have_one_and_a_script_goes_by_its_file():
    formatter = EventFormatter(usual_model="scripted:/a/b.toml")
    joined = [
        formatter.lines(MemberChanged(member=name, state="idle", model=model))
        for name, model in (("ann", "scripted:/a/b.toml"), ("ben", "scripted:/x/c.toml"), ("cleo", "claude-opus-5"))
    ]
    said = [line.split(None, 1)[1] for (line,) in joined]
    assert said == ["joined", "joined (scripted:c.toml)", "joined (claude-opus-5)"]


@pytest.mark.finding("T14")
def test_the_sentence_of_a_refusal_that_is_an_object_is_shown_and_not_its_first_brace():
    refused = json.dumps({"success": False, "message": "the team has open tasks\nstop them"}, indent=2)
    said = "\n".join(EventFormatter().lines(called("TeamDelete", "delete team crew", "failed", output=refused)))
    assert "failed: the team has open tasks" in said and "{" not in said


@pytest.mark.finding("U3")
def test_a_persons_own_command_is_shown_as_the_shells_lines_and_not_as_the_leads():
    notice = Notice(member="user", text="! printf 'a\\nb'\na\nb", level="shell")
    assert EventFormatter().lines(notice) == ["shell      ! printf 'a\\nb'", "  a", "  b"]
    assert EventFormatter().lines(Notice(member="user", text="! true\n", level="shell")) == ["shell      ! true"]
