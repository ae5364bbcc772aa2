"""The settings of notifications to a person: the terminal's signal, a command, a webhook.

The command and the webhook are empty unless a person sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from teamwright.config.settings.setting_fields import fill_settings
from teamwright.config.settings.settings_files import bad_settings

WEBHOOK = "notify.webhook"


class NotifySettings(Struct, frozen=True):
    """The ways to notify. `command` is a shell line, `webhook` a URL; empty for none.

    `terminal` is auto, bell, osc9, osc777 or off; `format` of the webhook's body is auto, json or ntfy.
    """

    terminal: str = "auto"
    command: str = ""
    webhook: str = ""
    format: str = "auto"


def parse_notify_settings(values: Mapping[str, Any], origins: Mapping[str, str]) -> NotifySettings:
    """Return the settings. Raises CannotStart (`bad-settings`) for a webhook that is no http or https URL."""
    made = fill_settings(NotifySettings(), "notify", values)
    if made.webhook:
        try:
            parts = urlsplit(made.webhook)
            is_url = parts.scheme in {"http", "https"} and bool(parts.hostname)
        except ValueError:
            is_url = False
        if not is_url:
            raise bad_settings(Path(origins.get(WEBHOOK, "")), "must be a URL that begins with https://", WEBHOOK)
    return made
