"""Commands about the program itself: `teamwright help [COMMAND]` and `teamwright version`.

They print the same as `--help` and `--version`. `help` also explains an error by its slug, from `error_texts.toml`.
Depends on click and the table of commands.
"""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from typing import Any

import click

from teamwright.protocol.errors import SLUGS, TeamwrightError, UsageError
from teamwright.protocol.ids import nearest

EXIT_CODES: dict[int, str] = {
    0: "done",
    1: "a model, a tool or a file failed, or the agent reports a failure; `doctor`: something needs a repair",
    2: "bad usage: the command line, a name, or an unknown object",
    3: "cannot start: no model, wrong key, unreadable settings, another platform",
    4: (
        "a cap was reached (money, tokens, turns, time), or the lead [repeated "
        "itself](answer-ends.md#a-turn-that-repeats-itself); the session can be resumed"
    ),
    5: (
        "ended with members or background commands cut off, with all members failed, or with a member that still "
        "needs a turn because its model's service is limited or unpaid; with `--strict` also denied requests, failed "
        "members, open tasks"
    ),
    70: "a bug in Teamwright; a crash file is named",
    130: "interrupted (SIGINT, Ctrl-C); everything was saved",
    143: "terminated (SIGTERM); everything was saved",
}
"""The meaning of each exit code of the program, in Markdown; links begin at docs/reference."""


@click.command("help")
@click.argument("command", nargs=-1, metavar="[COMMAND]")
@click.pass_context
def help_command(ctx: click.Context, command: tuple[str, ...]) -> int:
    """Print the help of the program, of COMMAND, or of an error.

    An error is named by the word in brackets at its end.
    """
    above = ctx.find_root()
    at = click.Context(above.command, info_name=above.info_name, **above.command.context_settings)
    for name in command:
        found = at.command.get_command(at, name) if isinstance(at.command, click.Group) else None
        if found is None and name.strip("[]") in SLUGS and len(command) == 1:
            click.echo(re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", explain_errors()[name.strip("[]")]))
            return 0
        if found is None:
            raise _unknown(at, name)
        at = click.Context(found, parent=at, info_name=name)
    click.echo(at.get_help())
    return 0


def explain_errors() -> dict[str, str]:
    """Return the explanation of each error by slug, in Markdown: meaning, exit code, an example, and what to know.

    Links in it begin at docs/reference. Raises KeyError for a slug without a text.
    """
    source = resources.files("teamwright.ui.cli").joinpath("error_texts.toml").read_text("utf-8")
    texts: dict[str, dict[str, Any]] = tomllib.loads(source)
    found: dict[str, str] = {}
    for slug, row in SLUGS.items():
        text = str(texts[slug].pop("text")).strip()
        example = TeamwrightError(slug, **texts[slug]).render()
        found[slug] = f"{row.meaning} Exit code {row.exit_code}.\n\n```text\n{example}\n```\n\n{text}"
    return found


def _unknown(at: click.Context, name: str) -> UsageError:
    below = at.command.list_commands(at) if isinstance(at.command, click.Group) else []
    close = nearest(name, below if at.parent else [*below, *SLUGS])
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
