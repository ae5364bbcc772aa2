"""What a typed line is, and what Tab offers."""

import pytest

from teamwright.ui.terminal.editor_protocol import LineDraft
from teamwright.ui.terminal.line_completion import MAX_CANDIDATES, candidates
from teamwright.ui.terminal.line_parser import (
    COMMAND_NAMES,
    LeadPrompt,
    MemberMail,
    TerminalCommand,
    UnknownCommand,
    leading_word,
    parse_line,
)

TEAM = ["tester", "Docs"]


@pytest.mark.promise("C10")
@pytest.mark.parametrize(
    "line", ["@tester look here", "@TESTER look here", "@tester, look here", "@tester@release look here"]
)
def test_a_line_to_a_member_is_mail(line):
    assert parse_line(line, TEAM).__class__ is MemberMail
    assert parse_line(line, TEAM).text == "look here"


@pytest.mark.promise("C10")
def test_mail_keeps_its_line_feeds():
    assert parse_line("@docs one\ntwo", TEAM) == MemberMail("docs", "one\ntwo")


@pytest.mark.parametrize("line", ["@lead go on", "@team-lead go on"])
def test_a_line_to_the_lead_is_a_prompt(line):
    assert parse_line(line, TEAM) == LeadPrompt("go on")


def test_a_line_to_nobody_is_mail_that_will_be_refused_and_not_a_prompt():
    assert parse_line("@tessa look", TEAM) == MemberMail("tessa", "look")


def test_a_line_that_begins_with_a_file_is_a_prompt():
    assert parse_line("@README.md explain", TEAM) == LeadPrompt("@README.md explain")
    assert parse_line("@Makefile explain", TEAM, is_path=True) == LeadPrompt("@Makefile explain")
    assert parse_line("@tester look", TEAM, is_path=True) == MemberMail("tester", "look")


def test_a_name_without_words_is_no_mail():
    assert parse_line("@tester", TEAM) == LeadPrompt("@tester")


def test_commands_are_known_by_name_without_regard_to_case():
    assert parse_line("/help", TEAM) == TerminalCommand("/help")
    assert parse_line(" /STOP tester ", TEAM) == TerminalCommand("/stop", "tester")


def test_an_unknown_command_names_the_nearest():
    assert parse_line("/membrs", TEAM) == UnknownCommand("/membrs", "/members")
    assert parse_line("/xyzzy", TEAM) == UnknownCommand("/xyzzy", "")


def test_a_path_at_the_beginning_is_no_command():
    assert parse_line("/usr/bin/env is missing", TEAM) == LeadPrompt("/usr/bin/env is missing")


def test_the_leading_word_is_what_stands_behind_the_sign():
    assert leading_word("@a.py what") == "a.py"
    assert leading_word("what @a.py") == ""
    assert leading_word("@ a") == ""


def test_commands_are_offered_at_the_beginning(tmp_path):
    assert {"/help", "/members", "/mode", "/requests", "/stop", "/quit"} <= set(COMMAND_NAMES)
    assert [c.text for c in candidates("/", [], tmp_path)] == list(COMMAND_NAMES)
    assert [c.text for c in candidates("/interrupt a", ["ada", "bob"], tmp_path)] == ["ada"]
    assert [c.text for c in candidates("/m", [], tmp_path)] == ["/members", "/mode", "/model", "/memory", "/mcp"]
    assert candidates("see /m", [], tmp_path) == []


def test_members_are_offered_as_address_and_to_stop(tmp_path):
    assert [c.text for c in candidates("@te", TEAM, tmp_path)] == ["@tester "]
    assert [c.text for c in candidates("/stop do", TEAM, tmp_path)] == ["Docs"]
    assert [c.text for c in candidates("ask @te", TEAM, tmp_path)] == []


def test_files_are_offered_behind_the_sign_anywhere(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    (tmp_path / ".env").touch()
    (tmp_path / "setup.cfg").touch()
    assert [c.text for c in candidates("read @s", [], tmp_path)] == ["@setup.cfg", "@src/"]
    assert [(c.text, c.length) for c in candidates("read @src/m", [], tmp_path)] == [("@src/main.py", 6)]
    assert [c.text for c in candidates("read @.e", [], tmp_path)] == ["@.env"]
    assert candidates("mail me@s", [], tmp_path) == []
    assert candidates("read @nowhere/x", [], tmp_path) == []


def test_a_crowded_directory_is_offered_in_part(tmp_path):
    for n in range(MAX_CANDIDATES + 10):
        (tmp_path / f"f{n:03}").touch()
    assert len(candidates("@f", [], tmp_path)) == MAX_CANDIDATES


def test_a_file_name_that_would_steer_the_terminal_is_not_offered(tmp_path):
    (tmp_path / "a\x1b[2J").touch()
    assert candidates("@a", [], tmp_path) == []


def test_a_kept_line_takes_more_text_where_the_cursor_was():
    assert LineDraft("buy milk", 4).insert("more ") == LineDraft("buy more milk", 9)


@pytest.mark.finding("U6")
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("exit", "TerminalCommand"),
        (" Quit ", "TerminalCommand"),
        (":q", "TerminalCommand"),
        ("help", "TerminalCommand"),
        ("# remember the port", "Note"),
        ("#remember", "Note"),
        (" # a title for the model", "LeadPrompt"),
        ("#16 is broken, look at it", "LeadPrompt"),
        ("# Title\nand a text", "LeadPrompt"),
        ("exit the loop early in main.py", "LeadPrompt"),
    ],
)
def test_words_that_other_programs_take_as_commands_are_no_prompts(line, kind):
    assert type(parse_line(line, TEAM)).__name__ == kind
