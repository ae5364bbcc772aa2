"""The settings of web search: the service's own search, a command, or a tool of an MCP server."""

from __future__ import annotations

from msgspec import Struct


class WebSearchSettings(Struct, frozen=True):
    """The ways to search. `service` is auto, on or off: the search of the model's service.

    `command` is a shell line that gets the search as JSON on its stdin; `tool` is the name of a tool of an MCP server.
    """

    service: str = "auto"
    command: str = ""
    tool: str = ""
