"""Every option of every program, in each way of writing it, beside what the program must not read or change.

Depends on the tables of the product and on the table of documented options. Makes lines; does not judge them.
"""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterator, Sequence

from teamwright.shell_lines.programs.git import GIT_COMMANDS, git_grammar
from teamwright.shell_lines.programs.options import program_grammar
from tests.permissions.fuzz.generator import option_rows

_FIRST = {"sed": "p", "awk": "1", "gawk": "1", "mawk": "1", "jq": ".", "grep": "one", "egrep": "one", "fgrep": "one"}
_FIRST |= {"rg": "one", "git grep": "one", "tr": "a b", "xargs": "echo", "printf": "%s", "zgrep": "one", "look": "one"}
_READ = ("../above", ".env", "..", "a.py", "peek")
_VALUES = ("../above", ".env", "MARK", "touch_marker", "recurse", "../MARK")
_SCRIPTS = {"sed": ("'1e touch_marker'", "'w MARK'"), "jq": ("env",), "find": ("a.py",)}
_SCRIPTS |= dict.fromkeys(("awk", "gawk", "mawk"), ("'BEGIN{system(\"touch_marker\")}'", "'{print > \"MARK\"}'"))

_READ_BY_GIT = (
    *("HEAD", "main...other", "HEAD -- .env", "HEAD:conf/.env", "conf/.env", "-- conf", "-- ../above", "out/secret"),
    *(
        "HEAD -- ..",
        "-- :/",
        "-- ':(top)..'",
        "a.py ../above",
        "peek a.py",
        "../outside",
        "stash@{0}",
        "'--output=MARK'",
    ),
)
_VALUES_OF_GIT = ("conf/.env", "'!touch_marker'", "%G?", "'%(trailers:key=x)'", "textconv", "remerge")
_GLOBAL_OF_GIT = (
    *("-C ..", "-C ../outside", "-C emb", "-C vendor", "-C out", "-C .git", "-P", "--no-pager", "-p", "--paginate"),
    *(
        "--git-dir=emb",
        "--git-dir emb/x",
        "--work-tree=..",
        "--bare",
        "--exec-path=.",
        "--namespace=x",
        "--super-prefix=x/",
    ),
    *(
        "-c core.fsmonitor=touch_marker",
        "-c diff.external=touch_marker",
        "--config-env=core.pager=HOME",
        "-ccore.bare=true",
    ),
    *("--no-optional-locks", "--literal-pathspecs", "--glob-pathspecs", "--icase-pathspecs", "--attr-source=HEAD"),
)
_SPELLED = {"reflog": "reflog", "stash-list": "stash list", "stash-show": "stash show"}
_FORMS_OF_GIT = ("reflog show", "worktree list", "config get")
_LOGS = ("git log", "git show", "git whatchanged", "git reflog", "git reflog show", "git stash list", "git rev-list")
"""Commands that do the same with HEAD as with no operand."""
_LETTERS = string.ascii_letters + string.digits


def git_programs() -> list[str]:
    """The git commands of the table, as they are typed."""
    return [f"git {_SPELLED.get(name, name)}" for name in sorted(GIT_COMMANDS)] + [
        f"git {form}" for form in _FORMS_OF_GIT
    ]


def systematic_lines(names: Sequence[str], is_allowed: Callable[[str], bool]) -> Iterator[str]:
    """All lines of these programs: each option of the tables, each documented one, each letter, alone and in pairs.

    An option that is allowed beside nothing harmless is not tried beside anything else, and a way of giving it a
    value that is refused for harmless values is not tried with others.
    """
    for name in names:
        fine: list[str] = []
        yield name
        yield from _beside_operands(name, "")
        for option in _options(name):
            harmless = list(_harmless(name, option))
            yield from harmless
            if any(map(is_allowed, harmless)):
                fine.append(option)
                yield from _beside_operands(name, option)
                yield from _with_values(name, option, is_allowed)
                yield from _abbreviations(name, option)
        yield from _pairs(name, fine)
        if name.startswith("git "):
            yield from _below_git(name)


