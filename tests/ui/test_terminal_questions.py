"""Questions at a terminal: what is shown, what a line means, and that nothing is ever taken for a yes."""

import asyncio
import re
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.events import RequestAnswer, RequestClosed, RequestOpened
from teamwright.ui.terminal.editor_protocol import NO_DRAFT, LineDraft, ReadCancelled
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.request_dialog import SETTLE_S, ReplyMeaning, RequestDialog, RequestReply, parse_reply
from teamwright.ui.terminal.request_lines import (
    prompt_label,
    prompt_lines,
    suggested_grants,
)
from teamwright.ui.terminal.session_switch import LeaveChoice, ask_how_to_leave
from tests.support.waits import WAIT_S

LONG = "\n".join(f"line {n}" for n in range(120))
ALWAYS = "Bash(git push *) in .teamwright/settings.local.json"


def a_request(answers=None, number=1, **more):
    async def responder(request_id, answer):
        answers.append((request_id, answer))
        return True

    values = {
        "member": "tester",
        "request": f"perm-{number}",
        "kind": "permission",
        "tool": "Bash",
        "what": "git push origin main",
        "rule": "default: it changes something",
        "always": ALWAYS,
        "responder": responder if answers is not None else None,
    }
    return RequestOpened(**{**values, **more})


def a_question(answers=None, options=("PostgreSQL", "SQLite")):
    return a_request(
        answers, kind="question", tool="AskUserQuestion", what="Which one?", rule="", always="", options=options
    )


class Typist:
    """An editor whose person has decided what to type; then waits for ever."""

    def __init__(self, *lines: str | BaseException) -> None:
        self.lines = deque(lines)
        self.labels: list[str] = []
        self.withdrawn = asyncio.Event()
        self.out_of_lines = asyncio.Event()
        self.shown: list[str] = []
        self.kept: list[LineDraft] = []

    async def read(self, kept: LineDraft = NO_DRAFT) -> str:
        return await self.answer("> ")

    async def answer(self, label: str, kept: LineDraft = NO_DRAFT) -> str:
        self.labels.append(label)
        self.kept.append(kept)
        if not self.lines:
            self.out_of_lines.set()
            await self.withdrawn.wait()
            self.withdrawn.clear()
            raise ReadCancelled
        line = self.lines.popleft()
        if isinstance(line, BaseException):
            raise line
        return line

    def defer_typed(self) -> None: ...

    def withdraw(self) -> None:
        self.withdrawn.set()

    def interrupt(self) -> None: ...

    def show(self, text: str) -> None:
        self.shown.append(text)

    def refresh(self) -> None: ...

    async def close(self) -> None: ...


async def asked(requests, *lines):
    """Ask all of them; gives the questions and what was shown."""
    questions, shown, typist = RequestDialog(), [], Typist(*lines)
    for one in requests:
        questions.add(one)
    while questions.waiting:
        await questions.ask_first(typist, EventFormatter(), shown.extend)
    return questions, shown, typist


@pytest.mark.promise("K5")
def test_a_question_shows_who_asks_the_whole_command_the_rule_and_what_always_means():
    text = "\n".join(prompt_lines(a_request(what=LONG), EventFormatter()))
    assert "tester wants to use Bash" in text
    assert all(f"    line {n}" in text for n in range(120))
    assert "default: it changes something" in text
    assert f"always  {ALWAYS}" in text
    assert "y yes" in text and "n REASON" in text and "a always" in text


@pytest.mark.promise("K5")
def test_always_is_not_offered_where_nothing_could_be_stored():
    lines = prompt_lines(a_request(always=""), EventFormatter())
    assert "always" not in "\n".join(lines)
    assert prompt_label(a_request(always="")) == "allow? [y/n] "
    assert parse_reply(a_request(always=""), "a").meaning is ReplyMeaning.AGAIN


def test_a_command_cannot_hide_what_it_does():
    lines = prompt_lines(a_request(what="ls \x1b[8mrm -rf ~\x1b[0m"), EventFormatter())
    assert lines[1] == "    ls \\x1b[8mrm -rf ~\\x1b[0m"


