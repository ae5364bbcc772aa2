"""The list of all assets of a directory, by group. Runs nothing and starts no server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.agent.agent_type import BUILT_IN
from teamwright.agent.instructions import (
    FILE_NAMES,
    LOCAL_FILE_NAME,
    Instructions,
    NestedInstructions,
    read_instructions,
)
from teamwright.config.agent_types import LIST_BYTES, LOOSE, AgentTypeEntry, AgentTypes, definition_sources
from teamwright.config.output_styles import output_styles, style_text
from teamwright.config.settings.setting_parts import line_in, reason
from teamwright.config.team_file import FILE, read_definition
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.session.agents.specs import TrustedDefinitions, require_possible
from teamwright.skills.rule_files import FOLDER
from teamwright.views.configuration_sources import (
    GROUPS,
    Asset,
    AssetQuery,
    CheckSubject,
    display_path,
    hook_assets,
    load_subject,
    other_assets,
    parse_location,
    plugin_assets,
    remark_state,
    server_assets,
    settings_assets,
    skill_assets,
)

GROUP = "instructions"

MOST = 20_000
"""Maximum number of directories that are searched for instructions."""

_PACKAGES = frozenset({"node_modules", "__pycache__", "site-packages", "vendor", "target", "dist", "build"})
_DEEPER = "loaded when its directory is touched"


def instruction_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield all instruction files, in the order in which a run reads them."""
    cwd = subject.cwd
    root = subject.root
    ours = subject.query.home.own
    begun = read_instructions(cwd, root, ours, subject.compat, subject.trust.trusted_texts)
    yield from _assets(begun, "")
    deeper = NestedInstructions(cwd, root, begun.found, subject.compat, subject.trust.trusted_texts)
    known = {asset.path for asset in (*begun.found, *begun.skipped, *begun.scoped)} | set(begun.import_only)
    places, all_seen = _below(root)
    for place in places:
        deeper.text_for(place / "file")
    yield from (asset for asset in _assets(deeper.result, _DEEPER) if Path(asset.file) not in known)
    for place in places:
        local = place / LOCAL_FILE_NAME
        if subject.compat and local not in known and os.path.isfile(local) and not cwd.is_relative_to(place):
            yield Asset(GROUP, local.name, "ignored", str(local), 0, "only read from the top to where a run begins")
    yield from _styles(subject)
    if not all_seen:
        yield Asset(GROUP, "deeper directories", "ignored", str(root), 0, f"only {MOST:,} were searched")


def _styles(subject: CheckSubject) -> Iterator[Asset]:
    """Yield the output styles: the one in use, and those that the setting does not name."""
    styles = output_styles(subject.query.home, subject.root, compat=subject.compat)
    chosen, _ = style_text(subject.survey.settings.output_style, styles)
    used = next((style for style in styles if chosen and style.text == chosen), None)
    for style in styles:
        if style is used:
            yield Asset(GROUP, style.name, "used", str(style.file), 0, "the output style of the lead")
        else:
            yield Asset(GROUP, style.name, "ignored", str(style.file), 0, "the setting outputStyle does not name it")


def _assets(read: Instructions, why: str) -> Iterator[Asset]:
    for one in read.found:
        yield Asset(GROUP, one.path.name, "used", str(one.path), 0, one.warning.removeprefix(f"{one.path} ") or why)
    for path in read.import_only:
        yield Asset(GROUP, path.name, "used", str(path), 0, "it only imports others")
    for one in read.scoped:
        yield Asset(GROUP, one.path.name, "used", str(one.path), 0, f"loaded when an agent touches {one.about}")
    for one in read.skipped:
        yield Asset(GROUP, one.path.name, one.verdict, str(one.path), one.line, one.reason)


def _below(root: Path) -> tuple[list[Path], bool]:
    """Return the subdirectories with instructions, top first, and True when all were searched."""
    found: list[Path] = []
    for count, (directory, below, files) in enumerate(os.walk(root)):
        if count >= MOST:
            return found, False
        if FOLDER in below or any(name in files for name in (*FILE_NAMES, LOCAL_FILE_NAME)):
            found.append(Path(directory))
        below[:] = sorted(_own(below))
    return found, True


def _own(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith(".") and name not in _PACKAGES]


AGENTS, TEAM, HOOKS = "agents", "team file", "hooks"

_TRUST = "teamwright trust shows it"

SHORTENED = f"its description is shortened in the Agent tool, whose list of types has {LIST_BYTES:,} bytes"


def agent_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield each definition of a file or flag, with its ignored parts. Raises UsageError for a flag's definition."""
    query = subject.query
    plugins = subject.plugins
    places = definition_sources(query.home, subject.root, compat=subject.compat, agents=query.agents, plugins=plugins)
    kinds = AgentTypes(places, None, TrustedDefinitions(query.home, subject.trust, subject.compat))
    shortened = kinds.shortened()
    for entry in kinds.entries():
        if entry.source.source != BUILT_IN:
            yield from _definition(entry, subject, SHORTENED if entry.source.name in shortened else "")


def _definition(entry: AgentTypeEntry, subject: CheckSubject, remark: str) -> Iterator[Asset]:
    found = entry.source
    kind = entry.source.definition
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
        facts = dict(problem.looked_at)
        yield Asset(TEAM, path.name, "broken", str(path), line_in(facts.get("at", "")), _plain(problem))
        return
    if definition is None:
        return
    roles = ", ".join(definition.roles) or "none"
    yield Asset(TEAM, path.name, "used", str(path), 0, f"roles: {roles}")
    for entry in subject.trust.entries:
        if entry.kind == "team file" and not subject.trust.allows(entry):
            why = f"what it would run or widen; {_TRUST}"
            yield Asset(TEAM, entry.name, "needs trust", str(path), 0, why)


READERS = (
    instruction_assets,
    settings_assets,
    agent_assets,
    skill_assets,
    hook_assets,
    server_assets,
    team_assets,
    plugin_assets,
    other_assets,
)


class Assets(Struct, frozen=True):
    """All assets, by group. `root` is the top of the repository, `trusted` is True when a person trusted it."""

    root: str
    trusted: bool
    assets: Sequence[Asset]

    @property
    def counts(self) -> dict[str, int]:
        """The number of assets in each state."""
        states = ("used", "ignored", "needs trust", "broken")
        return {state: sum(asset.state == state for asset in self.assets) for state in states}


def list_assets(query: AssetQuery) -> Assets:
    """Return all assets here. Raises CannotStart for the trust file, UsageError for a flag's value."""
    subject = load_subject(query)
    found = [asset for reader in READERS for asset in reader(subject)]
    order = {group: at for at, group in enumerate(GROUPS)}
    return Assets(str(subject.root), subject.trust.trusted, sorted(found, key=lambda asset: order[asset.group]))
