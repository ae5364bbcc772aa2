"""One value of the person's own settings file, for commands that open no session and read no other layer.

Depends on the home alone. The reader of settings reports a file that is damaged.
"""

from __future__ import annotations

import json
from typing import Any, cast

from teamwright.storage.paths import Home


def user_setting(home: Home, key: str) -> object:
    """Return the value of a key with dots between its parts; None when the file does not have it."""
    *groups, name = key.split(".")
    try:
        content = home.settings.read_bytes()
        if f'"{name}"'.encode() not in content:
            return None
        value: Any = json.loads(content)
        for part in (*groups, name):
            value = cast("dict[str, Any]", value).get(part)
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return value
