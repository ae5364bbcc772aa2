"""Each line of the table for users of Claude Code is true: flags, commands and keys."""

from pathlib import Path

import click
import pytest

from teamwright.ui.claude_code_equivalents import COMMANDS, FLAGS, KEYS, SUBCOMMANDS, EquivalentRow
from teamwright.ui.cli.command_table import COMMANDS as BUILT_IN_COMMANDS
from teamwright.ui.cli.flags import to_kebab
from teamwright.ui.cli.main import main
from teamwright.ui.cli.root import root
from teamwright.ui.equivalents_page import render_page
from teamwright.ui.terminal.keys import KEY_TABLE
from teamwright.ui.terminal.line_parser import (
    TerminalCommand,
    UnknownCommand,
    parse_line,
    unknown_command_lines,
)
from tests.ui.program import Program

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "coming-from.md"
OPTIONS = {name for param in root.get_params(click.Context(root, **root.context_settings)) for name in param.opts}


def name_of(row: EquivalentRow) -> str:
    return row.name


def test_the_page_is_the_one_that_the_table_gives():
    assert PAGE.read_text() == render_page(), "make generated"


@pytest.mark.parametrize("row", FLAGS, ids=name_of)
def test_a_flag_is_what_its_line_says(row: EquivalentRow):
    assert (to_kebab(row.name) in OPTIONS) is (row.relation != "absent")
    assert bool(row.about) is (row.relation != "same")
    for word in row.here.split():
        if word.startswith("--"):
            assert word in OPTIONS


@pytest.mark.finding("U8")
@pytest.mark.parametrize("row", SUBCOMMANDS, ids=name_of)
def test_a_command_of_the_program_is_what_its_line_says(row: EquivalentRow, capsys: pytest.CaptureFixture[str]):
    if row.relation == "absent":
        assert main([row.name]) == 2
        error = capsys.readouterr().err
        assert row.about in error and f" {row.here}\n" in error
        assert row.here.split()[1] in {*BUILT_IN_COMMANDS, "-p"}
    else:
        assert (row.here or f"teamwright {row.name}").split()[1] in BUILT_IN_COMMANDS


@pytest.mark.parametrize("row", COMMANDS, ids=name_of)
def test_a_command_is_what_its_line_says(row: EquivalentRow):
    line = parse_line(row.name, ())
    if row.relation == "absent":
        assert isinstance(line, UnknownCommand)
        assert row.about and row.about in " ".join(unknown_command_lines(line))
    elif row.relation == "different":
        assert isinstance(line, TerminalCommand) and line.name == row.here and row.about
    else:
        assert not isinstance(line, UnknownCommand)


@pytest.mark.parametrize("row", KEYS, ids=name_of)
def test_a_key_is_what_its_line_says(row: EquivalentRow):
    words = {word.strip(",") for key in KEY_TABLE for word in key.name.split()} | {"Enter"}
    assert words.issuperset(row.name.split()) is (row.relation != "absent")
    assert bool(row.about) is (row.relation != "same")


@pytest.mark.slow
def test_the_program_answers_a_flag_of_the_other_product_with_the_line(repo: Path, own_home: Path):
    made = Program(repo, own_home / ".teamwright", "http://127.0.0.1:9").run("--chrome")
    assert made.returncode == 2
    assert "A browser is controlled by an MCP server." in made.stderr and "--mcp-config JSON" in made.stderr


@pytest.mark.finding("3I12")
@pytest.mark.parametrize(("word", "instead"), [("kill", "stop"), ("purge", "projects"), ("gateway", "models")])
def test_a_command_of_the_other_product_is_no_prompt(word: str, instead: str, capsys: pytest.CaptureFixture[str]):
    for words in ([word], [word, "7f3a"], [word.upper()], [word, "--all"], [word, "--config", "a.yaml"]):
        assert main(words) == 2
        assert f"teamwright {instead}" in capsys.readouterr().err


@pytest.mark.finding("3I12")
def test_every_flag_that_the_other_product_added_since_has_a_row():
    added = "--bg --cloud --tmux --autocompact --restricted --safe-mode --plugin-url --debug-file --remote-control"
    assert {row.name for row in FLAGS} >= set(added.split())
