"""Assets of agent definitions and the team file: used, shadowed, or with parts that are ignored.

Depends on the list of agent types that a run has.
"""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.agent.agent_type import BUILT_IN
from teamwright.config.agent_types.definition_sources import LOOSE, definition_sources
from teamwright.config.agent_types.registry import LIST_BYTES, AgentTypeEntry, AgentTypes
from teamwright.config.settings.setting_parts import line_in, reason
from teamwright.config.team_file_reader import FILE, read_definition
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.session.factory.agent_types import TrustedDefinitions
from teamwright.session.factory.spec_resolver import require_possible
from teamwright.views.assets import Asset, CheckSubject, display_path, parse_location, remark_state

AGENTS, TEAM, HOOKS = "agents", "team file", "hooks"

_TRUST = "teamwright trust shows it"

SHORTENED = f"its description is shortened in the Agent tool, whose list of types has {LIST_BYTES:,} bytes"


def agent_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield each definition of a file or flag, with its ignored parts. Raises UsageError for a flag's definition."""
    asked, plugins = subject.asked, subject.plugins
    places = definition_sources(asked.home, subject.root, compat=subject.compat, agents=asked.agents, plugins=plugins)
    kinds = AgentTypes(places, None, TrustedDefinitions(asked.home, subject.trust, subject.compat))
    shortened = kinds.shortened()
    for entry in kinds.entries():
        if entry.source.source != BUILT_IN:
            yield from _definition(entry, subject, SHORTENED if entry.source.name in shortened else "")


def _definition(entry: AgentTypeEntry, subject: CheckSubject, remark: str) -> Iterator[Asset]:
    found, kind = entry.source, entry.source.definition
    file = found.file or found.source
    if kind is None:
        _, line, why = parse_location(found.problem, file)
        outside = remark_state(why) == "ignored" or "further ones" in why
        yield Asset(AGENTS, found.name, "ignored" if outside else "broken", file, line, why)
        return
    if entry.state == "shadowed":
        yield Asset(AGENTS, found.name, "ignored", file, 0, f"{display_path(entry.shadowed_by, subject.cwd)} is nearer")
        return
    if entry.state == "needs trust":
        yield Asset(AGENTS, found.name, "needs trust", file, 0, _TRUST)
    else:
        yield Asset(AGENTS, found.name, "used", file, 0, remark)
    try:
        require_possible(kind)
    except UsageError as problem:
        yield Asset(AGENTS, found.name, "ignored", file, 0, f"it does not start: {problem.what}")
    for text in found.warnings:
        _, line, what = parse_location(text, file)
        yield Asset(
            AGENTS, found.name, "used" if what == LOOSE and entry.state == "used" else "ignored", file, line, what
        )
    for hook in kind.hooks:
        state = "needs trust" if entry.state == "needs trust" else "used"
        yield Asset(HOOKS, f"{hook.event}: {hook.line}", state, file, 0, f"of the agent {kind.name}")


def _plain(problem: CannotStart) -> str:
    return reason(problem).removeprefix("the team file cannot be used: ")


def team_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield the team file, and each part of it that needs trust."""
    path = subject.root / FILE
    try:
        definition = read_definition(path)
    except CannotStart as problem:
        said = dict(problem.looked_at)
        yield Asset(TEAM, path.name, "broken", str(path), line_in(said.get("at", "")), _plain(problem))
        return
    if definition is None:
        return
    roles = ", ".join(definition.roles) or "none"
    yield Asset(TEAM, path.name, "used", str(path), 0, f"roles: {roles}")
    for entry in subject.trust.entries:
        if entry.kind == "team file" and not subject.trust.allows(entry):
            why = f"what it would run or widen; {_TRUST}"
            yield Asset(TEAM, entry.name, "needs trust", str(path), 0, why)