def test_a_question_with_answers_numbers_them():
    lines = prompt_lines(a_question(), EventFormatter(), waiting=2)
    assert lines[0] == "? tester asks   (2 more wait)"
    assert lines[2:4] == ["    1  PostgreSQL", "    2  SQLite"]


@pytest.mark.parametrize(
    ("line", "meaning", "text"),
    [
        ("y", ReplyMeaning.ALLOW, ""),
        (" YES ", ReplyMeaning.ALLOW, ""),
        ("a", ReplyMeaning.ALWAYS, ""),
        ("n", ReplyMeaning.DENY, ""),
        ("n not to main", ReplyMeaning.DENY, "not to main"),
        ("no, not to main", ReplyMeaning.DENY, "not to main"),
        ("", ReplyMeaning.AGAIN, None),
        ("yes please go on", ReplyMeaning.AGAIN, None),
        ("sure", ReplyMeaning.AGAIN, None),
    ],
)
def test_what_a_line_means(line, meaning, text):
    reply = parse_reply(a_request(), line)
    assert reply.meaning is meaning
    assert text is None or reply.text == text


@given(st.text(max_size=20))
def test_nothing_but_a_clear_yes_allows(line):
    meaning = parse_reply(a_request(), line).meaning
    if meaning in {ReplyMeaning.ALLOW, ReplyMeaning.ALWAYS}:
        assert line.strip().lower().rstrip(",:") in {"y", "yes", "a", "always"}


@pytest.mark.parametrize(
    ("line", "answer"),
    [("1", "PostgreSQL"), ("2, 1", "SQLite, PostgreSQL"), ('"3"', "3"), ("neither", "neither"), ("1 or 2", "1 or 2")],
)
def test_an_answer_is_a_number_or_words(line, answer):
    assert parse_reply(a_question(), line) == RequestReply(ReplyMeaning.ANSWER, answer)


@pytest.mark.parametrize("line", ["0", "3", "17"])
def test_a_number_without_an_option_is_no_answer_unless_it_is_in_quotes(line):
    reply = parse_reply(a_question(), line)
    assert reply.meaning is ReplyMeaning.AGAIN and f"there is no option {line}" in reply.text


def test_an_empty_line_answers_no_question():
    assert parse_reply(a_question(), "  ").meaning is ReplyMeaning.AGAIN


async def test_each_question_is_answered_in_turn_and_never_between():
    answers = []
    requests = [a_request(answers, 1), a_request(answers, 2, member="docs"), a_question(answers)]
    async with asyncio.timeout(WAIT_S):
        _, shown, _ = await asked(requests, "y", "n too early", "2")
    assert [(i, a.verdict, a.text) for i, a in answers] == [
        ("perm-1", "allow", ""),
        ("perm-2", "deny", "too early"),
        ("perm-1", "allow", "SQLite"),
    ]
    heads = [line for line in shown if line.startswith("?")]
    assert heads == [
        "? tester wants to use Bash   (2 more wait)",
        "? docs wants to use Bash   (1 more waits)",
        "? tester asks",
    ]


@pytest.mark.promise("K5")
async def test_always_is_handed_on():
    answers = []
    async with asyncio.timeout(WAIT_S):
        await asked([a_request(answers)], "a")
    assert answers == [("perm-1", RequestAnswer(verdict="allow", always=True))]


async def test_what_is_no_answer_asks_again_and_is_given_back():
    answers, questions, shown = [], RequestDialog(), []
    questions.add(a_request(answers))
    async with asyncio.timeout(WAIT_S):
        stray = await questions.ask_first(Typist("the milk", "", "y"), EventFormatter(), shown.extend)
    assert stray == "the milk"
    assert [a.verdict for _, a in answers] == ["allow"]
    assert shown.count("  that is no answer: y, n or a") == 2


