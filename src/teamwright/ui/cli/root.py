"""The root command: its first word is the name of a command or starts a prompt.

Modules of commands load when they are called. Depends on click, the table of commands and the flags; `start` starts
runs.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any

import click

from teamwright.ui.cli.command_examples import example_lines
from teamwright.ui.cli.command_table import CHANGING, COMMANDS
from teamwright.ui.cli.flags import HEADLESS_FLAGS, RUN_FLAGS, START_FLAGS, location_flags, to_kebab

WORDS_KEY = "teamwright.words"
"""The key of the root's click context under which the words of a prompt are kept."""

_IS_PROMPT_KEY = "teamwright.said"
"""The key under which True is kept when `--` marks the words as a prompt."""

_RULE_FLAGS = frozenset({"allowed-tools", "disallowed-tools", "tools"})
_RULE = re.compile(r"[A-Z]\w*\(.*\)|mcp__\w+|[A-Z]\w*")

HELP = """Teams of coding agents.

On a terminal, PROMPT (or nothing) begins a session. With -p, or with a prompt on stdin, the answer is printed and
the process ends. `@path` in PROMPT attaches a file; a PROMPT that is only `@path` is read from it."""


class Root(click.Group):
    """A group whose first word may be a prompt instead of a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command's module. The location flags are accepted after the command too."""
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        module, _, name = row.target.partition(":")
        command: click.Command = getattr(import_module(module), name)
        _add_location_flags(command)
        # A backspace before a paragraph tells click not to wrap it.
        command.epilog = "\n".join(("\b", "Examples:", *example_lines(cmd_name)))
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the flags before the first word for the root; before a prompt, also those after it."""
        args = join_debug_categories(spread_directories(spread_rules(args)))
        if self._names_a_command(ctx, args):
            return super().parse_args(ctx, args)
        ctx.allow_interspersed_args = True
        ctx.meta[_IS_PROMPT_KEY] = "--" in args
        first = args[0] if args else ""
        try:
            words = click.Command.parse_args(self, ctx, args)
        except click.NoSuchOption:
            from teamwright.ui.claude_code_equivalents import absent_command

            if absent_command(first) is not None:  # with a flag of that command
                _refuse_misspelling(first)
            raise
        ctx.meta[WORDS_KEY] = tuple(words)
        ctx.args = []
        return ctx.args

    def _names_a_command(self, ctx: click.Context, args: list[str]) -> bool:
        """Return True when the first word is a command. With `-p` and after `--` every word belongs to the prompt."""
        flags, words, _ = self.make_parser(ctx).parse_args(args=list(args))
        if not words or words[0] not in COMMANDS or flags.get("headless"):
            return False
        at = len(args) - len(words)
        return at == 0 or args[at - 1] != "--"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands of the table in the help, without importing them."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, row in COMMANDS.items():
            sections.setdefault(row.section, []).append((name, row.help))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the arguments for the usage line."""
        return ["[FLAGS]", "[PROMPT | COMMAND ...]"]


def spread_rules(args: list[str]) -> list[str]:
    """Convert `--allowedTools A 'B(c *)' D` of similar programs to one flag for each rule; keep other arguments."""
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


def spread_directories(args: list[str]) -> list[str]:
    """Convert `--add-dir A B` of similar programs to one flag for each directory that exists; keep other arguments."""
    out: list[str] = []
    base, flag = "", ""
    for position, arg in enumerate(args):
        if arg == "--":
            return out + args[position:]
        before = args[position - 1] if position else ""
        if before == "-C":
            base = os.path.expanduser(arg)
        if arg.startswith("-"):
            flag = arg if to_kebab(arg.removeprefix("--")) == "add-dir" else ""
        elif flag and before != flag:
            flag = flag if os.path.isdir(os.path.join(base, os.path.expanduser(arg))) else ""
            out += [flag] if flag else []
        out.append(arg)
    return out


def join_debug_categories(args: list[str]) -> list[str]:
    """Convert `--debug model,mcp` to one argument. Any other word after the flag is a command or a prompt."""
    if "--debug" not in args:
        return args
    from teamwright.protocol.program_log import ALL, CATEGORIES  # loaded only for this flag

    bare = f"--debug={ALL}"
    out: list[str] = []
    for position, arg in enumerate(args):
        if arg == "--":
            return out + args[position:]
        names = {name.strip() for name in arg.split(",")}
        if position and args[position - 1] == "--debug" and names & {ALL, *CATEGORIES}:
            out[-1] = f"--debug={arg}"
        else:
            out.append(bare if arg == "--debug" else arg)
    return out


def _add_location_flags(command: click.Command) -> None:
    """Add the hidden location flags to a command and its subcommands, once."""
    if not any(param.name == "home" for param in command.params):
        command.params.extend(location_flags(hidden=True))
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _add_location_flags(below)


def _require_platform() -> None:
    from teamwright.session.command_start import require_platform

    require_platform()


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from teamwright import __version__

        click.echo(f"teamwright {__version__}")
        ctx.exit()


@click.pass_context
def _run_root(ctx: click.Context, /, **flags: Any) -> int:
    """Start a run when there is no command. Before a command only location flags are allowed."""
    if ctx.invoked_subcommand is not None:
        parameter = next((name for name, value in flags.items() if value not in (None, False, ())), None)
        if parameter is not None:
            flag = next(p.opts[-1] for p in ctx.command.params if p.name == parameter)
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
    """Raise UsageError for a misspelt command, which would start a paid session as a prompt."""
    from teamwright.protocol.errors import UsageError
    from teamwright.protocol.ids import is_typo
    from teamwright.ui.claude_code_equivalents import absent_command

    command = next((name for name in COMMANDS if is_typo(word, name)), None)
    absent = absent_command(word)
    if command is None and absent is None:
        return
    if absent is not None:
        why = absent.about
        instead = absent.here
    else:
        why = f"unknown command {word!r}. Did you mean {command!r}?"
        instead = f"teamwright help {command}" if command in CHANGING else f"teamwright {command}"
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
            ["-v", "-V", "--version"],
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
"""The command `teamwright`."""
