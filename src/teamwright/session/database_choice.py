"""The choice of the database of a team: the flag, the environment, or the person's own settings file.

A repository's settings never choose it. Depends on the home; loads nothing of a database unless one is named.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress

_VARIABLE = "TEAMWRIGHT_DATABASE"
_SETTING = "database"


def find_database(given: str | None, home: Home, env: Mapping[str, str] | None = None) -> DatabaseAddress | None:
    """Return the address of the database; None for a team on files. `given` is the value of the flag.

    `none` as the flag's value keeps a team on files. Raises UsageError for an address that cannot be used.
    """
    text = given or (os.environ if env is None else env).get(_VARIABLE, "") or _user_setting(home)
    if not text or text == "none":
        return None
    from teamwright.database.address import parse_address

    return parse_address(text)


def _user_setting(home: Home) -> str:
    try:
        content = home.settings.read_bytes()
    except OSError:
        return ""
    if b'"database"' not in content:
        return ""
    try:
        value: Any = cast("dict[str, Any]", json.loads(content)).get(_SETTING)
    except (ValueError, AttributeError, RecursionError):
        return ""  # the reader of settings reports a file that it cannot read
    return value if isinstance(value, str) else ""
