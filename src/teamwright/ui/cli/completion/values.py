"""What a word of the command line may be: one table from parameters to the words that fit.

A row is found by command and parameter, else by the parameter's name, else by what its help calls the value. Words
come from tables of ours and from names on disk; no service and no server is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import click
from click.shell_completion import CompletionItem

from teamwright.ui.cli.flags import FORMATS, MODES
from teamwright.ui.cli.table import COMMANDS

Items: TypeAlias = "list[CompletionItem[str]]"
Word: TypeAlias = "tuple[str, str]"
"""A word and what is said of it; nothing need be said."""


class Where(NamedTuple):
    """Where names are looked up, by the flags of the place that stand before the word."""

    cwd: Path
    home: Any
    words: Sequence[str]
    """All whole words before."""


Source: TypeAlias = Callable[[Where], "Iterator[Word] | list[Word]"]

FILES, DIRS = "file", "dir"
"""Words that the shell itself completes."""

SHELLS = ("bash", "zsh", "fish")


def _words(*texts: str) -> Source:
    return lambda _where: [(text, "") for text in texts]


def _teams(where: Where) -> Iterator[Word]:
    return ((team.name, "team") for team in _on_disk().teams(where.home))


def _addresses(where: Where) -> Iterator[Word]:
    for team in _on_disk().teams(where.home):
        yield from ((f"{member}@{team.name}", "") for member in team.members)


def _members(where: Where) -> Iterator[Word]:
    """Members of the team that was named, else of every team."""
    known = list(_on_disk().teams(where.home))
    named = [team for team in known if team.name in where.words]
    for team in named or known:
        yield from ((member, team.name) for member in team.members)


def _sessions(where: Where) -> list[Word]:
    return _on_disk().sessions(where.home, where.cwd)


def _requests(where: Where) -> Iterator[Word]:
    return _on_disk().requests(where.home)


def _lists(where: Where) -> Iterator[Word]:
    return ((name, "task list") for name in _on_disk().lists(where.home))


def _settings(_where: Where) -> list[Word]:
    return _tables().setting_words()


def _both(first: Source, second: Source) -> Source:
    return lambda where: chain(first(where), second(where))


def _on_disk() -> Any:
    from teamwright.app.looking import names

    return names


def _tables() -> Any:
    from teamwright.app.looking import words

    return words


BY_COMMAND: dict[tuple[str, str], Source] = {
    ("teams show", "name"): _teams,
    ("teams rm", "name"): _teams,
    ("sessions rm", "name"): _sessions,
    ("teams adopt", "name"): _teams,
    ("tasks", "team"): _both(_teams, _lists),
    ("requests allow", "id"): _requests,
    ("requests deny", "id"): _requests,
    ("agents show", "name"): lambda where: _tables().kind_words(where.home, where.cwd),
    ("models", "provider"): lambda where: _tables().provider_words(where.home),
    ("permissions check", "member"): _both(_teams, _addresses),
    ("completion", "shell"): _words(*SHELLS),
    ("config get", "key"): _settings,
    ("config set", "key"): _settings,
    ("config set", "value"): lambda where: _tables().value_words(where.home, where.words[-1]),
    ("config unset", "key"): _settings,
}
BY_NAME: dict[str, Source] = {
    "model": lambda where: _tables().model_words(where.home),
    "effort": lambda _where: _tables().effort_words(),
    "permission_mode": _words(*MODES),
    "mode": _words(*MODES),
    "plan_approval": _words("lead", "human", "auto"),
    "backend": lambda where: _tables().backend_words(where.home),
    "task_list": _lists,
    "resume": _both(_teams, _sessions),
    "member": _members,
    "output_format": _words(*FORMATS),
    "always": _words("session", "local", "project", "user"),
}
BY_VALUE: dict[str, Source] = {
    "TEAM": _teams,
    "NAME@TEAM": _addresses,
    "TEAM or NAME@TEAM": _both(_teams, _addresses),
    "TEAM or SESSION": _both(_teams, _sessions),
    "SESSION or TEAM": _both(_teams, _sessions),
}
SHELL_VALUES = {"DIR": DIRS, "FILE": FILES, "PATH": FILES}
"""What values are called that the shell completes itself."""


def offer(ctx: click.Context, param: click.Parameter, incomplete: str) -> Items:
    """What may stand in the place of a parameter: the words that begin so."""
    value = (param.metavar or "").strip("[]")
    if value in SHELL_VALUES:
        return [CompletionItem(incomplete, type=SHELL_VALUES[value])]
    path = ctx.command_path.partition(" ")[2]
    kind: object = param.type
    choices = cast("click.Choice[str]", kind).choices if isinstance(kind, click.Choice) else ()
    row = BY_COMMAND.get((path, param.name or "")) or BY_NAME.get(param.name or "") or BY_VALUE.get(value)
    source = _words(*map(str, choices)) if choices else row
    if source is None:
        return [CompletionItem(incomplete, type=FILES)] if value == "JSON" else []
    words = dict[str, str]()
    for word, about in source(_where(ctx)):
        if word.startswith(incomplete) and word.isprintable():
            words.setdefault(word, about if about.isprintable() else "")
    return [CompletionItem(word, help=about or None) for word, about in words.items()]


def _where(ctx: click.Context) -> Where:
    said: dict[str, Any] = {}
    at: click.Context | None = ctx
    while at is not None:
        said = {**{name: value for name, value in at.params.items() if value}, **said}
        at = at.parent
    cwd = Path(os.path.normpath(Path.cwd() / os.path.expanduser(str(said.get("cwd") or ""))))
    home = said.get("home")
    return Where(cwd, _tables().home_named(str(home) if home else None), cast("Sequence[str]", ctx.obj or ()))


def command_words(incomplete: str) -> Items:
    """The commands that begin so, with their lines of help."""
    return [CompletionItem(name, help=row.help) for name, row in COMMANDS.items() if name.startswith(incomplete)]
