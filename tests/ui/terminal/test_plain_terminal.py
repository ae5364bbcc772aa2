"""The plain mode for screen readers: text is appended, nothing is redrawn, and there are no sequences."""

import json
import re
from pathlib import Path

import pytest

from tests.support.waits import wait_until
from tests.ui.terminal.crew import crew, gates, opens
from tests.ui.terminal_driver import CTRL_D, Person
from tests.ui.test_terminal_session import at_terminal, who

__all__ = ["gates"]

pytestmark = pytest.mark.promise("H9", "K11")


def only_appends(raw: str) -> bool:
    """Whether the output has no sequence, and returns to the start of no line that it has begun."""
    return "\x1b" not in raw and re.search(r"\r(?!\r?\n)", raw) is None and "\x08" not in raw


@pytest.fixture
def plain_home(own_home: Path) -> Path:
    """A home whose settings ask for plain text."""
    settings = own_home / ".teamwright" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"terminal": {"plain": True}}))
    return own_home


def works_with_a_member(person: Person, server, repo: Path) -> None:
    """Spawn, a text of the lead, a view of a member, its answer, the lists of commands."""
    person.says("go")
    person.sees("They are at it.")
    person.says("/view ben")
    person.sees("── ben · ", "lead → ben: Take task 2.", "@ben>")
    wait_until(lambda: sum(who(body) == "ben" for body in server.bodies) == 2, "ben's request before its command")
    opens(repo, "ben")
    person.sees("ben is through.")
    person.says("/view")
    person.sees("── lead ──")
    person.says_until("/members", "  ben ", "idle")
    person.says("/tasks")
    person.sees("#2   job of ben")


def test_with_the_flag_a_capable_terminal_gets_lines_alone(gates: Path):
    with at_terminal(crew, gates, "--plain", "--backend", "in-process") as (person, server):
        works_with_a_member(person, server, gates)
        assert only_appends(person.raw), repr(person.raw)


@pytest.mark.slow
def test_with_the_setting_sessions_and_their_list_are_plain(plain_home: Path, repo: Path):
    for answer in ("# One\n\nIt is **done**.", "# Two\n\nIt is **done**."):
        with at_terminal(lambda _body, answer=answer: answer, repo) as (person, _):
            person.says("a prompt")
            person.sees(answer.split()[1], "It is **done**.")
            person.types(CTRL_D)
            assert person.leaves() == 0
            assert only_appends(person.raw), repr(person.raw)
    person = Person("-r", cwd=repo)
    person.sees("Which one [1]:")
    person.types(CTRL_D)
    assert person.leaves() == 130
    assert only_appends(person.raw), repr(person.raw)


def test_a_session_that_is_not_plain_redraws(gates: Path):
    with at_terminal(lambda _body: "An answer.", gates) as (person, _):
        person.says("go")
        person.sees("An answer.")
        assert not only_appends(person.raw)


@pytest.mark.slow
def test_with_the_setting_the_demo_has_no_panel(plain_home: Path, repo: Path):
    person = Person("demo", "--pace", "0", "--repo", str(repo), cwd=repo)
    assert person.leaves() == 0
    assert only_appends(person.raw), repr(person.raw)
