"""Findings of `doctor` about MCP servers: those in the settings, and their last known state. Starts no server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from teamwright.config.mcp_config import configured_servers
from teamwright.config.settings.settings import Settings
from teamwright.mcp.server_config import ServerConfig
from teamwright.mcp.tool_listing import ListingStore
from teamwright.views.doctor.finding import DoctorSubject, Finding

SECTION = "servers"


def server_findings(subject: DoctorSubject, settings: Settings) -> Iterator[Finding]:
    """Yield a line for each server, and one for each that is left out."""
    variables = {**subject.env, **settings.env}
    configs, warnings = configured_servers(settings.mcp, (), subject.cwd, variables, frozenset())
    listings = ListingStore(subject.home.mcp_listings)
    for config in configs:
        yield _finding(config, subject, listings)
    for warning in warnings:
        yield Finding(SECTION, "left out", warning, "note")


def _finding(config: ServerConfig, subject: DoctorSubject, listings: ListingStore) -> Finding:
    tools = listings.load(config.digest, config.key)
    known = "never seen yet" if tools is None else f"{len(tools)} tools"
    said = f"{config.kind} {config.display_text}, {known}, by {config.source}"
    if config.kind == "stdio" and _missing(config, subject):
        do = f"{config.display_text} is not found: install it, or correct the entry"
        return Finding(SECTION, config.name, said, "note", do)
    return Finding(SECTION, config.name, said)


def _missing(config: ServerConfig, subject: DoctorSubject) -> bool:
    program = config.argv[0]
    if os.sep in program:
        return not os.access(config.cwd / program, os.X_OK)
    path = config.env.get("PATH") or subject.env.get("PATH")
    return shutil.which(program, path=path) is None
