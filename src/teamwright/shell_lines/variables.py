"""Known values of the shell's variables at one position of a line, and the variables that a statement may set.

A value is known after a plain assignment or in a loop, and for HOME and PWD. Any other way of setting a variable makes
it unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from teamwright.shell_lines.command_words import word_set
from teamwright.shell_lines.syntax_tree import (
    AndOr,
    BranchCommand,
    CalculateCommand,
    Calculation,
    Expansion,
    FixedText,
    ForLoop,
    FunctionDefinition,
    NegatedCommand,
    Pipeline,
    RedirectedCommand,
    SimpleCommand,
    Statement,
    StatementSequence,
    Subshell,
    TestCommand,
    WhileLoop,
    Word,
    WordPart,
)

_SETS_ANY = word_set("read mapfile readarray getopts printf unset wait let")
"""Builtins that may set any variable. Later assignments are certain again."""

_MAKES_UNRELIABLE = word_set(
    "eval source . trap declare typeset local readonly alias enable shopt set coproc integer float private vared print"
    " setopt unsetopt emulate zmodload autoload zparseopts strftime sysread zformat zstyle functions bind complete"
)
"""Builtins after which assignments, also later ones, may have other effects than they seem to have."""

_PLAIN_SET = re.compile(r"[-+][euxvo]+|pipefail|errexit|nounset|xtrace|verbose")
_OPTION = re.compile(r"-|$")
_PREFIXES = word_set("command builtin exec noglob nocorrect time")
_OWN_TO_SHELLS = re.compile(
    r"BASH.*|COMP_.*|COMP[A-Z]+|READLINE_.*|EPOCH.*|HIST.*|ZSH.*|OPT(IND|ARG|ERR)|_|[a-z]*path|argv|status|prompt"
    r"|PROMPT.*|PS[0-9]|prompt[0-9]?|watch|psvar|histchars|RANDOM|SECONDS|LINENO|SRANDOM|EUID|UID|PPID|GROUPS|DIRSTACK"
    r"|FUNCNAME|PIPESTATUS|pipestatus|REPLY|reply|MAPFILE|MATCH|match|[MN]?BEGIN|[MN]?END|mbegin|mend|SHELLOPTS|IFS"
    r"|OLDPWD|PWD|HOME|LANG|LC_.*|LANGUAGE|SHLVL|COLUMNS|LINES|TMOUT|TTY|ERRNO|EGID|GID|USERNAME|HOST|ARGC|signals"
    r"|errnos|aliases|functions|commands|options|parameters|builtins|history|keymap|KEYMAP|GLOBIGNORE|CDPATH|POSIX.*"
)
"""Variables that a shell sets or whose value it changes: never certain after an assignment."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLAIN_TESTS = word_set("-f -d -e -s -r -w -x -L -h -z -n -a -o")

ANY, UNRELIABLE = "*", "!"
"""Names with a special meaning: any variable may have been set; and later assignments may have other effects."""

MAX_VALUE = 4_096
"""The longest value that is followed, in characters: a line may double a value with each assignment."""

NO_VARIABLES = frozenset[str]()
_ANY_SET = frozenset({ANY})
_UNRELIABLE_SET = frozenset({UNRELIABLE})


class ShellVariables:
    """The known variables. `home` is the home directory, empty when it is not certain."""

    def __init__(self) -> None:
        home = os.environ.get("HOME", "")
        self.home = home if home.startswith("/") and os.path.expanduser("~") == home else ""
        self.directory: Path | None = None
        """The directory in which words are expanded now, if it is certain."""
        self.splits_plainly = True
        """True when unquoted values are split at blanks."""
        self.matches_plainly = "GLOBIGNORE" not in os.environ
        """True when patterns match their usual names."""
        self.assigned = frozenset[str]()
        """Variables that certainly have a value of the line, not of the environment."""
        self._known: dict[str, str | None] = {}
        self._any = False  # every variable may have been set
        self._is_unreliable = False  # assignments may have other effects than they seem to have
        self._volatile: set[str] = set()

    def copy(self) -> ShellVariables:
        """Return an independent copy."""
        variables = ShellVariables.__new__(ShellVariables)
        variables.home = self.home
        variables.directory = self.directory
        variables.splits_plainly = self.splits_plainly
        variables.matches_plainly = self.matches_plainly
        variables.assigned = self.assigned
        variables._known = dict(self._known)
        variables._any = self._any
        variables._is_unreliable = self._is_unreliable
        variables._volatile = self._volatile
        return variables

    def in_subshell(self) -> ShellVariables:
        """Return the variables of another shell that this one starts, which may have inherited values set here."""
        variables = self.copy()
        variables._known = dict.fromkeys(self._known)
        return variables

    def is_set(self, name: str) -> bool:
        """Return True when the line may have set this variable."""
        return self._any or name in self._known

    def get(self, name: str) -> str | None:
        """Return the value of a variable, or None."""
        known = self._known.get(name)
        if known is not None or self.is_set(name):
            return known
        if name == "PWD":
            return None if self.directory is None else str(self.directory)
        return (self.home or None) if name == "HOME" else None

    def assign(self, name: str, value: str | None) -> None:
        """Note an assignment; None: the value is not known."""
        certain = len(value or "") <= MAX_VALUE and not (
            self._is_unreliable or name in self._volatile or _OWN_TO_SHELLS.fullmatch(name)
        )
        self._known[name] = value if certain else None
        self._check(name)

    def mark_changed(self, names: frozenset[str]) -> None:
        """Note that these variables may have been set."""
        self._is_unreliable = self._is_unreliable or UNRELIABLE in names
        if ANY in names or UNRELIABLE in names:
            self._any = True
            self._known.clear()
            self.home = ""
            self.splits_plainly = False
            self.matches_plainly = False
            return
        for name in names:
            self._known[name] = None
            self._check(name)

    def mark_volatile(self, names: frozenset[str]) -> None:
        """Note that these variables may be set at any time from here on, as by a function."""
        if ANY in names or UNRELIABLE in names:
            self._is_unreliable = True
        self._volatile = self._volatile | names
        self.mark_changed(names)

    def _check(self, name: str) -> None:
        if name == "HOME":
            self.home = ""
        elif name == "IFS":
            self.splits_plainly = False
        elif name == "GLOBIGNORE":
            self.matches_plainly = False


