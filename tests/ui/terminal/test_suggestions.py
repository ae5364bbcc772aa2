"""A suggestion of the next line: in the empty line, taken by Tab, gone with the first key, and never made unasked."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from teamwright.testing.model_server_replies import Answer, Stall, Status
from tests.session.test_side_questions import cached_part
from tests.ui.test_terminal_session import at_terminal, bash, told

pytestmark = pytest.mark.finding("S4")

ON = {"prompt_suggestion": True}
LINE = "now run the tests"


def is_suggestion(body: dict[str, Any]) -> bool:
    return "type next" in told(body)


def settings(**side_calls: Any) -> str:
    return json.dumps({"side_calls": side_calls})


def suggests(line: Any = LINE, reply: Callable[[dict[str, Any]], Any] = lambda _: "Done.") -> Callable[[Any], Any]:
    return lambda body: line if is_suggestion(body) else reply(body)


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home" / ".teamwright"
    home.mkdir(parents=True)
    return home


def at_home(play, repo, home, **side_calls):
    (home / "settings.json").write_text(settings(**side_calls))
    return at_terminal(play, repo, TEAMWRIGHT_HOME=str(home))


def test_tab_takes_the_suggestion_and_typing_hides_it_and_its_prefix_is_in_the_cache(repo, home):
    with at_home(suggests(), repo, home, **ON) as (person, server):
        person.says("write a file")
        person.sees("Done.", f"> {LINE}")
        person.types("x")
        person.until(lambda rows: not any(LINE in row for row in rows))
        person.types("\x7f\t more")
        person.sees(f"> {LINE} more")
        assert not any("more" in told(body) for body in server.bodies)
        person.types("\r")
        person.until(lambda _rows: any(told(body).endswith(f"{LINE} more") for body in server.bodies))
        first, asked = server.bodies[:2]
        head, blocks = cached_part(first)
        asked_head, asked_blocks = cached_part(asked)
        assert is_suggestion(asked) and asked_head == head and asked_blocks[: len(blocks)] == blocks
        assert not any("type next" in json.dumps(body["messages"][:-1]) for body in server.bodies)
        person.says("/cost")
        person.sees("prompt suggestion")


def test_without_the_setting_and_for_a_line_that_is_a_command_nothing_is_suggested(repo, home):
    with at_home(suggests(), repo, home) as (person, server):
        person.says("write a file")
        person.sees("Done.")
        person.says("again")
        person.until(lambda _rows: len(server.bodies) == 2)
        assert not any(map(is_suggestion, server.bodies))
    with at_home(suggests("!rm -rf ."), repo, home, **ON) as (person, server):
        person.says("write a file")
        person.until(lambda _rows: len(server.bodies) == 2)
        person.says("/log")
        person.sees("/log cN")
        assert not person.shows("rm -rf")


def test_a_suggestion_that_takes_long_ends_when_the_next_turn_begins(repo, home):
    with at_home(suggests(Stall()), repo, home, **ON) as (person, server):
        person.says("write a file")
        person.until(lambda _rows: any(map(is_suggestion, server.bodies)))
        person.says("go on")
        person.until(lambda _rows: sum(not is_suggestion(body) for body in server.bodies) == 2)
        assert "type next" not in json.dumps([b["messages"] for b in server.bodies if not is_suggestion(b)])


def test_a_suggestion_that_the_service_limits_ends_with_the_next_turn_which_is_answered(repo, home):
    limited = Status(429, "slow down", retry_after=0.5)
    reply = suggests(limited, lambda body: "Second." if "go on" in told(body) else "First.")
    with at_home(reply, repo, home, **ON) as (person, server):
        person.says("write a file")
        person.sees("First.")
        person.until(lambda _rows: any(map(is_suggestion, server.bodies)))
        person.says("go on")
        person.sees("Second.")


def test_a_spent_cap_ends_suggestions_with_one_notice(repo, home):
    with at_home(suggests(), repo, home, **ON, max_calls=1) as (person, server):
        person.says("one")
        person.sees(f"> {LINE}")
        for line in ("two", "three", "four"):
            before = sum(not is_suggestion(body) for body in server.bodies)
            person.says(line)
            person.until(lambda _rows, n=before: sum(not is_suggestion(body) for body in server.bodies) == n + 1)
        person.sees("no more side calls in this session: side_calls.max_calls, 1, is reached")
        assert sum(map(is_suggestion, server.bodies)) == 1
        assert person.screen.text.count("no more side calls") == 1


def test_a_request_that_waits_has_no_suggestion_beside_it(repo, home):
    def reply(body: dict[str, Any]) -> Answer | str:
        return "Done." if "tool_result" in json.dumps(body["messages"][-1]) else bash("rm -f nothing")

    with at_home(suggests(reply=reply), repo, home, **ON) as (person, server):
        person.says("remove it")
        person.sees("rm -f nothing", "allow")
        assert not any(map(is_suggestion, server.bodies))
        person.says("y")
        person.sees("Done.", f"> {LINE}")
