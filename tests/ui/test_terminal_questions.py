"""Questions at a terminal: what is shown, what a line means, and that nothing is ever taken for a yes."""

import asyncio
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.events import RequestAnswer, RequestClosed, RequestOpened
from teamwright.ui.terminal.asking import Questions
from teamwright.ui.terminal.editor import NOTHING, Kept, Withdrawn
from teamwright.ui.terminal.leaving import Ending, choose_ending
from teamwright.ui.terminal.lines import Narrator
from teamwright.ui.terminal.questions import Meaning, Reply, question_label, question_lines, read_reply

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
        self.shown: list[str] = []

    async def read(self, kept: Kept = NOTHING) -> str:
        return await self.answer("> ")

    async def answer(self, label: str) -> str:
        self.labels.append(label)
        if not self.lines:
            await self.withdrawn.wait()
            self.withdrawn.clear()
            raise Withdrawn
        line = self.lines.popleft()
        if isinstance(line, BaseException):
            raise line
        return line

    def withdraw(self) -> None:
        self.withdrawn.set()

    def interrupt(self) -> None: ...

    def show(self, text: str) -> None:
        self.shown.append(text)

    def refresh(self) -> None: ...

    async def close(self) -> None: ...


async def asked(requests, *lines):
    """Ask all of them; gives the questions and what was shown."""
    questions, shown, typist = Questions(), [], Typist(*lines)
    for one in requests:
        questions.opened(one)
    while questions.waiting:
        await questions.ask_first(typist, Narrator(), shown.extend)
    return questions, shown, typist


@pytest.mark.promise("K5")
def test_a_question_shows_who_asks_the_whole_command_the_rule_and_what_always_means():
    text = "\n".join(question_lines(a_request(what=LONG), Narrator()))
    assert "tester wants to use Bash" in text
    assert all(f"    line {n}" in text for n in range(120))
    assert "default: it changes something" in text
    assert f"always  {ALWAYS}" in text
    assert "y yes" in text and "n REASON" in text and "a always" in text


@pytest.mark.promise("K5")
def test_always_is_not_offered_where_nothing_could_be_stored():
    lines = question_lines(a_request(always=""), Narrator())
    assert "always" not in "\n".join(lines)
    assert question_label(a_request(always="")) == "allow? [y/n] "
    assert read_reply(a_request(always=""), "a").meaning is Meaning.AGAIN


def test_a_command_cannot_hide_what_it_does():
    lines = question_lines(a_request(what="ls \x1b[8mrm -rf ~\x1b[0m"), Narrator())
    assert lines[1] == "    ls \\x1b[8mrm -rf ~\\x1b[0m"


def test_a_question_with_answers_numbers_them():
    lines = question_lines(a_question(), Narrator(), waiting=2)
    assert lines[0] == "? tester asks   (2 more wait)"
    assert lines[2:4] == ["    1  PostgreSQL", "    2  SQLite"]


@pytest.mark.parametrize(
    ("line", "meaning", "text"),
    [
        ("y", Meaning.ALLOW, ""),
        (" YES ", Meaning.ALLOW, ""),
        ("a", Meaning.ALWAYS, ""),
        ("n", Meaning.DENY, ""),
        ("n not to main", Meaning.DENY, "not to main"),
        ("no, not to main", Meaning.DENY, "not to main"),
        ("", Meaning.AGAIN, None),
        ("yes please go on", Meaning.AGAIN, None),
        ("sure", Meaning.AGAIN, None),
    ],
)
def test_what_a_line_means(line, meaning, text):
    reply = read_reply(a_request(), line)
    assert reply.meaning is meaning
    assert text is None or reply.text == text


@given(st.text(max_size=20))
def test_nothing_but_a_clear_yes_allows(line):
    meaning = read_reply(a_request(), line).meaning
    if meaning in {Meaning.ALLOW, Meaning.ALWAYS}:
        assert line.strip().lower().rstrip(",:") in {"y", "yes", "a", "always"}