async def test_silence_is_no_answer():
    answers, questions = [], RequestDialog()
    questions.add(a_request(answers))
    task = asyncio.create_task(questions.ask_first(Typist(), EventFormatter(), lambda _lines: None))
    done, _ = await asyncio.wait({task}, timeout=0.05)
    assert not done
    assert answers == []
    task.cancel()


async def test_a_question_that_somebody_else_answered_goes_away():
    answers, questions, typist = [], RequestDialog(), Typist()
    questions.add(a_request(answers))
    task = asyncio.create_task(questions.ask_first(typist, EventFormatter(), lambda _lines: None))
    await asyncio.sleep(0)
    assert questions.remove(RequestClosed(member="tester", request="perm-1", verdict="deny", by="cancelled"))
    typist.withdraw()
    async with asyncio.timeout(WAIT_S):
        assert await task == ""
    assert answers == []


@pytest.mark.promise("F44", "K5")
async def test_a_yes_that_was_meant_for_a_request_which_just_went_answers_no_other():
    answers, shown, typist = [], [], Typist()
    now = [100.0]
    questions = RequestDialog(clock=lambda: now[0])
    questions.add(a_request(answers, 1))
    questions.add(a_request(answers, 2, what="rm -rf build"))
    first = asyncio.create_task(questions.ask_first(typist, EventFormatter(), shown.extend))
    await asyncio.sleep(0)
    assert questions.remove(RequestClosed(member="tester", request="perm-1", verdict="allow", by="another terminal"))
    typist.withdraw()
    async with asyncio.timeout(WAIT_S):
        await first
        typist.lines.append("y")
        typist.out_of_lines.clear()
        second = asyncio.create_task(questions.ask_first(typist, EventFormatter(), shown.extend))
        await typist.out_of_lines.wait()
        assert "  the request before this one has just gone: once more, please" in shown
        assert answers == []
        now[0] += SETTLE_S
        typist.lines.append("y")
        typist.withdraw()
        await second
    assert [number for number, _ in answers] == ["perm-2"]


async def test_what_is_put_off_waits_and_is_asked_again():
    answers, shown, questions = [], [], RequestDialog()
    questions.add(a_request(answers))
    async with asyncio.timeout(WAIT_S):
        await questions.ask_first(Typist("l"), EventFormatter(), shown.extend)
        assert (questions.waiting, answers) == ([], [])
        assert questions.lines(EventFormatter()) == ["  perm-1  tester wants to use Bash: git push origin main"]
        assert questions.restore_postponed()
        await questions.ask_first(Typist("y"), EventFormatter(), shown.extend)
    assert [answer.verdict for _, answer in answers] == ["allow"]
    assert not questions.restore_postponed()
    assert questions.lines(EventFormatter()) == ["  no request waits"]


async def test_what_waits_is_listed_at_a_question_and_the_question_is_shown_again():
    answers = []
    requests = [a_request(answers, 1), a_request(answers, 2, member="docs", what="make\nclean")]
    async with asyncio.timeout(WAIT_S):
        _, shown, _ = await asked(requests, "/requests", "y", "n")
    listed = shown.index("  perm-2  docs wants to use Bash: make")
    assert next(line for line in shown[listed:] if line.startswith("?")).startswith("? tester wants to use Bash")


@pytest.mark.promise("K5", "G4")
async def test_a_command_is_edited_before_it_runs():
    answers = []
    request = a_request(answers, input={"command": "git push origin main", "timeout": 5})
    async with asyncio.timeout(WAIT_S):
        _, shown, typist = await asked([request], "e", "git push --dry-run")
    assert typist.kept == [NO_DRAFT, LineDraft("git push origin main", 20)]
    assert answers == [
        ("perm-1", RequestAnswer(verdict="allow", input={"command": "git push --dry-run", "timeout": 5}))
    ]
    assert "  runs instead: git push --dry-run" in shown


async def test_an_edited_line_that_is_empty_goes_back_and_one_that_is_the_same_is_a_plain_yes():
    answers = []
    request = a_request(answers, input={"command": "git push origin main"})
    async with asyncio.timeout(WAIT_S):
        await asked([request], "e", " ", "e", "git push origin main")
    assert answers == [("perm-1", RequestAnswer(verdict="allow"))]


