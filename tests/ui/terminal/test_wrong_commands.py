"""A wrong slash command leads to nothing that ends or removes work."""

import pytest

from teamwright.session.options import BUILT_IN_PROMPTS
from teamwright.ui.claude_code_equivalents import COMMANDS as ROWS
from teamwright.ui.cli.command_table import COMMANDS as PROGRAM_COMMANDS
from teamwright.ui.terminal.line_completion import candidates
from teamwright.ui.terminal.line_parser import (
    ALIASES,
    COMMAND_NAMES,
    COMMANDS,
    NEVER_SUGGESTED,
    CustomCommand,
    LeadPrompt,
    TerminalCommand,
    UnknownCommand,
    parse_line,
    unknown_command_lines,
)

EQUIVALENTS = {row.name: row.about for row in ROWS if row.relation == "absent"}


def answer(line: str) -> str:
    found = parse_line(line, ())
    assert isinstance(found, UnknownCommand)
    return " ".join(unknown_command_lines(found))


@pytest.mark.finding("U8")
@pytest.mark.parametrize("line", [*EQUIVALENTS, "/claer", "/quti", "/stp", "/undoo", "/plna", "/inti x", "/c", "/x"])
def test_no_command_that_ends_or_removes_work_is_suggested(line):
    suggested = answer(line).partition("there are")[0]
    named = {word.strip(":;,?`") for word in suggested.split()} - {line.split()[0]}
    assert named & NEVER_SUGGESTED == set()


@pytest.mark.finding("U8")
def test_a_typo_of_a_harmless_command_is_recognised():
    assert "did you mean /members?" in answer("/membres")
    assert "did you mean /requests?" in answer("/requ")
    assert "did you mean" not in answer("/frobnicate")


@pytest.mark.finding("U8")
@pytest.mark.parametrize("name", EQUIVALENTS)
def test_a_command_of_a_similar_program_is_answered_by_what_to_type(name):
    assert name not in COMMAND_NAMES
    words = EQUIVALENTS[name].replace("`", "").split()
    for word in words:
        assert not word.startswith("/") or word.strip(",;") in COMMAND_NAMES
    if "teamwright" in words:
        after = words[words.index("teamwright") + 1]
        assert after in PROGRAM_COMMANDS or after.startswith("-")


BUILT_IN = """
add-dir advisor agents allowed-tools app background bashes batch branch btw bug checkpoint chrome claude-api clear color
compact config context continue copy cost debug desktop diff doctor effort exit export extra-usage fast feedback fork
goal heapdump help hooks ide init insights install-github-app install-slack-app ios keybindings login logout loop mcp
memory migrate-installer mobile model new output-style passes permissions plan plugin powerup pr-comments
privacy-settings quit radio recap release-notes reload-plugins remote-control remote-env rename reset resume review
rewind sandbox schedule security-review settings setup-bedrock setup-vertex simplify skills stats status statusline
stickers tasks team-onboarding teleport terminal-setup theme todos tui ultraplan ultrareview undo upgrade usage vim
voice web-setup
"""
"""The built-in commands of the modelled product, by its public documentation."""


@pytest.mark.finding("U8")
@pytest.mark.parametrize("name", BUILT_IN.split())
def test_each_command_of_the_modelled_product_works_or_is_answered_by_what_to_type(name):
    found = parse_line(f"/{name}", ())
    assert not isinstance(found, UnknownCommand) or found.name in EQUIVALENTS


@pytest.mark.finding("U9")
def test_commands_are_completed_with_their_descriptions(tmp_path):
    (tasks,) = candidates("/task", (), tmp_path)
    assert (tasks.text, tasks.about) == ("/tasks", COMMANDS["/tasks"])


@pytest.mark.finding("U8")
def test_commands_of_similar_programs_work_under_their_names():
    assert parse_line("/plan", ()) == TerminalCommand("/mode", "plan")
    assert parse_line("/plan @ann", ()) == TerminalCommand("/mode", "plan @ann")
    assert parse_line("/EXIT", ()) == TerminalCommand("/quit")
    assert {to.split()[0] for to in ALIASES.values()} <= set(COMMAND_NAMES)
    assert parse_line("/review src/api.py", ()) == LeadPrompt(f"{BUILT_IN_PROMPTS['/review']}\n\nsrc/api.py")


@pytest.mark.finding("U8")
def test_a_command_of_your_own_replaces_one_that_only_similar_programs_have():
    own = ["/review", "/plan", "/status", "/quit"]
    assert parse_line("/review x", (), custom_commands=own) == CustomCommand("review", "x")
    assert parse_line("/plan", (), custom_commands=own) == CustomCommand("plan")
    assert parse_line("/status", (), custom_commands=own) == CustomCommand("status")
    assert parse_line("/quit", (), custom_commands=own) == TerminalCommand("/quit")


@pytest.mark.finding("U8")
def test_plan_with_words_is_a_prompt_in_plan_mode():
    assert parse_line("/plan change the parser", ()) == LeadPrompt("change the parser", mode="plan")
    assert parse_line("/plan", ()) == TerminalCommand("/mode", "plan")
    assert parse_line("/plan @ada", ()) == TerminalCommand("/mode", "plan @ada")