@pytest.mark.parametrize(
    ("line", "answer"),
    [("1", "PostgreSQL"), ("2, 1", "SQLite, PostgreSQL"), ("3", "3"), ("neither", "neither"), ("1 or 2", "1 or 2")],
)
def test_an_answer_is_a_number_or_words(line, answer):
    assert read_reply(a_question(), line) == Reply(Meaning.ANSWER, answer)


def test_an_empty_line_answers_no_question():
    assert read_reply(a_question(), "  ").meaning is Meaning.AGAIN


async def test_each_question_is_answered_in_turn_and_never_between():
    answers = []
    requests = [a_request(answers, 1), a_request(answers, 2, member="docs"), a_question(answers)]
    async with asyncio.timeout(5):
        _, shown, _ = await asked(requests, "y", "n too early", "2")
    assert [(i, a.verdict, a.text) for i, a in answers] == [
        ("perm-1", "allow", ""),
        ("perm-2", "deny", "too early"),
        ("perm-1", "allow", "SQLite"),
    ]
    heads = [line for line in shown if line.startswith("?")]
    assert heads == [
        "? tester wants to use Bash   (2 more wait)",
        "? docs wants to use Bash   (1 more wait)",
        "? tester asks",
    ]


@pytest.mark.promise("K5")
async def test_always_is_handed_on():
    answers = []
    async with asyncio.timeout(5):
        await asked([a_request(answers)], "a")
    assert answers == [("perm-1", RequestAnswer(verdict="allow", always=True))]


async def test_what_is_no_answer_asks_again_and_is_given_back():
    answers, questions, shown = [], Questions(), []
    questions.opened(a_request(answers))
    async with asyncio.timeout(5):
        stray = await questions.ask_first(Typist("the milk", "", "y"), Narrator(), shown.extend)
    assert stray == "the milk"
    assert [a.verdict for _, a in answers] == ["allow"]
    assert shown.count("  that is no answer: y, n or a") == 2


async def test_silence_is_no_answer():
    answers, questions = [], Questions()
    questions.opened(a_request(answers))
    task = asyncio.create_task(questions.ask_first(Typist(), Narrator(), lambda _lines: None))
    done, _ = await asyncio.wait({task}, timeout=0.05)
    assert not done
    assert answers == []
    task.cancel()


async def test_a_question_that_somebody_else_answered_goes_away():
    answers, questions, typist = [], Questions(), Typist()
    questions.opened(a_request(answers))
    task = asyncio.create_task(questions.ask_first(typist, Narrator(), lambda _lines: None))
    await asyncio.sleep(0)
    assert questions.closed(RequestClosed(member="tester", request="perm-1", verdict="deny", by="cancelled"))
    typist.withdraw()
    async with asyncio.timeout(5):
        assert await task == ""
    assert answers == []


async def test_leaving_at_a_question_leaves_it_open():
    answers, questions = [], Questions()
    questions.opened(a_request(answers))
    with pytest.raises(EOFError):
        await questions.ask_first(Typist(EOFError()), Narrator(), lambda _lines: None)
    assert len(questions.waiting) == 1
    assert questions.asked is None
    assert answers == []


async def test_an_answer_that_comes_too_late_is_said():
    shown, questions = [], Questions()
    questions.opened(a_request(None))
    await questions.ask_first(Typist("y"), Narrator(), shown.extend)
    assert shown[-1] == "  it was answered already, or nobody waits for it any more"


@pytest.mark.promise("F28", "K8")
@pytest.mark.parametrize(
    ("typed", "ending"),
    [
        (["w"], Ending.WAIT),
        (["stop"], Ending.STOP),
        (["l"], Ending.LEAVE),
        ([""], Ending.STAY),
        (["q", "s"], Ending.STOP),
        ([EOFError()], Ending.LEAVE),
    ],
)
async def test_leaving_while_somebody_works_is_a_choice(typed, ending):
    shown = []
    async with asyncio.timeout(5):
        assert await choose_ending(Typist(*typed), shown.extend, ["lead", "tester"]) is ending
    assert shown[0] == "lead, tester are at work:"


async def test_leaving_while_nobody_works_is_no_question():
    typist = Typist()
    assert await choose_ending(typist, lambda _lines: None, []) is Ending.QUIT
    assert typist.labels == []
