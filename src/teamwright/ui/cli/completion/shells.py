"""How each shell asks and is answered: click's classes for a shell, over the commands as data.

The script of a shell hands over the line up to the cursor; the answer is a word a line, with its kind before it and,
where the shell shows it, what is said of it behind it. Whatever goes wrong, nothing is printed. Knows `shape` and
`values`.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from teamwright.ui.cli.completion.shape import Offer, Shape, command_of, read_shapes
from teamwright.ui.cli.completion.values import command_words, offer
from teamwright.ui.cli.flags import kebab
from teamwright.ui.cli.root import WORDS_KEY, Root

PROGRAM = "teamwright"

SHELL, LINE, WORD = "_TEAMWRIGHT_COMPLETE", "_TEAMWRIGHT_LINE", "_TEAMWRIGHT_WORD"
"""Variables of a question: the shell, the line up to the cursor, and for bash the part that it will replace."""


class Parsing(Root):
    """The root over commands that only parse."""

    def __init__(self, shapes: dict[str, Shape], offer: Offer) -> None:
        self._shapes, self._offer = shapes, offer
        made = command_of(PROGRAM, shapes[PROGRAM], offer)
        settings = {**made.context_settings, "allow_interspersed_args": False}
        super().__init__(PROGRAM, params=made.params, invoke_without_command=True, context_settings=settings)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command's shape; a real one only where no shape was written."""
        shape = self._shapes.get(cmd_name)
        if shape is None:
            return super().get_command(ctx, cmd_name)
        return command_of(cmd_name, shape, self._offer, more=_place())

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Flags behind a dash; else commands, where no prompt was begun."""
        if incomplete[:1] == "-":
            return click.Command.shell_complete(self, ctx, incomplete)
        prompt = ctx.meta.get(WORDS_KEY) or ctx.params.get("headless")
        return [] if prompt else command_words(incomplete)


def _place() -> tuple[click.Option, ...]:
    """Where to look for names, understood behind a command too."""
    rows = (["cwd", "-C"], ["home", "--home"], ["settings", "--settings"])
    return (*(click.Option(row, hidden=True, shell_complete=offer, metavar=_CALLED[row[0]]) for row in rows), _DEBUG)


_CALLED = {"cwd": "DIR", "home": "DIR", "settings": "FILE"}
_DEBUG = click.Option(["--debug"], is_flag=True, hidden=True)


class _Shell(ShellComplete):
    """What the shells have in common. `source` is the file beside this one."""

    source_template: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__(Parsing(read_shapes(), offer), {}, PROGRAM, SHELL)

    def source(self) -> str:
        """The script for the shell."""
        return script(self.name)

    def get_completion_args(self) -> tuple[list[str], str]:
        """The whole words before the cursor and the one that is being typed."""
        line = os.environ.get(LINE, "")
        words = split_arg_string(line)
        complete = not line or (line[-1].isspace() and not line.endswith("\\ ") and not _quoted(line))
        last = "" if complete or len(words) < 2 else words.pop()
        return [_plain(word) for word in words[1:]], last

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """The words that fit, in the spelling that was begun."""
        self.ctx_args["obj"] = args
        name, equals, value = incomplete.partition("=")
        if equals and name.startswith("--"):
            found = super().get_completions([*args, kebab(name)], value)
            return [_with(item, f"{name}={item.value}") for item in found]
        found = super().get_completions(args, _plain(incomplete))
        if incomplete.startswith("--") and _plain(incomplete) != incomplete:
            return [_with(item, _camel(item.value)) for item in found]
        return found

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """A line: the kind, the word, what is said of it."""
        kind = "open" if item.type == "plain" and item.value.endswith("/") else "word" if item.type == "plain" else ""
        return "\t".join([kind or item.type, item.value, *([item.help] if item.help else [])])


class Bash(_Shell):
    """bash replaces only what stands behind its own word breaks (`=`, `:`, `@`); it shows nothing beside a word."""

    name = "bash"

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """A line with the part of the word that bash will put into the line."""
        typed, rest = self.get_completion_args()[1], os.environ.get(WORD, "")
        kept = len(typed) - len(rest) if typed.endswith(rest) else 0
        if item.type == "plain" and not _quoted(os.environ.get(LINE, "")):
            return super().format_completion(CompletionItem(_SPECIAL.sub(r"\\\g<0>", item.value[kept:])))
        return super().format_completion(CompletionItem(item.value[kept:] if item.type == "plain" else "", item.type))


class Zsh(_Shell):
    """zsh quotes by itself, and shows what is said of a word."""

    name = "zsh"


class Fish(_Shell):
    """fish does so too."""

    name = "fish"


SHELLS: dict[str, type[_Shell]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


_SPECIAL = re.compile(r"[^\w@%+=:,./~-]")
"""What bash would take for something else than itself."""


def script(shell: str) -> str:
    """The script for a shell, to be read by it."""
    return Path(__file__).with_name(f"script.{shell}").read_text("utf-8")


def answer(shell: str) -> int:
    """Print the words that fit. Always 0, and nothing at all when something is wrong."""
    try:
        text = SHELLS[shell]().complete()
        sys.stdout.write(text + "\n" if text else "")
        sys.stdout.flush()
    except (Exception, SystemExit):
        return 0
    return 0


def _with(item: CompletionItem[str], value: str) -> CompletionItem[str]:
    return CompletionItem(value, item.type, item.help) if item.type == "plain" else item


def _plain(word: str) -> str:
    """A long flag in the spelling of our own."""
    name, equals, value = word.partition("=")
    return kebab(name) + equals + value if word.startswith("--") else word


def _camel(flag: str) -> str:
    first, *others = flag.removeprefix("--").split("-")
    return "--" + first + "".join(part.capitalize() for part in others)


def _quoted(line: str) -> bool:
    """Whether the line ends inside quotes."""
    quote = ""
    for place, char in enumerate(line):
        if char in "'\"" and quote in ("", char) and (place == 0 or line[place - 1] != "\\" or quote == "'"):
            quote = "" if quote else char
    return bool(quote)
