"""Completion for bash, zsh and fish: click's completion classes over commands that only parse.

The script of the shell passes the line up to the cursor. The output has one word a line, after its type and, where the
shell shows it, before its description. After an error nothing is printed. The commands are built from
`command_shape.json`, so that a Tab loads none of the real ones; `make generated` writes it, and a test compares.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from teamwright.ui.cli.command_table import COMMANDS
from teamwright.ui.cli.flags import FORMATS, PERMISSION_MODES, to_kebab
from teamwright.ui.cli.root import WORDS_KEY, Root

PROGRAM = "teamwright"
SHELL_NAMES = ("bash", "zsh", "fish")

SHELL_VARIABLE = "_TEAMWRIGHT_COMPLETE"
"""The variable of a completion request with the shell."""

LINE_VARIABLE = "_TEAMWRIGHT_LINE"
"""The variable with the line up to the cursor."""

WORD_VARIABLE = "_TEAMWRIGHT_WORD"
"""The variable with the part of the line that bash replaces."""


@click.command()
@click.argument("shell", type=click.Choice(SHELL_NAMES), metavar="SHELL")
def completion(shell: str) -> int:
    """Print the completion script for bash, zsh or fish. A line in the shell's startup file loads it."""
    sys.stdout.write(shell_script(shell))
    return 0


def shell_script(shell: str) -> str:
    """Return the completion script for a shell."""
    return Path(__file__).with_name(f"script.{shell}").read_text("utf-8")


def print_completions(shell: str) -> int:
    """Print the matching words. Returns 0 always, and prints nothing after an error."""
    try:
        text = SHELLS[shell]().complete()
        sys.stdout.write(text + "\n" if text else "")
        sys.stdout.flush()
    except (Exception, SystemExit):
        return 0
    return 0


# ── shells ─────────────────────────────────────────────────────────────────────────────────────────────────────


class _Shell(ShellComplete):
    """The parts that all shells share. `source` is a file in this package."""

    source_template: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__(ParsingRoot(read_shapes(), complete_value), {}, PROGRAM, SHELL_VARIABLE)

    def source(self) -> str:
        """Return the script for the shell."""
        return shell_script(self.name)

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the whole words before the cursor and the word that is being typed."""
        line = os.environ.get(LINE_VARIABLE, "")
        words = split_arg_string(line)
        complete = not line or (line[-1].isspace() and not line.endswith("\\ ") and not _is_inside_quotes(line))
        last = "" if complete or len(words) < 2 else words.pop()
        return [_to_kebab_flag(word) for word in words[1:]], last

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return the matching words, in the spelling that the user started."""
        self.ctx_args["obj"] = args
        name, equals, value = incomplete.partition("=")
        if equals and name.startswith("--"):
            found = super().get_completions([*args, to_kebab(name)], value)
            return [_replace_value(item, f"{name}={item.value}") for item in found]
        found = super().get_completions(args, _to_kebab_flag(incomplete))
        if incomplete.startswith("--") and _to_kebab_flag(incomplete) != incomplete:
            return [_replace_value(item, _to_camel_flag(item.value)) for item in found]
        return found

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return a line: the type, the word, its description."""
        kind = "open" if item.type == "plain" and item.value.endswith("/") else "word" if item.type == "plain" else ""
        return "\t".join([kind or item.type, item.value, *([item.help] if item.help else [])])


class BashCompletion(_Shell):
    """Completion for bash, which replaces only the text after its word breaks (`=`, `:`, `@`) and shows no
    descriptions.
    """

    name = "bash"

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return a line with the part of the word that bash inserts."""
        typed = self.get_completion_args()[1]
        rest = os.environ.get(WORD_VARIABLE, "")
        prefix_length = len(typed) - len(rest) if typed.endswith(rest) else 0
        if item.type == "plain" and not _is_inside_quotes(os.environ.get(LINE_VARIABLE, "")):
            return super().format_completion(CompletionItem(_BASH_SPECIAL.sub(r"\\\g<0>", item.value[prefix_length:])))
        return super().format_completion(
            CompletionItem(item.value[prefix_length:] if item.type == "plain" else "", item.type)
        )


