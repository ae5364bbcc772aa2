"""The examples in the help of each command are command lines that the program understands."""

import shlex
from textwrap import indent

import click
import pytest

from teamwright.ui.cli.command_examples import EXAMPLES, example_lines
from teamwright.ui.cli.command_table import CHANGING, COMMANDS
from teamwright.ui.cli.main import main
from teamwright.ui.cli.root import root
from tests.docs.test_commands import understood


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_ends_with_examples(name: str, capsys: pytest.CaptureFixture[str]):
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert example_lines(name)
    assert shown.rstrip().endswith(indent("\n".join(example_lines(name)), "  "))
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("line", [line for rows in EXAMPLES.values() for line, _ in rows])
def test_an_example_is_understood(line: str):
    words = shlex.split(line.partition(" | ")[0].partition(" >> ")[0])
    assert words[0] in COMMANDS
    assert understood(words) == ()


def test_every_group_does_something_without_a_subcommand():
    loaded = {name: root.get_command(click.Context(root, **root.context_settings), name) for name in COMMANDS}
    assert not [n for n, one in loaded.items() if isinstance(one, click.Group) and not one.invoke_without_command]


def test_a_misspelt_command_is_named_with_the_one_that_is_meant(capsys: pytest.CaptureFixture[str]):
    assert main(["stauts"]) == 2
    assert "unknown command 'stauts'. Did you mean 'status'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(CHANGING))
def test_for_a_typo_of_a_command_that_changes_something_its_help_is_suggested(
    name: str, capsys: pytest.CaptureFixture[str]
):
    assert main([f"{name}x" if len(name) < 5 else name[:-1]]) == 2
    assert f"teamwright help {name}" in capsys.readouterr().err
