"""The root command: a prompt, or the name of a command; whichever the first word is.

Commands load by name when they are called. Knows click, the table and the flags; what a run is, is behind `start`.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import click

from teamwright.ui.cli.command_table import ABSENT, COMMANDS
from teamwright.ui.cli.flags import HEADLESS_FLAGS, RUN_FLAGS, START_FLAGS, location_flags, to_kebab

WORDS_KEY = "teamwright.words"
"""Where the click context of the root keeps the words that are no command."""

_IS_PROMPT_KEY = "teamwright.said"
"""Where it keeps whether `--` says that the words are a prompt."""

_RULE_FLAGS = frozenset({"allowed-tools", "disallowed-tools"})
_RULE = re.compile(r"[A-Z]\w*\(.*\)|mcp__\w+|[A-Z]\w*")

HELP = """Teams of coding agents.

On a terminal, PROMPT (or nothing) begins a session. With -p, or with a prompt on stdin, the answer is printed and
the process ends. `@path` in PROMPT attaches a file; a PROMPT that is only `@path` is read from it."""


class Root(click.Group):
    """A group whose first word may be a prompt instead of a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the command's module. The flags of the place are understood behind the command as well."""
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        module, _, name = row.target.partition(":")
        command: click.Command = getattr(import_module(module), name)
        _add_location_flags(command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Flags before the first word are the root's; of a prompt also those behind it."""
        args = spread_rules(args)
        if self._names_a_command(ctx, args):
            return super().parse_args(ctx, args)
        ctx.allow_interspersed_args = True
        ctx.meta[_IS_PROMPT_KEY] = "--" in args
        words = click.Command.parse_args(self, ctx, args)
        ctx.meta[WORDS_KEY] = tuple(words)
        ctx.args = []
        return ctx.args

    def _names_a_command(self, ctx: click.Context, args: list[str]) -> bool:
        """Whether the first word names a command: with `-p`, or behind `--`, every word is a prompt."""
        flags, words, _ = self.make_parser(ctx).parse_args(args=list(args))
        if not words or words[0] not in COMMANDS or flags.get("headless"):
            return False
        at = len(args) - len(words)
        return at == 0 or args[at - 1] != "--"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands from the table: nothing is imported for them."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, row in COMMANDS.items():
            sections.setdefault(row.section, []).append((name, row.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """What may follow the program's name."""
        return ["[FLAGS]", "[PROMPT | COMMAND ...]"]


def spread_rules(args: list[str]) -> list[str]:
    """The ecosystem's `--allowedTools A 'B(c *)' D` as one flag a rule; other arguments as they are."""
    out: list[str] = []
    flag = ""
    for position, arg in enumerate(args):
        if arg == "--":
            return out + args[position:]
        takes = out[-1:] == [flag] and bool(flag)
        if arg.startswith("--") and to_kebab(arg[2:]) in _RULE_FLAGS:
            flag = arg
        elif flag and not takes:
            if not _RULE.fullmatch(arg):
                flag = ""
            else:
                out.append(flag)
        out.append(arg)
    return out


def _add_location_flags(command: click.Command) -> None:
    """Add the hidden flags of the place to a command and to the commands below it, once."""
    if not any(param.name == "home" for param in command.params):
        command.params.extend(location_flags(hidden=True))
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _add_location_flags(below)


def _require_platform() -> None:
    from teamwright.session.platform_check import require_platform

    require_platform()


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from teamwright import __version__

        click.echo(f"teamwright {__version__}")
        ctx.exit()


@click.pass_context
def _run_root(ctx: click.Context, /, **flags: Any) -> int:
    """With a command, only the flags of the place may stand before it; without one, a run begins."""
    if ctx.invoked_subcommand is not None:
        given = next((name for name, value in flags.items() if value not in (None, False, ())), None)
        if given is not None:
            flag = next(p.opts[-1] for p in ctx.command.params if p.name == given)
            raise click.UsageError(f"{flag} is before {ctx.invoked_subcommand}, where it has no meaning.", ctx)
        _require_platform()
        return 0
    _require_platform()
    from teamwright.ui.cli.start import start

    words: tuple[str, ...] = ctx.meta.get(WORDS_KEY, ())
    if len(words) == 1 and not flags.get("headless") and not ctx.meta.get(_IS_PROMPT_KEY):
        _refuse_misspelling(words[0])
    return start(ctx, words, flags)


def _refuse_misspelling(word: str) -> None:
    """Raise UsageError for a word that a person means as a command: as a prompt it would begin a paid session."""
    from teamwright.protocol.errors import UsageError
    from teamwright.protocol.ids import is_typo

    meant = next((name for name in COMMANDS if is_typo(word, name)), None)
    absent = ABSENT.get(word.lower())
    if meant is None and absent is None:
        return
    why, instead = absent or (f"{word!r} is no command, and very like one", f"teamwright {meant}")
    raise UsageError(
        "usage",
        why,
        do=[instead, f"teamwright -- {word}   (to send the word to the model)"],
        note="nothing was started",
    )


root = Root(
    "teamwright",
    callback=_run_root,
    params=[
        *RUN_FLAGS,
        *HEADLESS_FLAGS,
        *START_FLAGS,
        *location_flags(),
        click.Option(
            ["-V", "--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Show the version.",
        ),
    ],
    help=HELP,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "token_normalize_func": to_kebab,
        "max_content_width": 80,
        "allow_interspersed_args": False,
    },
)
"""`teamwright`."""
