"""Shells and builtins that run a text of the line: `bash -c`, `eval`, `source`, `trap`, `alias` and the like."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

from msgspec import Struct

from teamwright.shell_lines.ambiguity import is_read_by_zsh_alone
from teamwright.shell_lines.command_words import Words, base_name, word_set
from teamwright.shell_lines.wrapped_commands import ANYTHING, WrappedCommands

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "mksh", "ash", "csh", "tcsh", "fish", "rbash"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_PLAIN_OPTIONS = word_set("pipefail errexit nounset xtrace verbose posix allexport noclobber monitor")
"""Options of shells by name after which a text is read as usual."""

_SU_TEXT = word_set("-c -lc --command")
_SU_PLAIN = re.compile(r"-|-l|--login|[\w.][\w.-]*")
_EVALUATING = word_set("read unset let getopts mapfile readarray compgen complete")
_EVALUATING_AFTER = {"printf": "-v", "test": "-v", "[": "-v", "wait": "-p"}
_NAMED_BY_OPTION = re.compile(r"-(?:v|[fn]*p)(.*)", re.DOTALL)
"""An option of `printf` or `wait` whose value is a variable. The value may be joined to it."""

INTEGER_VARIABLES = word_set(
    "RANDOM SRANDOM HISTCMD OPTIND BASHPID SECONDS"
    " COLUMNS EGID ERRNO EUID FUNCNEST GID HISTSIZE KEYTIMEOUT LINES LISTMAX MAILCHECK SAVEHIST SHLVL UID"
    " TRY_BLOCK_ERROR TRY_BLOCK_INTERRUPT ZLE_RPROMPT_INDENT"
)
"""Variables that evaluate the values they get: of bash (`declare -i -p`, and SECONDS in a loop), and of zsh."""

_SUBSCRIPT = re.compile(r"(?:-[A-Za-z]+)?[A-Za-z_]\w*\[(?!(?:\d+|[@*])\]$)")
_INTEGER_NAME = re.compile(rf"(?:-[A-Za-z]*?)?(?:{'|'.join(sorted(INTEGER_VARIABLES))})(?![A-Za-z0-9_])")

RUN_BY_PROGRAMS = re.compile(
    r"(PAGER|EDITOR|VISUAL|COMMAND|SSH|ASKPASS|DIFF|BROWSER|LESSOPEN|LESSCLOSE|BASH_ENV|ENV|PS[0-4]|RSH|WRAPPER"
    r"|(^|_)(CC|CXX)|GIT_CONFIG_VALUE_\d+)$"
)
"""Variables whose values programs run as commands."""

READ_BY_SHELLS = word_set("BASH_ENV ENV HISTFILE")
"""Variables whose values are files that a shell reads, and runs or prints."""

_STANDARD_INPUT = re.compile(r"-|/dev/(stdin|fd/.*)|/proc/.*/fd/.*")


def evaluated_names(words: Words) -> Words:
    """Return the words that a builtin evaluates as names of variables: `read 'a[$(date)]'` runs date."""
    name = words[0] if words else None
    if name in _EVALUATING:
        return words[1:]
    sign = _EVALUATING_AFTER.get(name or "")
    named = tuple(word for before, word in pairwise(words) if sign and before == sign)
    return named + _named_by_option(words) if name in {"printf", "wait"} else named


def _named_by_option(words: Words) -> Words:
    """Return the variable of `printf -vNAME` and of `wait -np NAME`. The first operand ends the options."""
    for at, word in enumerate(words[1:], 1):
        found = _NAMED_BY_OPTION.fullmatch(word or "")
        if found is not None:
            return (found[1],) if found[1] else words[at + 1 : at + 2]
        if word is not None and not word.startswith("-"):
            break
    return ()


def evaluates_values(words: Words) -> bool:
    """Return True for a builtin that evaluates the values of variables: `let x`, `read 'list[x]'`, `read RANDOM`."""
    return words[:1] == ("let",) or any(
        _SUBSCRIPT.match(word) or _INTEGER_NAME.match(word) for word in evaluated_names(words) if word is not None
    )


def has_subscript(word: str | None) -> bool:
    """Return True for the element of a list whose subscript bash evaluates."""
    return word is not None and _SUBSCRIPT.match(word) is not None


def unwrap_shell(words: Words) -> WrappedCommands | None:
    """Return the text of `bash -c TEXT`, or the script of `bash FILE`. Input by a pipe is not known."""
    name = base_name(words[0])
    if words[1:2] in {("--version",), ("--help",)}:
        return None
    found = _shell_options(words)
    if found is None or "s" in found.letters:
        return ANYTHING
    rest = words[found.end :]
    if "c" not in found.letters:
        return _script_file(rest)
    if not rest or rest[0] is None:
        return ANYTHING
    if name == "fish" and (words[1] != "-c" or any(word is None or word.startswith("-") for word in rest[1:])):
        return ANYTHING  # it takes several texts, and a text joined to its option
    plain = words[0] in {"bash", "sh", "dash"} and found.end == 2 and set(found.letters) <= set("ceux")
    opaque = found.changes_reading or (name == "zsh" and is_read_by_zsh_alone(rest[0]))
    return WrappedCommands(script=rest[0], clear=plain and len(rest) == 1, opaque=opaque)


class _ShellOptions(Struct, frozen=True):
    """The options of a shell: all letters, the index of the first word after them, and a doubt about the text."""

    letters: str
    end: int
    changes_reading: bool


def _shell_options(words: Words) -> _ShellOptions | None:
    """Return the options before the text or the script; None when they are not certain.

    Shells read further options after `-c`, and each `o` and `O` of a word takes one more word.
    """
    letters = ""
    at = 1
    changes = False
    while at < len(words):
        word = words[at]
        if word is None:
            return None
        if word in {"-", "--"}:
            return _ShellOptions(letters, at + 1, changes)
        if len(word) < 2 or word[0] not in "-+":
            break
        at += 1
        if word.startswith("--"):
            if "command" in word:
                return None
            at += word in {"--rcfile", "--init-file", "--emulate"}
            changes = changes or word in {"--emulate"}
            continue
        named = sum(letter in "oO" for letter in word[1:])
        if named and base_name(words[0]) in {"zsh", "ksh"} and word[-1] != "o":
            return None  # the name may be joined to the letter
        changes = changes or "O" in word or any(name not in _PLAIN_OPTIONS for name in words[at : at + named])
        letters += word[1:]
        at += named
    return _ShellOptions(letters, at, changes)


def unwrap_su(words: Words) -> WrappedCommands:
    """Return the text of `su -c TEXT [USER]` or `su [-] [USER] -c TEXT`; every other form starts a shell."""
    rest = words[1:]
    for at in (0, len(rest) - 2):
        others = (*rest[:at], *rest[at + 2 :])
        text = rest[at + 1] if len(rest) > at + 1 >= 1 else None
        if text is not None and rest[at] in _SU_TEXT and all(word and _SU_PLAIN.fullmatch(word) for word in others):
            return WrappedCommands(script=text)
    return ANYTHING


def _script_file(script: Words) -> WrappedCommands:
    """Return a script that is read from a file. The line has the text of standard input."""
    if not script or script[0] is None or script[0] == "-s" or _STANDARD_INPUT.fullmatch(script[0]):
        return ANYTHING
    return WrappedCommands(file=script)


def _source(words: Words) -> WrappedCommands | None:
    return _script_file(words[2:] if words[1:2] == ("--",) else words[1:])


def _eval(words: Words) -> WrappedCommands:
    arguments = words[2:] if words[1:2] == ("--",) else words[1:]
    texts = [word for word in arguments if word is not None]
    if len(texts) != len(arguments):
        return ANYTHING
    return WrappedCommands(script=" ".join(texts), clear=True)


def _trap(words: Words) -> WrappedCommands | None:
    arguments = words[2:] if words[1:2] == ("--",) else words[1:]
    if not arguments or arguments[0] in {"-l", "-p"}:
        return None
    return ANYTHING if arguments[0] is None else WrappedCommands(script=arguments[0])


_EVALUATES = frozenset(
    {"declare", "typeset", "local", "export", "readonly", "let", "unset", "test", "[", "printf", "read"}
)
"""Builtins that may evaluate their arguments, which is detected only for commands of the line."""


def _coproc(words: Words) -> WrappedCommands | None:
    if any(word in _EVALUATES for word in words[1:3]):
        return ANYTHING
    if len(words) > 1 and _ASSIGNMENT.match(words[1] or "="):
        return ANYTHING
    named = len(words) > 2 and words[2] in _COMPOUND  # `coproc NAME { …; }`
    return WrappedCommands((words[2:] if named else words[1:],), clear=True) if len(words) > 1 else None


def _unwrap_callback(words: Words) -> WrappedCommands | None:
    """Return the text of `mapfile -C TEXT` or `compgen -C TEXT`."""
    for at, word in enumerate(words[1:], 1):
        if word is None:
            return ANYTHING
        if word.startswith("-") and "C" in word:
            text = word.partition("C")[2] or (words[at + 1] if at + 1 < len(words) else None)
            return ANYTHING if text is None else WrappedCommands(script=text)
    return None


def _unwrap_alias(words: Words) -> WrappedCommands | None:
    """Return the command of `alias x=…`, `hash -p FILE x`, `enable -f FILE x`, `bind -x …`, `fc -s …`, `emulate …`."""
    name, arguments = words[0], words[1:]
    if name in {"emulate", "zmodload", "zpty", "sched"}:
        return WrappedCommands(opaque=True)
    if name == "alias":
        return WrappedCommands(opaque=True) if any(word is None or "=" in word for word in arguments) else None
    plain = name != "fc" and not any(word is None or (word[:1] == "-" and set(word) & set("pfx")) for word in arguments)
    return None if plain else WrappedCommands(opaque=True)


_COMPOUND = frozenset({"{", "(", "((", "[[", "if", "while", "until", "for", "case", "select"})

EVALUATING_BUILTINS: dict[str, Callable[[Words], WrappedCommands | None]] = {
    "eval": _eval,
    "trap": _trap,
    "source": _source,
    ".": _source,
    "coproc": _coproc,
    **dict.fromkeys(("mapfile", "readarray", "compgen", "complete"), _unwrap_callback),
    **dict.fromkeys(("alias", "hash", "enable", "bind", "fc", "emulate", "zmodload", "zpty", "sched"), _unwrap_alias),
}
