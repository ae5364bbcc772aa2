"""The sed scripts that only print: commands and addresses that every sed reads alike.

A script is refused when seds disagree about its end or its parts. The options of sed are in `options`.
"""

from __future__ import annotations

import re
from functools import cache

_DELIMITERS = "/|#,:!@%+"
_LABEL_END = r"(?=[ \t]*(?:[;}\n]|$))"
"""After a label some seds take no comment, but the next command."""

_PLAIN_END = r"(?=\s*(?:[;}\n#]|$))"


def _bracket(delimiter: str) -> str:
    """Return the pattern of a bracket expression in which no sed finds the end of the regular expression."""
    return rf"\[(?:\^?\]|(?!\^?\]))(?:\[:[a-z]+:\]|\\/|[^\[\]\\\n{delimiter}]|\\[^\n\]\[{delimiter}])*\]"


def _regex(delimiter: str) -> str:
    return rf"(?:[^\[\\\n{delimiter}]|\\[^\n]|{_bracket(delimiter)})*"


@cache
def _arguments(command: str, delimiter: str) -> re.Pattern[str]:
    """Return the pattern of the text after `s` or `y` and its delimiter."""
    sign = re.escape(delimiter)
    text = rf"(?:[^\\\n{sign}]|\\[^\n])*"
    if command == "s":
        return re.compile(rf"{_regex(sign)}{sign}{text}{sign}[gpiI0-9]*{_PLAIN_END}")
    side = rf"(?:[^\[\\\n{sign}]|\\[^\n])*"
    return re.compile(rf"{side}{sign}{side}{sign}{_PLAIN_END}")


@cache
def _begin() -> re.Pattern[str]:
    """Return the pattern of a command's addresses, and a command without arguments or the sign of another one."""
    address = rf"(?:\d+(?:~\d+)?|\$|/{_regex('/')}/[IM]?)"
    return re.compile(
        rf"[ \t;\n]*(?:{address}(?:[ \t]*,[ \t]*(?:[+~]\d+|{address}))?)?[ \t]*(?:![ \t]*)?"
        rf"(?:(?P<open>\{{)|\}}|(?:[pPdDnNhHgGxlz=]|[qQ](?:[ \t]*\d+)?){_PLAIN_END}"
        rf"|(?:[btT](?:[ \t]*\w+)?|:[ \t]*\w+){_LABEL_END}|(?P<valued>[sy])(?P<delimiter>[{re.escape(_DELIMITERS)}]))"
    )


_SEPARATOR = re.compile(r"[ \t]*(?:#[^\n]*)?(?:[;\n][ \t;\n]*(?:#[^\n]*)?)*")
_SWALLOWED = re.compile(r"[^\x00-\x7f][\\|\[\]{}^~@`_]")
"""In some encodings the last byte of a character takes the next one along, so these signs could vanish."""


def only_prints(script: str) -> bool:
    """Return True when the script only prints: no command runs, reads or writes a file."""
    if _SWALLOWED.search(script) or "\r" in script:
        return False
    at = _after(script, 0)
    while at < len(script):
        command = _begin().match(script, at)
        if command is not None and command["valued"]:
            end = _arguments(command["valued"], command["delimiter"]).match(script, command.end())
        else:
            end = command
        if command is None or end is None:
            return False
        at = _after(script, end.end())
        if at == end.end() and command["open"] is None and script[at : at + 1] not in {"}", ""}:
            return False
    return True


def _after(script: str, at: int) -> int:
    found = _SEPARATOR.match(script, at)
    return at if found is None else found.end()
