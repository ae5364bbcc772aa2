"""What a dialog shows of hostile, long and wide requests, and what a line at it means."""

import asyncio

import pytest

from teamwright.protocol.events import RequestAnswer
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.request_dialog import (
    SETTLE_S,
    TYPING_NOTE,
    UNSEEN_NOTE,
    ReplyMeaning,
    RequestDialog,
    RequestReply,
    parse_reply,
)
from teamwright.ui.terminal.request_lines import (
    MAX_LINES,
    prompt_lines,
    subject_lines,
)
from teamwright.ui.terminal.styles import Paint
from tests.support.waits import WAIT_S
from tests.ui.test_terminal_questions import Typist, a_question, a_request

HOSTILE = {
    "\x1b[2Krm -rf ~": "\\x1b[2Krm -rf ~",
    "ls\rrm -rf ~": "ls\\x0drm -rf ~",
    "echo \u202e~ fr- mr": "echo \\u202e~ fr- mr",
    "rm\u200d -rf": "rm\\u200d -rf",
    "a\ufe0fb": "a\\ufe0fb",
    "rm\u00a0-rf": "rm\\xa0-rf",
    "x\u3164=1": "x\\u3164=1",
    "x\u2800y": "x\\u2800y",
    "\u2066ls\u2069": "\\u2066ls\\u2069",
    "\x9b31mls": "\\x9b31mls",
    "a\u2028b": "a\\u2028b",
    "界 ok é": "界 ok é",
}


@pytest.mark.promise("K5")
@pytest.mark.parametrize(("command", "shown"), HOSTILE.items())
def test_nothing_in_a_command_steers_the_screen_or_hides(command, shown):
    assert subject_lines(a_request(what=command)) == [shown]


@pytest.mark.promise("K5")
def test_names_rules_options_and_tools_of_others_steer_nothing_either():
    request = a_request(
        member="ada\x1b[2J", tool="mcp__x\x1b]0;y\x07", rule="r\u202e", always="a\x1b[m (\x1b)", what="ls", number=2
    )
    text = "\n".join(prompt_lines(request, EventFormatter()))
    assert "\x1b" not in text and "\u202e" not in text and "\x07" not in text
    question = a_question(options=("one\x1b[2J", "two\nthree"))
    text = "\n".join(prompt_lines(question, EventFormatter()))
    assert "\x1b" not in text and "two three" in text


@pytest.mark.promise("K5")
def test_a_very_long_command_shows_its_ends_and_all_of_it_on_demand():
    what = "\n".join(f"line {n}" for n in range(3_000))
    lines = prompt_lines(a_request(what=what), EventFormatter(), short=True)
    text = "\n".join(lines)
    assert len(lines) < MAX_LINES and "line 0" in text and "line 2999" in text and "line 1500" not in text
    assert "more lines: v shows all of it" in text
    assert "line 1500" in "\n".join(prompt_lines(a_request(what=what), EventFormatter()))
    one = prompt_lines(a_request(what="x" * 100_000 + "; rm -rf ~"), EventFormatter(), short=True)
    assert max(map(len, one)) < 41_000 and "more characters" in "\n".join(one)
    assert parse_reply(a_request(), "v").meaning is ReplyMeaning.AGAIN, "there is nothing more to see"


@pytest.mark.promise("K5")
async def test_nobody_says_yes_to_what_was_not_shown():
    answers, shown, questions = [], [], RequestDialog()
    what = "\n".join(["safe"] * 2_000 + ["rm -rf ~"] + ["safe"] * 2_000)
    questions.add(a_request(answers, what=what, input={"command": what}))
    async with asyncio.timeout(WAIT_S):
        await questions.ask_first(Typist("y", "a", "e", "v", "y"), EventFormatter(), shown.extend)
    assert shown.count(UNSEEN_NOTE) == 3 and answers == [("perm-1", RequestAnswer(verdict="allow"))]
    assert shown.index("    rm -rf ~") > shown.index(UNSEEN_NOTE)


