"""The settings of a terminal for commands that open no session: plain when the flag or the person's settings say so.

Depends on the home.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from teamwright.config.settings.user_setting import user_setting
from teamwright.storage.paths import Home
from teamwright.ui.terminal.text_styles import terminal_environment


def configured_terminal(home: Home, *, plain: bool = False) -> Mapping[str, str]:
    """Return the environment that describes the terminal; `plain` is the value of the flag."""
    is_plain = plain or user_setting(home, "terminal.plain") is True
    return terminal_environment(os.environ, plain=is_plain)
