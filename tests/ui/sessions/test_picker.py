"""The list of sessions before one opens: arrow keys, numbers, narrow and dumb terminals; real ones."""

import os
import shutil
from pathlib import Path

import pytest

from tests.ui.program import Program
from tests.ui.terminal_driver import CTRL_C, CTRL_D, ENTER, Person
from tests.ui.test_cli import write_session

UP, DOWN, ESC = "\x1b[A", "\x1b[B", "\x1b"
WORDS = ["the oldest one", "\x1b[31mred\x1b[0m and \u202ereversed", "界" * 60, "the newest one " + "x" * 200]


@pytest.fixture
def three(repo: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sessions of this directory, the oldest first; none can really be opened."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-000000001234")
    made = []
    for number, words in enumerate(WORDS):
        id = f"{number}f3a0000-0000-4000-8000-00000000000{number}"
        path = write_session(repo, id, prompt=words)
        shutil.rmtree(path.with_suffix("") / "prefixes")
        os.utime(path, (1000 + number, 1000 + number))
        made.append(id)
    return made


def opened(person: Person) -> str:
    """What became of the choice: none of these sessions has a prefix, and the error names which."""
    person.sees("[damaged-file]")
    person.leaves()
    return person.screen.text.replace("\n", "")


@pytest.mark.slow_after(1)
@pytest.mark.promise("K8", "K11")
@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (ENTER, 3),
        (DOWN + ENTER, 2),
        (DOWN * 3 + ENTER, 0),
        (UP + ENTER, 0),
        ("4" + ENTER, 0),
        ("9" + ENTER + "2" + ENTER, 2),
        ("4\x7f3" + ENTER, 1),
        ("\x1bOB" + ENTER, 2),
        ("zü\x1b[5~" + DOWN + ENTER, 2),
    ],
)
def test_arrow_keys_or_a_number_pick_one(three, repo, keys, chosen):
    person = Person("-r", cwd=repo, size=(24, 80))
    person.sees("the newest one", "Which one [1]:")
    person.types(keys)
    assert three[chosen] in opened(person)


@pytest.mark.slow_after(2)
@pytest.mark.promise("K8")
@pytest.mark.parametrize("keys", [ESC, "q", CTRL_C, CTRL_D])
@pytest.mark.parametrize("args", [["-r"], ["resume"]])
def test_leaving_the_list_starts_nothing(three, repo, keys, args):
    person = Person(*args, cwd=repo)
    person.sees("Which one [1]:")
    person.types(keys)
    assert person.leaves() == 130


@pytest.mark.promise("K8", "K11")
@pytest.mark.parametrize("columns", [80, 40, 24])
def test_no_row_is_wider_than_the_window_and_words_of_others_steer_nothing(three, repo, columns):
    person = Person("-r", cwd=repo, size=(24, columns))
    person.sees("Which one [1]:")
    person.types(DOWN + UP + "3")
    person.sees("Which one [3]: 3")
    text = person.screen.text
    assert text.count("Which one") == 1, "it is drawn in its place"
    rows = [line for line in text.split("\n") if "f3a0000" in line]
    assert [row.split()[1 if row.startswith(">") else 0] for row in rows] == ["1", "2", "3", "4"]
    assert rows[2].startswith("> ") and "\u202e" not in person.raw and "\x1b[31mred" not in person.raw
    person.types(CTRL_C)
    assert person.leaves() == 130


@pytest.mark.promise("K8", "K11")
@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": "dumb", "NO_COLOR": "1"}])
def test_a_dumb_terminal_is_asked_for_a_number(three, repo, env):
    person = Person("-r", cwd=repo, **env)
    person.sees("the newest one", "Which one [1]:")
    person.types("x\n")
    person.sees("a number from 1 to 4", "Which one")
    person.types("5\n")
    person.sees("5 is not in the range 1 to 4", "Which one")
    person.types("2\n")
    assert three[2] in opened(person)
    assert "\x1b" not in person.raw


@pytest.mark.promise("K8")
def test_a_dumb_terminal_is_left_with_ctrl_d(three, repo):
    person = Person("-r", cwd=repo, TERM="dumb")
    person.sees("Which one [1]:")
    person.types(CTRL_D)
    assert person.leaves() == 130


@pytest.mark.promise("K8")
def test_what_was_typed_before_the_list_was_there_picks_nothing(three, repo):
    person = Person("-r", cwd=repo, starts_after_line=True)
    person.types(f"start{ENTER}4{ENTER}")
    person.sees("Which one [1]:")
    person.types(ENTER)
    assert three[3] in opened(person)


@pytest.mark.promise("K11", "K8")
def test_no_colours_where_none_are_wanted(three, repo):
    person = Person("-r", cwd=repo, NO_COLOR="1")
    person.sees("Which one [1]:")
    person.types(DOWN + CTRL_C)
    assert person.leaves() == 130
    assert not [part for part in person.raw.split("\x1b[")[1:] if part.split("m")[0].isdigit() and part[0] != "0"]


@pytest.mark.promise("K8")
def test_in_a_low_window_the_rows_around_the_marked_one_are_shown(three, repo):
    person = Person("-r", cwd=repo, size=(7, 80))
    person.sees("the newest one", "Which one [1]:")
    person.types(DOWN * 3)
    person.sees("> 4", "Which one [4]:")
    assert len(person.screen.text.split("\n")) <= 12
    person.types(ENTER)
    assert three[0] in opened(person)


@pytest.mark.promise("K8", "K11")
def test_off_a_terminal_it_is_a_clear_error_with_what_there_is(three, repo, own_home):
    program = Program(repo, own_home / ".teamwright")
    for args in (["-r"], ["resume"]):
        done = program.run(*args)
        assert done.returncode == 2 and "No user is present to choose" in done.stderr
        assert f"teamwright resume {three[3][:8]}" in done.stderr and done.stdout == ""
