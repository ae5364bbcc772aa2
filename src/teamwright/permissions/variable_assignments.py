"""Variables that a line sets, and those of them that may change a program's behaviour.

Depends on the names that `shell_lines` found in the line. The verdict is in `shell_verdict`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from teamwright.shell_lines.command_words import Words, word_set
from teamwright.shell_lines.expansion import is_locale
from teamwright.shell_lines.grammar import DECLARING_BUILTINS
from teamwright.shell_lines.parsed_line import ParsedLine, ShellCommand

HARMLESS_VARIABLES = word_set(
    "LANG TZ TERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE CARGO_TERM_COLOR PY_COLORS CI DEBUG"
    " VERBOSE NODE_ENV RUST_BACKTRACE RUST_LOG PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED PYTHONHASHSEED PYTHONUTF8"
    " GIT_OPTIONAL_LOCKS GIT_TERMINAL_PROMPT DEBIAN_FRONTEND"
)
"""Variables that make no program read, write or run anything, with a plain value. `LC_*` belongs to them."""

_READABLE = HARMLESS_VARIABLES | word_set("HOME PWD OLDPWD USER LOGNAME SHELL HOSTNAME PATH RANDOM SECONDS _")
"""Variables whose values are no secrets."""

_SCRIPT_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_READ_BY_PROGRAMS = re.compile(
    r".*_proxy|(npm|pnpm|yarn|pip|rvm|fish|zsh|bash|ac_cv|am_cv|lt_cv)_.*"
    # zsh has PATH in `path`, and bash's history signs are in `histchars`.
    r"|(f|cd|man|mail)?path|module_path|fignore|psvar|watch|argv|histchars"
)
"""Names in lower case that a program or a shell reads from the environment."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SET_BY_WORDS = word_set("read mapfile readarray getopts export declare typeset local readonly coproc")
COUNTS = re.compile(r"%[^a-zA-Z%]*[hlLqjzt]*n")
"""A conversion of printf that sets the variable named by an argument."""

_SET_BY_OPTION = {"printf": "v", "wait": "p"}
_UNKNOWN = "a variable that only the shell will know"


def changing_variable(parsed: ParsedLine) -> str:
    """Return the first variable that the line sets and that may change a program's behaviour, else an empty text.

    A variable that programs receive must be on the list of harmless ones. Programs see a variable of the script only if
    the environment already has its name, so names that no program reads are harmless too.
    """
    for name in _exported(parsed):
        if not _is_harmless(name, parsed):
            return name
    for name in parsed.variables_set:
        if not (_is_harmless(name, parsed) or is_script_variable(name)):
            return name
    for command in parsed.commands:
        declares = command.name in DECLARING_BUILTINS
        for name in _set_by_words(command.words):
            if not (is_script_variable(name) or (declares and _is_harmless(name, parsed))):
                return name
    return ""


def prints_secret(parsed: ParsedLine) -> bool:
    """Return True when the line would print a variable of the environment that may have a secret."""
    return not parsed.variables_read <= _READABLE


def prints_environment(parsed: ParsedLine) -> bool:
    """Return True like `prints_secret`, but not for variables of scripts that `read` of the line sets."""
    named = {word for command in parsed.commands if command.name == "read" for word in command.words[1:]}
    own = {word for word in named if word is not None and is_script_variable(word)}
    return not parsed.variables_read <= _READABLE | own


def readable_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables whose values may be secrets: for a line that may print any file that the
    sandbox lets it read, also `/proc/self/environ`. Existing paths are none, and version managers need them.
    """
    return {
        name: value for name, value in env.items() if name in _READABLE or is_locale(name) or _names_paths_only(value)
    }


def _names_paths_only(value: str) -> bool:
    return value in {"", "0", "1"} or all(
        part.startswith("/") and os.path.exists(part) for part in value.split(os.pathsep)
    )


def is_script_variable(name: str) -> bool:
    """Return True when no program reads a variable of this name, although the environment may have it."""
    return _SCRIPT_NAME.fullmatch(name) is not None and _READ_BY_PROGRAMS.fullmatch(name) is None


def _is_harmless(name: str, parsed: ParsedLine) -> bool:
    return (name in HARMLESS_VARIABLES or is_locale(name)) and name not in parsed.odd_values


def _exported(parsed: ParsedLine) -> Iterator[str]:
    """Yield the names that programs of the line receive: set before a command, by `env`, or by `export`."""
    exports_all = any(map(_exports_all, parsed.commands))
    yield from parsed.variables_set if exports_all else parsed.variables_exported
    for command in parsed.commands:
        if command.variables == ("IFS",) and command.words[:1] == ("read",):
            continue  # it only separates the words that `read` gets
        yield from command.variables
        if exports_all or command.name in {"export", "declare", "typeset"}:
            yield from _set_by_words(command.words)


def _exports_all(command: ShellCommand) -> bool:
    """Return True when all later variables are exported: `set -a`, `set -o allexport`."""
    if command.name not in {"set", "shopt"}:
        return False
    return any(word is None or word == "allexport" or re.match(r"-[a-zA-Z]*a", word) for word in command.words[1:])


def _set_by_words(words: Words) -> Iterator[str]:
    """Yield the names that a builtin sets according to its words."""
    name = words[0] if words else None
    if name == "printf" and any(word and COUNTS.search(word) for word in words[1:]):
        yield _UNKNOWN
    letter = _SET_BY_OPTION.get(name or "")
    if letter is not None:
        words = _option_and_value(words, letter)
    elif name not in _SET_BY_WORDS:
        return
    for word in words[1:]:
        if word is None:
            yield _UNKNOWN
        else:
            # `read -ra NAME` and `read -raNAME`: an option may end in a name.
            yield from _names(word.partition("a")[2] if word.startswith("-") else word)


def _option_and_value(words: Words, letter: str) -> Words:
    """Return the words without those that are only printed: of `printf -v NAME FORMAT` the first three remain."""
    if words[1:2] == (None,):
        return words[:2]
    for at, word in enumerate(words):
        if at and word is not None and word.startswith("-") and letter in word:
            attached = word.partition(letter)[2]
            return (words[0], attached) if attached else (words[0], *words[at + 1 : at + 2])
    return ()


def _names(word: str) -> Iterator[str]:
    found = _NAME.match(word)
    if found is not None and (found.end() == len(word) or word[found.end()] in "=+["):
        yield found[0]
