"""`teamwright completion SHELL`: the script with which a shell completes our commands, flags and names."""

from __future__ import annotations

import sys

import click

from teamwright.ui.cli.completion.shells import SHELLS, script


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)), metavar="SHELL")
def completion(shell: str) -> int:
    """Print the completion script for bash, zsh or fish. A line in the shell's own file reads it at each start."""
    sys.stdout.write(script(shell))
    return 0
