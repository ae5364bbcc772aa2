"""The settings of commands, from the values of settings files and the room's own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teamwright.tools.shell.bash import BashSettings


def bash_settings(values: Mapping[str, Any]) -> BashSettings:
    """The settings of commands from the values of settings files."""
    usual = BashSettings()
    return BashSettings(
        timeout_s=values.get("bash.timeout_s", usual.timeout_s),
        max_timeout_s=values.get("bash.max_timeout_s", usual.max_timeout_s),
        max_output=values.get("bash.output_chars", usual.max_output),
        shell=values.get("bash.shell", usual.shell),
        startup=values.get("bash.startup", usual.startup),
        startup_s=values.get("bash.startup_s", usual.startup_s),
    )