_BASH_SPECIAL = re.compile(r"[^\w@%+=:,./~-]")
"""Characters that bash does not take literally."""


class ZshCompletion(_Shell):
    """Completion for zsh, which quotes words and shows descriptions."""

    name = "zsh"


class FishCompletion(_Shell):
    """Completion for fish, which quotes words and shows descriptions."""

    name = "fish"


SHELLS: dict[str, type[_Shell]] = {"bash": BashCompletion, "zsh": ZshCompletion, "fish": FishCompletion}


def _replace_value(item: CompletionItem[str], value: str) -> CompletionItem[str]:
    return CompletionItem(value, item.type, item.help) if item.type == "plain" else item


def _to_kebab_flag(word: str) -> str:
    """Return a long flag in kebab-case."""
    name, equals, value = word.partition("=")
    return to_kebab(name) + equals + value if word.startswith("--") else word


def _to_camel_flag(flag: str) -> str:
    first, *others = flag.removeprefix("--").split("-")
    return "--" + first + "".join(part.capitalize() for part in others)


def _is_inside_quotes(line: str) -> bool:
    """Return True when the line ends inside quotes."""
    quote = ""
    for place, char in enumerate(line):
        if char in "'\"" and quote in ("", char) and (place == 0 or line[place - 1] != "\\" or quote == "'"):
            quote = "" if quote else char
    return bool(quote)


# ── commands that only parse ───────────────────────────────────────────────────────────────────────────────────


class ParsingRoot(Root):
    """The root command over commands that only parse."""

    def __init__(self, shapes: dict[str, Shape], complete: Complete) -> None:
        self._shapes = shapes
        self._complete = complete
        command = build_command(PROGRAM, shapes[PROGRAM], complete)
        settings = {**command.context_settings, "allow_interspersed_args": False}
        super().__init__(PROGRAM, params=command.params, invoke_without_command=True, context_settings=settings)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command built from its shape; the real command only when the shape is missing."""
        shape = self._shapes.get(cmd_name)
        if shape is None:
            return super().get_command(ctx, cmd_name)
        return build_command(cmd_name, shape, self._complete, hidden_options=_location_options())

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return flags after a dash; otherwise commands, unless a prompt has started."""
        if incomplete[:1] == "-":
            return click.Command.shell_complete(self, ctx, incomplete)
        prompt = ctx.meta.get(WORDS_KEY) or ctx.params.get("headless")
        return [] if prompt else complete_command(incomplete)


def _location_options() -> tuple[click.Option, ...]:
    """Return the options for the location, which are accepted after a command too."""
    rows = ((["cwd", "-C"], "DIR"), (["home", "--home"], "DIR"), (["settings", "--settings"], "FILE"))
    named = (
        click.Option(names, hidden=True, shell_complete=complete_value, metavar=metavar) for names, metavar in rows
    )
    return (*named, click.Option(["--debug"], is_flag=False, flag_value="all", hidden=True))


Shape: TypeAlias = dict[str, Any]

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], "list[Any]"]
"""The function that returns completions for a parameter, with the arguments that click passes."""

SHAPE_FILE = Path(__file__).with_name("command_shape.json")


def command_shape(command: click.Command) -> Shape:
    """Return a command as plain data: its parameters and its subcommands (none for the root)."""
    shape: Shape = {"params": [_param_shape(param) for param in command.params if not _is_hidden(param)]}
    if isinstance(command, click.Group) and not isinstance(command, Root):
        shape["below"] = {name: command_shape(one) for name, one in command.commands.items()}
    if command.help and not isinstance(command, Root):
        shape["help"] = command.get_short_help_str(limit=70)
    return shape


