"""Commands about the program itself: `teamwright help [COMMAND]` and `teamwright version`.

They print the same as `--help` and `--version`. Depends on click and the table of commands.
"""

from __future__ import annotations

import click

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest


@click.command("help")
@click.argument("command", nargs=-1, metavar="[COMMAND]")
@click.pass_context
def help_command(ctx: click.Context, command: tuple[str, ...]) -> int:
    """Print the help of the program, or of COMMAND."""
    above = ctx.find_root()
    at = click.Context(above.command, info_name=above.info_name, **above.command.context_settings)
    for name in command:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None:
            raise _unknown(at, name)
        at = click.Context(found, parent=at, info_name=name)
    click.echo(at.get_help())
    return 0


def _unknown(at: click.Context, name: str) -> UsageError:
    below = at.command.list_commands(at) if isinstance(at.command, click.Group) else []
    close = nearest(name, below)
    words = at.command_path.partition(" ")[2]
    return UsageError(
        "usage",
        f"{at.command_path} has no command {name[:80]!r}",
        do=[" ".join(filter(None, ("teamwright help", words, close)))],
        note="nothing was started",
    )


@click.command("version")
def version_command() -> int:
    """Print the version."""
    from teamwright import __version__

    click.echo(f"teamwright {__version__}")
    return 0
