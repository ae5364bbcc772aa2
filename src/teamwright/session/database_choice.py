"""The choice of the database of a team: the flag, the environment, or the person's own settings file.

A repository's settings never choose it. Depends on the home; loads nothing of a database unless one is named.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from teamwright.config.settings.user_setting import user_setting
from teamwright.storage.paths import Home

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress

_VARIABLE = "TEAMWRIGHT_DATABASE"
_SETTING = "database"


def find_database(flag: str | None, home: Home, env: Mapping[str, str] | None = None) -> DatabaseAddress | None:
    """Return the address of the database; None for a team on files. `flag` is the value of the flag.

    `none` as the flag's value keeps a team on files. Raises UsageError for an address that cannot be used.
    """
    text = flag or (os.environ if env is None else env).get(_VARIABLE, "") or user_setting(home, _SETTING)
    if not isinstance(text, str) or not text or text == "none":
        return None
    from teamwright.database.address import parse_address

    return parse_address(text)