def _is_hidden(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and param.hidden


def _param_shape(param: click.Parameter) -> Shape:
    shape: Shape = {"name": param.name, "names": list(param.opts)}
    if isinstance(param, click.Option):
        flag = param.is_flag or param.count
        known: Shape = {"flag": bool(flag), "multiple": param.multiple, "help": (param.help or "").partition("\n")[0]}
        known["bare"] = bool(getattr(param, "_flag_needs_value", False))
    else:
        known = {"argument": True, "nargs": param.nargs if param.nargs != 1 else 0}
    known |= {"metavar": param.metavar or "", "choices": _choices(param)}
    return shape | {name: value for name, value in known.items() if value}


def _choices(param: click.Parameter) -> list[str]:
    kind: object = param.type
    return [str(one) for one in cast("click.Choice[str]", kind).choices] if isinstance(kind, click.Choice) else []


def read_shapes() -> dict[str, Shape]:
    """Return the shapes of all commands by name; the root's has the name of the program."""
    return cast("dict[str, Shape]", json.loads(SHAPE_FILE.read_text("utf-8")))


def build_command(
    name: str, shape: Mapping[str, Any], complete: Complete, *, hidden_options: tuple[click.Option, ...] = ()
) -> click.Command:
    """Build a command that parses like this shape and does nothing. `hidden_options` are accepted, not suggested."""
    params = [_build_param(row, complete) for row in shape.get("params", ())]
    settings = {"help_option_names": ["-h", "--help"], "token_normalize_func": to_kebab}
    below = cast("dict[str, Shape]", shape.get("below") or {})
    short_help = shape.get("help")
    attributes: dict[str, Any] = {
        "params": [*params, *hidden_options],
        "short_help": short_help,
        "context_settings": settings,
    }
    if not below:
        return click.Command(name, **attributes)
    commands = {one: build_command(one, row, complete, hidden_options=hidden_options) for one, row in below.items()}
    return click.Group(name, commands=commands, invoke_without_command=True, **attributes)


def _build_param(row: Mapping[str, Any], complete: Complete) -> click.Parameter:
    choices: list[str] = row.get("choices") or []
    more: dict[str, Any] = {"metavar": row.get("metavar"), "shell_complete": complete}
    if choices:
        more["type"] = click.Choice(choices)
    if row.get("argument"):
        return click.Argument([row["name"]], required=False, nargs=row.get("nargs", 1), **more)
    words = [row["name"], *row["names"]]
    help_text = row.get("help")
    if row.get("flag"):
        return click.Option(words, is_flag=True, help=help_text)
    if row.get("bare"):
        more |= {"is_flag": False, "flag_value": ""}
    return click.Option(words, multiple=bool(row.get("multiple")), help=help_text, **more)


# ── words ──────────────────────────────────────────────────────────────────────────────────────────────────────

Items: TypeAlias = "list[CompletionItem[str]]"

Suggestion: TypeAlias = "tuple[str, str]"
"""A word and its description, which may be empty."""

FILES = "file"

DIRS = "dir"
"""The types of words that the shell completes itself."""

SHELL_VALUES = {"DIR": DIRS, "FILE": FILES, "PATH": FILES}
"""The types of values that the shell completes, by their metavars."""


def complete_value(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """Return the completions for a parameter: the words that start with `incomplete`."""
    value = (param.metavar or "").strip("[]")
    if value in SHELL_VALUES:
        return [CompletionItem(incomplete, type=SHELL_VALUES[value])]
    path = ctx.command_path.partition(" ")[2]
    kind: object = param.type
    choices = cast("click.Choice[str]", kind).choices if isinstance(kind, click.Choice) else ()
    row = BY_COMMAND.get((path, param.name or "")) or BY_NAME.get(param.name or "") or BY_VALUE.get(value)
    source = _fixed_words(*map(str, choices)) if choices else row
    if source is None:
        return [CompletionItem(incomplete, type=FILES)] if value == "JSON" else []
    words = dict[str, str]()
    for word, about in source(_word_context(ctx)):
        if word.startswith(incomplete) and word.isprintable():
            words.setdefault(word, about if about.isprintable() else "")
    return [CompletionItem(word, help=about or None) for word, about in words.items()]


def _word_context(ctx: click.Context) -> WordContext:
    params: dict[str, Any] = {}
    at: click.Context | None = ctx
    while at is not None:
        params = {**{name: value for name, value in at.params.items() if value}, **params}
        at = at.parent
    cwd = Path(os.path.normpath(Path.cwd() / os.path.expanduser(str(params.get("cwd") or ""))))
    home = params.get("home")
    return WordContext(
        cwd, _names_module().home_named(str(home) if home else None), cast("Sequence[str]", ctx.obj or ())
    )


def complete_command(incomplete: str) -> Items:
    """Return the commands that start with `incomplete`, with their lines of help."""
    return [CompletionItem(name, help=row.help) for name, row in COMMANDS.items() if name.startswith(incomplete)]


class WordContext(NamedTuple):
    """The location in which names are looked up, from the location flags before the word."""

    cwd: Path
    home: Any
    words: Sequence[str]
    """All whole words before the cursor."""


WordSource: TypeAlias = Callable[[WordContext], "Iterator[Suggestion] | list[Suggestion]"]


def _fixed_words(*texts: str) -> WordSource:
    return lambda _where: [(text, "") for text in texts]


def _teams(context: WordContext) -> Iterator[Suggestion]:
    return ((team.name, "team") for team in _names_module().teams(context.home))


def _addresses(context: WordContext) -> Iterator[Suggestion]:
    for team in _names_module().teams(context.home):
        yield from ((f"{member}@{team.name}", "") for member in team.members)


def _members(context: WordContext) -> Iterator[Suggestion]:
    """Yield the members of the named team, else of every team."""
    known = list(_names_module().teams(context.home))
    named = [team for team in known if team.name in context.words]
    for team in named or known:
        yield from ((member, team.name) for member in team.members)


def _sessions(context: WordContext) -> list[Suggestion]:
    return _names_module().sessions(context.home, context.cwd)


def _requests(context: WordContext) -> Iterator[Suggestion]:
    return _names_module().requests(context.home)


def _task_lists(context: WordContext) -> Iterator[Suggestion]:
    return ((name, "task list") for name in _names_module().task_lists(context.home))


def _settings(_context: WordContext) -> list[Suggestion]:
    return _names_module().setting_names()


def _combine(first: WordSource, second: WordSource) -> WordSource:
    return lambda where: chain(first(where), second(where))


def _names_module() -> Any:
    """Return the module with the names, which only a completion of names loads."""
    from teamwright.views import completion

    return completion


BY_COMMAND: dict[tuple[str, str], WordSource] = {
    ("teams show", "name"): _teams,
    ("teams rm", "name"): _teams,
    ("sessions rm", "name"): _sessions,
    ("teams adopt", "name"): _teams,
    ("tasks", "team"): _combine(_teams, _task_lists),
    ("requests allow", "id"): _requests,
    ("requests deny", "id"): _requests,
    ("agents show", "name"): lambda where: _names_module().agent_type_names(where.home, where.cwd),
    ("models", "provider"): lambda where: _names_module().provider_names(where.home),
    ("permissions check", "member"): _combine(_teams, _addresses),
    ("completion", "shell"): _fixed_words(*SHELL_NAMES),
    ("config get", "key"): _settings,
    ("config set", "key"): _settings,
    ("config set", "value"): lambda where: _names_module().setting_values(where.home, where.words[-1]),
    ("config unset", "key"): _settings,
}

BY_NAME: dict[str, WordSource] = {
    "model": lambda where: _names_module().model_names(where.home),
    "effort": lambda _where: _names_module().effort_levels(),
    "permission_mode": _fixed_words(*PERMISSION_MODES),
    "mode": _fixed_words(*PERMISSION_MODES),
    "plan_approval": _fixed_words("lead", "human", "auto"),
    "backend": lambda where: _names_module().backend_names(where.home),
    "task_list": _task_lists,
    "resume": _combine(_teams, _sessions),
    "member": _members,
    "output_format": _fixed_words(*FORMATS),
    "always": _fixed_words("session", "local", "project", "user"),
}

BY_VALUE: dict[str, WordSource] = {
    "TEAM": _teams,
    "NAME@TEAM": _addresses,
    "TEAM or NAME@TEAM": _combine(_teams, _addresses),
    "TEAM or SESSION": _combine(_teams, _sessions),
    "SESSION or TEAM": _combine(_teams, _sessions),
}
