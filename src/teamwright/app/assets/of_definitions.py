"""Definitions of agents, and the team file: which holds, which is shadowed by which, what of one is not understood.

Goes by the list of kinds that a run has. Starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.agent.definition import BUILT_IN
from teamwright.app.agents.kinds import Entry, Kinds
from teamwright.app.agents.opening import Trusted
from teamwright.app.agents.places import places_of
from teamwright.app.agents.reading import LOOSE
from teamwright.app.agents.resolving import require_possible
from teamwright.app.agents.type_list import LIST_BYTES
from teamwright.app.assets.asset import Asset, oddity, placed, shown
from teamwright.app.assets.subject import Subject
from teamwright.app.definition.reading import FILE, read_definition
from teamwright.app.settings.parts import line_in, reason
from teamwright.protocol.errors import CannotStart, UsageError

AGENTS, TEAM, HOOKS = "agents", "team file", "hooks"

_TRUST = "teamwright trust shows it"

SHORTENED = f"its description is shortened in the Agent tool, whose list of types has {LIST_BYTES:,} bytes"


def agent_assets(subject: Subject) -> Iterator[Asset]:
    """Every definition of a file or a flag, with what of it is left out. Raises UsageError for a flag's."""
    asked, plugins = subject.asked, [plugin.path for plugin in subject.plugins]
    places = places_of(asked.home, subject.root, compat=subject.compat, agents=asked.agents, plugins=plugins)
    kinds = Kinds(places, None, Trusted(asked.home, subject.trust, subject.compat))
    shortened = kinds.shortened()
    for entry in kinds.entries():
        if entry.found.source != BUILT_IN:
            yield from _definition(entry, subject, SHORTENED if entry.found.name in shortened else "")


def _definition(entry: Entry, subject: Subject, remark: str) -> Iterator[Asset]:
    found, kind = entry.found, entry.found.definition
    file = found.file or found.source
    if kind is None:
        _, line, why = placed(found.problem, file)
        outside = oddity(why) == "ignored" or "further ones" in why
        yield Asset(AGENTS, found.name, "ignored" if outside else "broken", file, line, why)
        return
    if entry.state == "shadowed":
        yield Asset(AGENTS, found.name, "ignored", file, 0, f"{shown(entry.by, subject.cwd)} is nearer")
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
        _, line, what = placed(text, file)
        yield Asset(
            AGENTS, found.name, "used" if what == LOOSE and entry.state == "used" else "ignored", file, line, what
        )
    for hook in kind.hooks:
        state = "needs trust" if entry.state == "needs trust" else "used"
        yield Asset(HOOKS, f"{hook.event}: {hook.command}", state, file, 0, f"of the agent {kind.name}")


def _plain(problem: CannotStart) -> str:
    return reason(problem).removeprefix("the team file cannot be used: ")


def team_assets(subject: Subject) -> Iterator[Asset]:
    """The team file, and each part of it that waits for trust."""
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
