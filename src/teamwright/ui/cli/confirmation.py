"""The person at the terminal: whether there is one, and questions before something is removed."""

from __future__ import annotations

import sys

import click

from teamwright.protocol.errors import UsageError


def is_on_terminal() -> bool:
    """Return True when stdin and stdout are terminals."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())


def confirm_removal(question: str) -> bool:
    """Ask the person at this terminal, and say so when nothing is removed. Raises UsageError off a terminal."""
    if not is_on_terminal():
        raise UsageError("usage", "no user is present to confirm", do=["add --yes"], note="nothing was removed")
    if click.confirm(question):
        return True
    click.echo("Nothing was removed.")
    return False