def variables_set_by(statement: Statement) -> frozenset[str]:
    """Return the variables that a statement may set in its shell; ANY or UNRELIABLE among them means more."""
    return frozenset[str]().union(*_set_by(statement))


def literal_text(word: Word) -> str | None:
    """Return the text of a word without expansions."""
    texts = [part.text for part in word.parts if isinstance(part, FixedText)]
    return "".join(texts) if len(texts) == len(word.parts) else None


def _set_by_command(statement: SimpleCommand) -> frozenset[str]:
    words = [literal_text(word) for word in statement.words]
    while words and words[0] in _PREFIXES:
        words.pop(0)
        while words and (words[0] or "").startswith("-"):
            words.pop(0)
    name, rest = (words[0], words[1:]) if words else ("", [])
    if name == "set" and all(word is not None and _PLAIN_SET.fullmatch(word) for word in rest):
        return NO_VARIABLES
    if name is None or name in _MAKES_UNRELIABLE:
        return _UNRELIABLE_SET
    if name in {"read", "unset", "export"}:
        named = [NAME.match(word or "") for word in rest if word is None or not _OPTION.match(word)]
        return frozenset(found[0] if found else ANY for found in named) | {"REPLY"}
    if name in {"printf", "wait"}:
        return _ANY_SET if any(word is None or word.startswith("-") for word in rest[:1]) else NO_VARIABLES
    if name in {"cd", "pushd", "popd"}:
        return frozenset({"OLDPWD"})
    return _ANY_SET if name in _SETS_ANY else NO_VARIABLES


def _set_by(node: Statement) -> Iterator[frozenset[str]]:
    match node:
        case SimpleCommand():
            yield frozenset(assignment.name for assignment in node.assignments)
            yield _set_by_command(node)
            yield from _set_in_each_word(all_words(node))
        case TestCommand():
            yield from _set_in_each_word(item for item in node.items if isinstance(item, Word))
            yield _ANY_SET if any(map(is_arithmetic, node.items)) else NO_VARIABLES
        case CalculateCommand():
            yield _ANY_SET
        case Subshell():
            return
        case ForLoop():
            yield frozenset({node.name}) if node.head is None else _ANY_SET
            yield from _set_in_each_word(node.words or ())
            yield from _set_by(node.body)
        case _:
            yield from _set_in_each_word(node.words if isinstance(node, BranchCommand) else ())
            yield from (
                _set_in_each_word(one.target for one in node.redirections)
                if isinstance(node, RedirectedCommand)
                else ()
            )
            for child in child_statements(node):
                yield from _set_by(child)


def child_statements(node: Statement) -> tuple[Statement, ...]:
    """Return the statements inside a statement."""
    match node:
        case StatementSequence() | AndOr():
            return node.items
        case Pipeline():
            return node.commands
        case BranchCommand():
            return (*node.always, *node.bodies)
        case WhileLoop():
            return (node.test, node.body)
        case ForLoop() | FunctionDefinition() | NegatedCommand() | RedirectedCommand() | Subshell():
            return (node.body,)
        case _:
            return ()


def variables_set_in_words(node: SimpleCommand) -> frozenset[str]:
    """Return the variables that expansions set: `${x:=y}`, `$((x = 1))`."""
    return frozenset[str]().union(*_set_in_each_word(all_words(node)))


def all_words(node: SimpleCommand) -> Iterator[Word]:
    """Yield every word of a simple command, with its assigned values and redirection targets."""
    yield from node.words
    yield from (one.target for one in node.redirections)
    for assignment in node.assignments:
        yield from assignment.items or ()
        if assignment.value is not None:
            yield assignment.value


def is_arithmetic(item: Word | str) -> bool:
    """Return True for an operator of `[[ … ]]` that evaluates its operands, or may."""
    text = item if isinstance(item, str) else item.literal or ""
    return text.startswith("-") and text not in PLAIN_TESTS


def _set_in_each_word(words: Iterable[Word]) -> Iterator[frozenset[str]]:
    for word in words:
        yield from _set_in_each_part(word.parts)


def _set_in_each_part(parts: Iterable[WordPart]) -> Iterator[frozenset[str]]:
    for part in parts:
        if (isinstance(part, Expansion) and not part.is_plain) or (isinstance(part, Calculation) and part.is_uncertain):
            yield _ANY_SET
        elif isinstance(part, Expansion | Calculation):
            yield from _set_in_each_part(part.parts)
