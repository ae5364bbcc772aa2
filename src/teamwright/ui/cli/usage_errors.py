"""Usage errors for command lines that click rejects, with the nearest valid name."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click
from click.exceptions import NoSuchOption

from teamwright.protocol.errors import UsageError
from teamwright.protocol.ids import nearest
from teamwright.ui.claude_code_equivalents import absent_command, absent_flag
from teamwright.ui.cli.command_table import COMMANDS

_NEWEST_FLAGS = {("teamwright resume", "-c"), ("teamwright resume", "--continue")}
"""Flags for the newest session that users give to `resume`, where they are not needed."""


def usage_error(problem: click.ClickException) -> UsageError:
    """Return the error for a command line that click rejected."""
    ctx = problem.ctx if isinstance(problem, click.UsageError) else None
    command = ctx.command_path if ctx is not None else "teamwright"
    looked_at: list[tuple[str, str]] = []
    if isinstance(problem, NoSuchOption):
        what = f"unknown option {problem.option_name!r}"
        if (command, problem.option_name) in _NEWEST_FLAGS:
            return UsageError("usage", what, do=['teamwright -c [-p] "…"'], note="nothing was started")
        if (equivalent := absent_flag(problem.option_name)) is not None:
            do = [equivalent.here] if equivalent.here else [f"{command} --help"]
            return UsageError("usage", what, looked_at=[("here", equivalent.about)], do=do, note="nothing was started")
        if (close := nearest_flag(problem.option_name, _flags(ctx))) is not None:
            what += f". Did you mean {close!r}?"
    else:
        what = _sentence(problem.format_message())
        if subcommand := _nearest_subcommand(ctx, what):
            what = what.partition(". ")[0]
            command = f"{command} {subcommand}"
            looked_at = [("nearest", subcommand)]
    return UsageError("usage", what, looked_at=looked_at, do=[f"{command} --help"], note="nothing was started")


def too_many_words(words: tuple[str, ...], command: str = "") -> UsageError:
    """Return the error for several words where one prompt was expected: a prompt without quotes, or a misspelt command.

    `command` is the command before the prompt, when the first word cannot be one.
    """
    quoted = " ".join(words).replace('"', "'")
    if not command and (absent := absent_command(words[0])) is not None:
        return UsageError(
            "usage", absent.about, do=[absent.here, f'teamwright "{quoted[:200]}"'], note="nothing was started"
        )
    close = None if command else nearest_command(words[0])
    return UsageError(
        "usage",
        f"{'' if command else f'{words[0]!r} is not a command, and '}a prompt is one argument: put it in quotes",
        looked_at=[("nearest", close)] if close else [],
        do=[
            *([f"teamwright {close} {' '.join(words[1:])}"] if close else []),
            f'{command or "teamwright"} "{quoted[:200]}"',
        ],
        note="nothing was started",
    )


RISKY_FLAGS = frozenset(
    {
        "--allow-dangerously-skip-permissions",
        "--dangerously-skip-permissions",
        "--finished",
        "--force",
        "--no-session-persistence",
        "--now",
        "--remove",
        "--trust",
        "--yes",
    }
)
"""Flags that skip a question, widen permissions, or end or remove something: a typo never suggests them."""


def nearest_flag(flag: str, known: Iterable[str]) -> str | None:
    """Return the known flag that a misspelt one may mean; never a flag that skips a question or ends work."""
    import difflib

    names = [name[2:] for name in known if name.startswith("--")]
    close = difflib.get_close_matches(flag.lstrip("-").lower(), names, n=1, cutoff=0.6)
    return next((f"--{name}" for name in close if f"--{name}" not in RISKY_FLAGS), None)


def nearest_command(word: str) -> str | None:
    """Return the command that a misspelt word may mean."""
    return nearest(word, COMMANDS)


_NO_COMMAND = re.compile(r"no such command '(.*?)'(?:\. Did you mean .*)?$")

_SAME_SUBCOMMANDS = (
    ("add", "install"),
    ("remove", "rm", "delete", "uninstall", "purge"),
    ("list", "ls"),
    ("show", "get"),
)
"""Names that similar programs have for the same subcommand."""


def _nearest_subcommand(ctx: click.Context | None, what: str) -> str | None:
    """Return the subcommand that an unknown one may mean: a word for the same thing, or the nearest name."""
    found = _NO_COMMAND.match(what)
    if found is None or ctx is None or not isinstance(ctx.command, click.Group):
        return None
    names = ctx.command.list_commands(ctx)
    same = next((group for group in _SAME_SUBCOMMANDS if found[1] in group), ())
    return next((name for name in names if name in same), None) or nearest(found[1], names)


def _flags(ctx: click.Context | None) -> list[str]:
    params = ctx.command.get_params(ctx) if ctx is not None else []
    return [name for param in params if not getattr(param, "hidden", False) for name in param.opts]


_INTEGER = re.compile(r"('.*') is not a valid integer(?: range)?$")
_RANGE = re.compile(r"(\S+) is not in the range x>=(\d+)$")


def _sentence(message: str) -> str:
    line = _INTEGER.sub(r"\1 is not a whole number", " ".join(message.split()).rstrip("."))
    line = _RANGE.sub(r"\1 is less than \2", line)
    return line[:1].lower() + line[1:] if line[:2].istitle() else line
