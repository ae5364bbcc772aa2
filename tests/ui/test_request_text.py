"""A request shows every character and every line of what a person approves, or says what it leaves out."""

import pytest

from teamwright.protocol.events import RequestOpened
from teamwright.ui.display_text import exact_line
from teamwright.ui.event_text import request_subject
from teamwright.ui.terminal.events import EventFormatter
from teamwright.ui.terminal.request_lines import is_long, prompt_lines, request_line, subject_lines, suggested_grants

HIDDEN = {
    "right to left": "\u202e",
    "zero width": "\u200b",
    "joiner": "\u200d",
    "isolate": "\u2066",
    "carriage return": "\r",
    "escape": "\x1b",
    "vertical tab": "\x0b",
    "next line": "\x85",
    "line separator": "\u2028",
    "unit separator": "\x1f",
    "no-break space": "\xa0",
    "blank letter": "\u3164",
    "tag": "\U000e0041",
}


def request(command: str, always: str = "", **more) -> RequestOpened:
    return RequestOpened(
        member="team-lead",
        request="r-1",
        kind="permission",
        tool="Bash",
        what=command,
        always=always,
        input={"command": command},
        **more,
    )


@pytest.mark.finding("3P11")
@pytest.mark.parametrize("name", HIDDEN)
def test_no_character_is_invisible_where_a_person_decides(name):
    char = HIDDEN[name]
    line = f"ls a{char}b"
    one = request(
        line,
        f"Bash({line}) (kept)",
        rule=f"Bash({line})",
        suggestions=({"type": "addRules", "rules": [f"Bash({line})"], "destination": "userSettings"},),
    )
    texts = ["\n".join(prompt_lines(one, EventFormatter())), request_line(one, EventFormatter())]
    texts += [
        request_subject("permission", "Bash", line),
        exact_line(line),
        *(grant.text for grant in suggested_grants(one)),
    ]
    for text in texts:
        assert char not in text
        code = f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"
        assert code in text
    assert "\n".join(prompt_lines(one, EventFormatter())).count(code) == 3


@pytest.mark.finding("3P11")
def test_blank_lines_move_no_part_of_a_command_off_the_screen():
    one = request("echo fine" + "\n" * 400 + "rm -r src")
    assert subject_lines(one) == ["echo fine", "… 399 blank lines", "rm -r src"]
    assert not is_long(one)
    assert len(prompt_lines(one, EventFormatter(), short=True)) < 12
    assert request_line(one, EventFormatter()).endswith("echo fine (and 1 more line)")
    assert request_subject("permission", "Bash", one.what) == "Bash echo fine (and 1 more line)"
    assert request_subject("plan", "", "# Plan\n1. one") == "# Plan"


@pytest.mark.finding("3P11")
def test_of_a_long_command_both_ends_are_shown_with_the_number_of_lines_between_and_all_on_demand():
    one = request("\n".join(f"echo {number}" for number in range(400)))
    assert is_long(one)
    short = prompt_lines(one, EventFormatter(), short=True)
    assert "    echo 0" in short
    assert "    echo 399" in short
    left = [line for line in short if "more lines: v shows all of it" in line]
    assert len(left) == 1
    assert sum("echo" in line for line in short) + int(left[0].split()[1]) == 400
    assert len(short) < 60
    assert sum("echo" in line for line in prompt_lines(one, EventFormatter())) == 400