async def test_a_request_that_is_answered_elsewhere_while_its_command_is_edited_goes_away():
    answers, questions, typist = [], RequestDialog(), Typist("e")
    questions.add(a_request(answers, input={"command": "git push origin main"}))
    task = asyncio.create_task(questions.ask_first(typist, EventFormatter(), lambda _lines: None))
    async with asyncio.timeout(WAIT_S):
        await typist.out_of_lines.wait()
        assert typist.labels[-1] == "run: "
        questions.remove(RequestClosed(member="tester", request="perm-1", verdict="deny", by="another terminal"))
        typist.withdraw()
        assert await task == ""
    assert answers == []


def test_only_a_command_can_be_edited():
    assert parse_reply(a_request(tool="Write", input={"content": "x"}), "e").meaning is ReplyMeaning.AGAIN
    assert "e edit" not in "\n".join(prompt_lines(a_request(tool="Write", input={}), EventFormatter()))


DIRECTORY = {"type": "addDirectories", "directories": ["/srv/data"], "destination": "session"}
MODE = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
RULE = {
    "type": "addRules",
    "rules": [{"toolName": "Bash", "ruleContent": "git push:*"}],
    "behavior": "allow",
    "destination": "session",
}


@pytest.mark.promise("G4", "K5")
def test_what_may_be_granted_along_with_a_yes_has_a_key_and_says_what_it_means():
    request = a_request(suggestions=(DIRECTORY, MODE, {**MODE, "mode": "plan"}, RULE))
    text = "\n".join(prompt_lines(request, EventFormatter()))
    assert "  d  yes, and may use /srv/data, until this session ends" in text
    assert "  m  yes, and edits of tester alone are not asked about, until it ends" in text
    assert "  m2 yes, and mode plan" in text
    assert "  r " not in text  # "always" stores it
    assert parse_reply(request, "D") == RequestReply(ReplyMeaning.ALLOW, updates=(DIRECTORY,))
    assert parse_reply(request, "m2") == RequestReply(ReplyMeaning.ALLOW, updates=({**MODE, "mode": "plan"},))
    assert parse_reply(request, "r").meaning is ReplyMeaning.AGAIN
    assert parse_reply(a_request(always="", suggestions=(RULE,)), "r") == RequestReply(
        ReplyMeaning.ALLOW, updates=(RULE,)
    )


@pytest.mark.promise("G4", "K5")
@pytest.mark.parametrize(
    ("place", "destination"), [("local", "localSettings"), ("project", "projectSettings"), ("user", "userSettings")]
)
def test_always_is_kept_in_the_file_that_is_named(place, destination):
    request = a_request(always="Bash(git push:*) (for every agent, until this session ends)")
    update = {"type": "addRules", "rules": ["Bash(git push:*)"], "behavior": "allow", "destination": destination}
    assert "a always (a local, project or user: in a file)" in "\n".join(prompt_lines(request, EventFormatter()))
    assert parse_reply(request, f"a {place}") == RequestReply(ReplyMeaning.ALLOW, updates=(update,))
    assert parse_reply(request, "always session").meaning is ReplyMeaning.ALWAYS
    assert parse_reply(request, "a nowhere").meaning is ReplyMeaning.AGAIN
    assert parse_reply(a_request(), f"a {place}").meaning is ReplyMeaning.AGAIN
    assert parse_reply(a_request(always=""), f"a {place}").meaning is ReplyMeaning.AGAIN


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"type": "addRules", "rules": [], "destination": "session"},
        {"type": "addRules", "rules": [7, {"toolName": ""}]},
        {"type": "addDirectories", "directories": "/"},
        {"type": "setMode"},
        {**MODE, "destination": "elsewhere"},
        {"type": "removeEverything"},
    ],
)
def test_a_suggestion_that_is_not_understood_is_not_offered(odd):
    assert suggested_grants(a_request(suggestions=(odd,))) == ()


