"""The scripts of sed that only print.

The parts that are accepted are listed, as all seds read them; anything else is refused.
"""

from __future__ import annotations

import re
from functools import cache

from teamwright.shell_lines.programs.awk import SWALLOWED, bracket_pattern

_SED_DELIMITERS = "/|#,:!@%+"


_LABEL_END = r"(?=[ \t]*(?:[;}\n]|$))"
"""After a label some seds take no comment, but the next command."""


_PLAIN_END = r"(?=\s*(?:[;}\n#]|$))"


def _sed_regex(delimiter: str) -> str:
    return rf"(?:[^\[\\\n{delimiter}]|\\[^\n]|{bracket_pattern(delimiter)})*"


@cache
def _sed_arguments(command: str, delimiter: str) -> re.Pattern[str]:
    """Return the pattern of the text after `s` or `y` and its delimiter."""
    sign = re.escape(delimiter)
    text = rf"(?:[^\\\n{sign}]|\\[^\n])*"
    if command == "s":
        return re.compile(rf"{_sed_regex(sign)}{sign}{text}{sign}[gpiI0-9]*{_PLAIN_END}")
    side = rf"(?:[^\[\\\n{sign}]|\\[^\n])*"
    return re.compile(rf"{side}{sign}{side}{sign}{_PLAIN_END}")


@cache
def _sed_beginning() -> re.Pattern[str]:
    """Return the pattern of a command's addresses, and a command without arguments or the sign of another one."""
    address = rf"(?:\d+(?:~\d+)?|\$|/{_sed_regex('/')}/[IM]?)"
    delimiters = re.escape(_SED_DELIMITERS)
    return re.compile(
        rf"[ \t;\n]*(?:{address}(?:[ \t]*,[ \t]*(?:[+~]\d+|{address}))?)?[ \t]*(?:![ \t]*)?"
        rf"(?:(?P<open>\{{)|\}}|(?:[pPdDnNhHgGxlz=]|[qQ](?:[ \t]*\d+)?){_PLAIN_END}"
        rf"|(?:[btT](?:[ \t]*\w+)?|:[ \t]*\w+){_LABEL_END}|(?P<valued>[sy])(?P<delimiter>[{delimiters}]))"
    )


_SED_SEPARATOR = re.compile(r"[ \t]*(?:#[^\n]*)?(?:[;\n][ \t;\n]*(?:#[^\n]*)?)*")


def only_prints(script: str) -> bool:
    """Return True when the script only prints: no command runs, reads or writes a file."""
    if SWALLOWED.search(script) or "\r" in script:
        return False
    at = _skip_separator(script, 0)
    while at < len(script):
        command = _sed_beginning().match(script, at)
        if command is not None and command["valued"]:
            end = _sed_arguments(command["valued"], command["delimiter"]).match(script, command.end())
        else:
            end = command
        if command is None or end is None:
            return False
        at = _skip_separator(script, end.end())
        if at == end.end() and command["open"] is None and script[at : at + 1] not in {"}", ""}:
            return False
    return True


def _skip_separator(script: str, at: int) -> int:
    found = _SED_SEPARATOR.match(script, at)
    return at if found is None else found.end()