@pytest.mark.promise("K5")
async def test_a_command_that_fits_since_the_window_grew_is_shown_whole_by_the_same_key(monkeypatch):
    answers, shown, questions = [], [], RequestDialog()
    what = "\n".join(f"echo {number}" for number in range(60))
    questions.add(a_request(answers, what=what, input={"command": what}))

    class Resizing(Typist):
        async def answer(self, label, *kept):
            monkeypatch.setenv("LINES", "100")
            return await super().answer(label, *kept)

    monkeypatch.setenv("LINES", "24")
    async with asyncio.timeout(WAIT_S):
        await questions.ask_first(Resizing("y", "v", "y"), EventFormatter(), shown.extend)
    assert shown.count(UNSEEN_NOTE) == 1
    assert "    echo 40" in shown
    assert answers == [("perm-1", RequestAnswer(verdict="allow"))]


@pytest.mark.promise("K5")
async def test_a_no_needs_no_reading():
    answers, questions = [], RequestDialog()
    questions.add(a_request(answers, what="x\n" * 5_000))
    async with asyncio.timeout(WAIT_S):
        await questions.ask_first(Typist("n"), EventFormatter(), lambda _lines: None)
    assert [answer.verdict for _, answer in answers] == ["deny"]


@pytest.mark.promise("K5", "F44")
async def test_the_end_of_a_line_that_was_being_typed_is_no_answer():
    answers, shown, now = [], [], [50.0]
    questions = RequestDialog(clock=lambda: now[0])
    questions.add(a_request(answers))
    questions.add(a_request(answers, number=2))
    async with asyncio.timeout(WAIT_S):
        await questions.ask_first(Typist("y", "n"), EventFormatter(), shown.extend, is_typing=True)
        await questions.ask_first(Typist("y"), EventFormatter(), shown.extend)
    assert shown.count(TYPING_NOTE) == 1
    assert [(id, answer.verdict) for id, answer in answers] == [("perm-1", "deny"), ("perm-2", "allow")]


@pytest.mark.promise("K5")
async def test_a_line_that_comes_later_is_an_answer_also_in_the_middle_of_another_line():
    answers, now = [], [50.0]

    class Slow(Typist):
        async def answer(self, label, *kept):
            now[0] += SETTLE_S + 0.1
            return await super().answer(label)

    questions = RequestDialog(clock=lambda: now[0])
    questions.add(a_request(answers))
    async with asyncio.timeout(WAIT_S):
        await questions.ask_first(Slow("y"), EventFormatter(), lambda _lines: None, is_typing=True)
    assert [answer.verdict for _, answer in answers] == ["allow"]


@pytest.mark.promise("K5")
def test_a_question_says_what_its_answers_mean_and_how_many_may_be_chosen():
    about = [{"label": "PostgreSQL", "description": "a\x1bserver"}, "SQLite"]
    one = a_request(
        kind="question",
        what="Which one?",
        options=("PostgreSQL", "SQLite"),
        input={"options": about, "multiSelect": False},
        rule="",
        always="",
    )
    lines = prompt_lines(one, EventFormatter())
    assert lines[2:4] == ["    1  PostgreSQL: a\\x1bserver", "    2  SQLite"] and "a number," in lines[-1]
    assert parse_reply(one, "1, 2") == RequestReply(ReplyMeaning.AGAIN, "one number, please, or your own words")
    assert parse_reply(one, "2") == RequestReply(ReplyMeaning.ANSWER, "SQLite")
    assert parse_reply(one, "first, a server") == RequestReply(ReplyMeaning.ANSWER, "first, a server")
    several = a_request(kind="question", options=("a", "b"), input={"multiSelect": True}, rule="", always="")
    assert "numbers, as in 1, 2," in prompt_lines(several, EventFormatter())[-1]
    assert parse_reply(several, "1,2") == RequestReply(ReplyMeaning.ANSWER, "a, b")


@pytest.mark.promise("K5", "K11")
def test_the_asker_has_its_colour_and_without_colours_there_is_no_sequence():
    formatter = EventFormatter(Paint(True))
    formatter.colors["tester"] = "blue"
    [head, *_] = prompt_lines(a_request(), formatter)
    assert "\x1b[34mtester\x1b[0m" in head
    assert "\x1b" not in "".join(prompt_lines(a_request(what="--- a\n+++ b\n-x\n+y"), EventFormatter(Paint(False))))
