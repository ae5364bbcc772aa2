"""What `doctor` says of MCP servers: which there are by the settings, and what is known of them. Starts none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from teamwright.app.looking.finding import Finding, Subject
from teamwright.app.serving.configured import configured
from teamwright.app.settings.model import Settings
from teamwright.mcp.config import ServerConfig
from teamwright.mcp.listing import Listings

SECTION = "servers"


def server_findings(subject: Subject, settings: Settings) -> Iterator[Finding]:
    """A line for each server, and one for each that is left out."""
    variables = {**subject.env, **settings.env}
    configs, warnings = configured(settings.mcp, (), subject.cwd, variables, frozenset())
    listings = Listings(subject.home.listings)
    for config in configs:
        yield _finding(config, subject, listings)
    for warning in warnings:
        yield Finding(SECTION, "left out", warning, "note")


def _finding(config: ServerConfig, subject: Subject, listings: Listings) -> Finding:
    tools = listings.load(config.digest, config.key)
    known = "never seen yet" if tools is None else f"{len(tools)} tools"
    said = f"{config.kind} {config.shown}, {known}, by {config.source}"
    if config.kind == "stdio" and _missing(config, subject):
        do = f"{config.shown} is not found: install it, or correct the entry"
        return Finding(SECTION, config.name, said, "note", do)
    return Finding(SECTION, config.name, said)


def _missing(config: ServerConfig, subject: Subject) -> bool:
    program = config.argv[0]
    if os.sep in program:
        return not os.access(config.cwd / program, os.X_OK)
    path = config.env.get("PATH") or subject.env.get("PATH")
    return shutil.which(program, path=path) is None
