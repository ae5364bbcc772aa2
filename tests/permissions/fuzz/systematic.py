"""Every option of every program, in each way of writing it, beside what the program must not read or change.

Depends on the table of option names. Makes lines; does not judge them.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence

from tests.permissions.fuzz.generator import option_rows

_FIRST = {"sed": "p", "awk": "1", "gawk": "1", "mawk": "1", "jq": ".", "grep": "one", "egrep": "one", "fgrep": "one"}
_FIRST |= {"rg": "one", "git grep": "one", "tr": "a b", "xargs": "echo", "printf": "%s", "zgrep": "one", "look": "one"}
_READ = ("../above", ".env", "..", "a.py", "peek")
_VALUES = ("../above", ".env", "MARK", "touch_marker", "1", "x", "recurse", "../MARK")
_SCRIPTS = {"sed": ("'1e touch_marker'", "'w MARK'"), "jq": ("env",), "find": ("a.py",)}
_SCRIPTS |= dict.fromkeys(("awk", "gawk", "mawk"), ("'BEGIN{system(\"touch_marker\")}'", "'{print > \"MARK\"}'"))


def systematic_lines(names: Sequence[str], is_allowed: Callable[[str], bool]) -> Iterator[str]:
    """All lines of these programs: each documented option, and each letter as an option.

    An option that is allowed beside nothing harmless is not tried beside anything else.
    """
    rows = option_rows()
    for name in names:
        documented = [option.removesuffix("[=]").removesuffix("=") for option in rows.get(name, ())]
        letters = [f"-{letter}" for letter in string.ascii_letters + string.digits]
        for option in dict.fromkeys((*documented, *letters)):
            harmless = list(_harmless(name, option))
            yield from harmless
            if any(map(is_allowed, harmless)):
                yield from _of_option(name, option)


def _harmless(name: str, option: str) -> Iterator[str]:
    first = f"{_FIRST[name]} " if name in _FIRST else ""
    for form in (option, f"{option} 1", f"{option} x", f"{option}=1", f"{option}=x", f"{option}1", f"{option}x"):
        yield f"{name} {form} {first}a.py"
    yield f"{name} {option}"


def _of_option(name: str, option: str) -> Iterator[str]:
    first = [_FIRST[name]] if name in _FIRST else []
    for words in ([option, *first], [*first, option], [option]):
        for operand in _READ:
            yield " ".join([name, *words, operand])
            yield " ".join([name, operand, *words])
        yield " ".join([name, *words])
    yield " ".join([name, "--", option, *first, "../above"])
    for value in (*_VALUES, *_SCRIPTS.get(name, ())):
        forms = [f"{option}={value}"] if option.startswith("--") else [f"{option}{value}", f"{option}n{value}"]
        for form in (*forms, f"{option} {value}"):
            yield " ".join([name, form, *first, "a.py"])
            yield " ".join([name, *first, "a.py", form])
            yield " ".join([name, form])
            yield " ".join([name, form, *first, "../above"])
