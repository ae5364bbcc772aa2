"""Options and positional words of one program's command line, told apart by a small table row.

What the row does not explain is refused (None), so that nothing dangerous hides in an abbreviation or a cluster.
Knows no program by itself.
"""

from __future__ import annotations

from teamwright.protocol.values import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a program's options.

    `valued`: short options with a value that is no path; `bad`: short options that make it do more than read;
    `bad_long`: the same, and their abbreviations; `text_long`: long options whose value is no path; `only`: when
    given, the short options that are known at all.
    """

    valued: str = ""
    bad: str = ""
    bad_long: tuple[str, ...] = ()
    text_long: tuple[str, ...] = ()
    only: str | None = None


@dataclass(slots=True)
class Line:
    """The words of a call: `options` as written (without values), `positional` in order."""

    options: list[str]
    positional: list[str]

    def has(self, letters: str, *longs: str) -> bool:
        """Whether one of these short options, or a long one or its abbreviation, was given."""
        for option in self.options:
            if option.startswith("--"):
                name = option.split("=", 1)[0]
                if any(long.startswith(name) for long in longs):
                    return True
            elif set(option[1:]) & set(letters):
                return True
        return False


def read_line(args: list[str], row: Row) -> Line | None:
    """The call's words told apart, or None when an option is bad or not explained."""
    line = Line([], [])
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if word == "--":
            line.positional += args[at:]
            break
        if not word.startswith("-") or word == "-":
            line.positional.append(word)
        elif word.startswith("--"):
            if not _long_is_fine(word, row):
                return None
            line.options.append(word)
            at += 1 if "=" not in word and word in row.text_long else 0
        else:
            skip = _short_is_fine(word, row)
            if skip is None:
                return None
            line.options.append("-" + _letters(word, row))
            at += skip
    return line


def _long_is_fine(word: str, row: Row) -> bool:
    name, _, value = word.partition("=")
    if any(bad.startswith(name) or name.startswith(bad + "-") for bad in row.bad_long):
        return False
    return ("/" not in value and not value.startswith("~")) or name in row.text_long


def _letters(word: str, row: Row) -> str:
    """The option letters of a cluster, up to the first that takes the rest as its value."""
    for at, letter in enumerate(word[1:], 1):
        if letter in row.valued:
            return word[1 : at + 1]
    return word[1:]


def _short_is_fine(word: str, row: Row) -> int | None:
    """How many of the following words belong to the option; None when it is bad."""
    letters = _letters(word, row)
    if set(letters) & set(row.bad) or "/" in letters:
        return None
    if row.only is not None and not set(letters) <= set(row.only + row.valued):
        return None
    return 1 if letters[-1] in row.valued and len(letters) == len(word) - 1 else 0