@pytest.mark.promise("K5")
async def test_a_plan_is_shown_whole_and_approved_or_sent_back_with_feedback():
    plan = "# Plan\n\n" + LONG
    answers = []
    requests = [a_request(answers, n, kind="plan", tool="ExitPlanMode", what=plan, always="") for n in (1, 2)]
    async with asyncio.timeout(WAIT_S):
        _, shown, typist = await asked(requests, "n test it first", "y")
    text = "\n".join(shown)
    assert "? tester asks for approval of its plan" in text and "    line 119" in text
    assert "y approve · n FEEDBACK sends it back" in text
    assert set(typist.labels) == {"approve? [y/n] "}
    assert [(number, a.verdict, a.text) for number, a in answers] == [
        ("perm-1", "deny", "test it first"),
        ("perm-2", "allow", ""),
    ]


@pytest.mark.promise("K5")
def test_no_line_of_ours_is_wider_than_80_columns():
    always = "Bash(git push:*) (for every agent, until this session ends)"
    full = a_request(
        always=always, suggestions=(DIRECTORY, MODE, RULE), input={"command": "x"}, deadline=1.0, owner="tester"
    )
    for request in (full, a_question(), a_request(kind="plan", always="")):
        assert max(map(len, prompt_lines(request, EventFormatter(), 12))) <= 80


@pytest.mark.promise("F44", "K5")
def test_who_asks_is_the_whole_chain_and_until_when_is_said():
    request = a_request(member="tester › Explore: find the flags", owner="tester", deadline=1_700_000_000.0)
    lines = prompt_lines(request, EventFormatter())
    assert lines[0] == "? tester › Explore: find the flags wants to use Bash"
    assert any(re.fullmatch(r"  until   \d\d:\d\d:\d\d, then it is denied", line) for line in lines)


@pytest.mark.promise("F44")
@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("another terminal", "tester     allowed from another terminal: Bash git push origin main"),
        ("lead", "tester     allowed by the lead: Bash git push origin main"),
        ("hook", "tester     allowed by a hook: Bash git push origin main"),
        ("cancelled", "tester     no longer asks: Bash git push origin main"),
        ("terminal", None),
    ],
)
def test_who_answered_elsewhere_is_said(by, said):
    formatter = EventFormatter()
    assert formatter.lines(a_request()) == []
    closed = RequestClosed(member="tester", request="perm-1", verdict="allow", by=by)
    assert formatter.lines(closed) == ([said] if said else [])


async def test_leaving_at_a_question_leaves_it_open():
    answers, questions = [], RequestDialog()
    questions.add(a_request(answers))
    with pytest.raises(EOFError):
        await questions.ask_first(Typist(EOFError()), EventFormatter(), lambda _lines: None)
    assert len(questions.waiting) == 1
    assert questions.current is None
    assert answers == []


async def test_an_answer_that_comes_too_late_is_said():
    shown, questions = [], RequestDialog()
    questions.add(a_request(None))
    await questions.ask_first(Typist("y"), EventFormatter(), shown.extend)
    assert shown[-1] == "  it was answered already, or is no longer open"


@pytest.mark.promise("F28", "K8")
@pytest.mark.parametrize(
    ("typed", "ending"),
    [
        (["w"], LeaveChoice.WAIT),
        (["stop"], LeaveChoice.STOP),
        (["l"], LeaveChoice.LEAVE),
        ([""], LeaveChoice.STAY),
        (["q", "s"], LeaveChoice.STOP),
        ([EOFError()], LeaveChoice.LEAVE),
    ],
)
async def test_leaving_while_somebody_works_is_a_choice(typed, ending):
    shown = []
    async with asyncio.timeout(WAIT_S):
        assert await ask_how_to_leave(Typist(*typed), shown.extend, ["lead", "tester"]) is ending
    assert shown[0] == "lead, tester are at work:"


async def test_leaving_while_nobody_works_is_no_question():
    typist = Typist()
    assert await ask_how_to_leave(typist, lambda _lines: None, []) is LeaveChoice.QUIT
    assert typist.labels == []
