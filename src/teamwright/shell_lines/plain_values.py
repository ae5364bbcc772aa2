"""Values with which a harmless variable is harmless: plain words, numbers and names of locales.

`make` runs `$(shell …)` in a value, and puts a value into the text of a recipe. A locale decides how a shell reads the
characters of a line.
"""

from __future__ import annotations

import re

from teamwright.shell_lines.expansion import is_locale, is_plain_locale

_PLAIN = re.compile(r"(?!-)[A-Za-z0-9_.,:/@%+=*-]*")
_VALUES = {
    "COLUMNS": re.compile(r"[0-9]*"),
    "LINES": re.compile(r"[0-9]*"),
    "TERM": re.compile(r"[A-Za-z0-9_.+-]*"),
    "TZ": re.compile(r"([A-Za-z](?!.*\.\.)[A-Za-z0-9_+/,.-]*)?"),
}


def is_plain_value(name: str, value: str | None) -> bool:
    """Return True when the value is only a value for every program; None is a value that only the shell knows."""
    if value is None:
        return False
    return is_plain_locale(value) if is_locale(name) else _VALUES.get(name, _PLAIN).fullmatch(value) is not None