def _options(name: str) -> list[str]:
    """The options of a program: those that are accepted, those that are documented, and each letter."""
    words = name.split()
    if words[0] == "git" and len(words) > 1:
        found = git_grammar("-".join(words[1:])) or git_grammar(words[1])
        rows = option_rows().get(" ".join(words[:2]), ())
    else:
        found = program_grammar(name)
        rows = option_rows().get(name, ())
    documented = [option.removesuffix("[=]").removesuffix("=") for option in rows]
    letters = [f"-{letter}" for letter in _LETTERS]
    return list(dict.fromkeys((*(found.options if found is not None else ()), *documented, *letters)))


def _line(*words: str) -> str:
    return " ".join(word for word in words if word)


def _forms(option: str, value: str) -> tuple[str, ...]:
    """The ways of giving an option a value."""
    attached = (f"{option}={value}",) if option.startswith("--") else (f"{option}{value}", f"{option}n{value}")
    return (*attached, f"{option} {value}")


def _operands(name: str) -> tuple[str, ...]:
    """The harmless operands that a line of the program may need."""
    return ("a.py", "", "HEAD", "user.name") if name.startswith("git ") else ("a.py", "")


def _harmless(name: str, option: str) -> Iterator[str]:
    first = _FIRST.get(name, "")
    for form in (option, f"{option} 1", f"{option} x", f"{option}=1", f"{option}=x", f"{option}1", f"{option}x"):
        yield _line(name, form, first, "a.py")
    for operand in _operands(name)[1:]:
        yield _line(name, option, operand)
    if name.startswith("git "):
        yield f"{name} {option}=HEAD"


def _beside_operands(name: str, option: str) -> Iterator[str]:
    """An option, or none, before and after what the program must not read."""
    first = _FIRST.get(name, "")
    for operand in (*_READ, *(_READ_BY_GIT if name.startswith("git ") else ())):
        yield _line(name, option, first, operand)
        yield from [_line(name, option, operand)] if first else []
    for operand in (*_READ, *(_operands(name)[2:])):
        yield _line(name, first, operand, option)
        yield _line(name, operand, option, first)
    yield _line(name, first, option)
    yield _line(name, "--", option, first, "../above")


def _with_values(name: str, option: str, is_allowed: Callable[[str], bool]) -> Iterator[str]:
    """Each way of giving the option a value that a harmless value has, with values that do harm somewhere."""
    git = name.startswith("git ")
    harmless = [[_forms(option, value) for value in ("1", "x", "a.py", "HEAD")], _operands(name)]
    first, after = _FIRST.get(name, ""), "HEAD" if git else "a.py"
    for at in range(len(_forms(option, ""))):
        tried = [_line(name, forms[at], first, operand) for forms, operand in itertools.product(*harmless)]
        if not any(map(is_allowed, tried)):
            continue
        for value in (*_VALUES, *_SCRIPTS.get(name, ()), *(_VALUES_OF_GIT if git else ())):
            form = _forms(option, value)[at]
            yield _line(name, form, first, after)
            yield from [] if name in _LOGS else [_line(name, form)]
        yield _line(name, first, "a.py", _forms(option, "../MARK")[at])
        yield _line(name, _forms(option, "x")[at], first, "../above")


def _abbreviations(name: str, option: str) -> Iterator[str]:
    """A long option with its end left out, as programs understand it."""
    for end in range(3, len(option) if option.startswith("--") else 0):
        for value in ("", "=MARK"):
            yield _line(name, f"{option[:end]}{value}", _FIRST.get(name, ""), "a.py")


def _pairs(name: str, options: Sequence[str]) -> Iterator[str]:
    """Two letters in one word, with and without a value."""
    letters = [option[1] for option in options if len(option) == 2]
    for one, other in itertools.permutations(letters, 2):
        for value in ("", "MARK"):
            yield _line(name, f"-{one}{other}{value}", _FIRST.get(name, ""), "a.py")
        yield _line(name, f"-{one}{other}", _FIRST.get(name, ""), "../above")


def _below_git(name: str) -> Iterator[str]:
    """A command of git after each option of git itself."""
    command = name.removeprefix("git ")
    for before in _GLOBAL_OF_GIT:
        for operand in ("", "HEAD", "a.py", "one", "-- ../above"):
            yield f"git {before} {command} {operand}".rstrip()
