"""Questions to the person at the terminal before something is removed."""

from __future__ import annotations

import click

from teamwright.protocol.errors import UsageError
from teamwright.ui.cli.run_location import is_on_terminal


def confirm_removal(question: str) -> bool:
    """Ask the person at this terminal, and say so when nothing is removed. Raises UsageError off a terminal."""
    if not is_on_terminal():
        raise UsageError("usage", "no user is present to confirm", do=["add --yes"], note="nothing was removed")
    if click.confirm(question):
        return True
    click.echo("Nothing was removed.")
    return False
