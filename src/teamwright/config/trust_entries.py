"""The entries of a repository that could run, redirect or widen something, each with a digest of its content.

Nothing is run or trusted here. `settings.merge` decides which entries take effect, `trust` which are trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from teamwright.config.agent_types import FoundDefinition, repository_directories
from teamwright.config.executed_file_digests import run_digests
from teamwright.config.project_mcp_file import FILE as SERVERS_FILE
from teamwright.config.project_mcp_file import SERVERS, describe_server, project_servers
from teamwright.config.repository_programs import git_files, hook_files, line_files, server_files, skill_files
from teamwright.config.settings.files import SettingsLayer, SettingsOrigin, is_user_only_variable, read_layer
from teamwright.config.settings.keys import MODE, setting_keys
from teamwright.config.team_file import FILE, read_definition, widening_of_role, widening_of_team
from teamwright.git.program_settings import person_entries, person_environment
from teamwright.git.repository_risks import GitEntry, git_entries
from teamwright.hooks.hook_definitions import HookSpec, parse_hooks
from teamwright.permissions.executed_files import NOTHING, RunFiles, merge_run_files
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import CannotStart
from teamwright.skills.skill_catalog import MAX_FILE_BYTES, SKILL_FILE, skill_file
from teamwright.skills.skill_definition import SkillKind
from teamwright.storage.files import read_plain

TrustEffect: TypeAlias = Literal["used", "not used yet"]

MAX_FILES = 200
"""Files of one definition directory that go into a digest. With more files, or an unreadable one, the digest is always
new, so that the directory cannot be trusted.
"""

MAX_ENTRIES = 1_000
"""Skills, or commands, of one directory that are read, in the order of their names; 300 of them are used."""

MAX_BYTES = 64_000_000
"""Bytes of one definition directory that go into a digest; the limit works like that of files."""

_COMMANDS = frozenset({"task_check"})
"""Settings of a repository whose value is a command."""

HOOKS = "hooks"
DIRECTORIES = "permissions.additionalDirectories"
STATUS_LINE = "statusLine"
STYLE = "outputStyle"
IMPORT = "import"


class TrustEntry(Struct, frozen=True):
    """One entry of a repository. `file` is relative to its root; `summary` describes its effect in one line."""

    kind: str
    name: str
    file: str
    digest: str
    effect: TrustEffect
    summary: str
    allows: bool = False
    """True when it allows calls that would otherwise need an answer."""
    runs: RunFiles = NOTHING
    """The files of the repository that it would run. The digest covers them."""

    @property
    def key(self) -> str:
        """The key of the entry in `trust.json`."""
        return f"{self.kind} {self.file} {self.name}"

    @property
    def is_asset(self) -> bool:
        """True for what is in no settings file: agents, skills, commands and the servers of `.mcp.json`."""
        return self.kind in {"agent", "skill", "command"} or (self.kind == "mcp server" and self.file == SERVERS_FILE)


def repository_layers(root: Path, compat: bool) -> list[tuple[Path, SettingsOrigin]]:
    """Return the possible settings files of a repository, the nearest last."""
    theirs = [
        (root / ".claude" / "settings.json", SettingsOrigin.COMPAT_SHARED),
        (root / ".claude" / "settings.local.json", SettingsOrigin.COMPAT_LOCAL),
    ]
    ours = [
        (root / ".teamwright" / "settings.json", SettingsOrigin.SHARED),
        (root / ".teamwright" / "settings.local.json", SettingsOrigin.LOCAL),
    ]
    return [*(theirs if compat else []), *ours]


def survey_repository(root: Path, compat: bool = True) -> list[TrustEntry]:
    """Return every entry of the repository that needs trust, in a stable order. Unreadable files are left out."""
    found: list[TrustEntry] = []
    for path, origin in repository_layers(root, compat):
        try:
            layer = read_layer(path, origin)
        except CannotStart:
            continue
        if layer is not None:
            found += layer_entries(layer, root)
    found += _team_file(root)
    found += _servers(root, compat)
    found += _agents(root, compat)
    found += _assets(root, compat)
    found += _imports(root, compat)
    of_person = person_entries(root, person_environment(os.environ))
    found += [_git_entry(root, entry) for entry in (*git_entries(root), *of_person)]
    return sorted(found, key=_rank)


def _rank(entry: TrustEntry) -> int:
    """Return the sort rank: entries that allow calls first, since they also decide on git; then hooks, which run
    automatically.
    """
    return 0 if entry.allows else 1 if entry.kind == "hook" else 2


def layer_entries(layer: SettingsLayer, root: Path) -> list[TrustEntry]:
    """Return the entries of one settings file: each rule, directory, variable and value separately."""
    found: list[TrustEntry] = []
    for name, value in layer.values.items():
        declared = setting_keys()[name].declared
        if not declared.narrows and not declared.user_only and name not in {HOOKS, SERVERS}:
            parts = (one for one in _parts(name, value) if not _is_user_only(name, *one))
            found += [entry_of(layer, root, name, part, inner) for part, inner in parts]
    hooks, _ = parse_hooks(layer.values.get(HOOKS, {}), str(layer.path))
    found += [hook_entry(layer, root, hook) for hook in hooks]
    entries = layer.values.get(SERVERS, {})
    found += [server_entry(root, layer.path, name, entry) for name, entry in entries.items()]
    return found


def _is_user_only(name: str, part: str, value: Any) -> bool:
    """Return True for a variable or a mode that no repository may set, trusted or not."""
    return (name == "env" and is_user_only_variable(part)) or (name == MODE and value == Mode.BYPASS)


def entry_of(layer: SettingsLayer, root: Path, name: str, part: str, value: Any) -> TrustEntry:
    """Return the entry of one part of one setting, as `layer_entries` makes it."""
    if name == STATUS_LINE:
        return _status_line_entry(_relative(layer.path, root), root, value)
    entry = _entry(name, part, _relative(layer.path, root), "used", value)
    if name == STYLE and isinstance(value, str):
        return _with_style(entry, root, value)
    if name == DIRECTORIES and isinstance(value, str):
        return _with_target(entry, root, value)
    return _with_files(root, entry, [value] if name in _COMMANDS and isinstance(value, str) else [])


def _with_style(entry: TrustEntry, root: Path, style: str) -> TrustEntry:
    """Return the entry of an output style, whose digest covers the texts of the repository's styles of this name."""
    from teamwright.config.output_styles import repository_styles

    wanted = style.strip().lower()
    found = [one for one in repository_styles(root, compat=True) if one.name.lower() == wanted]
    if not found:
        return entry
    files = " and ".join(_plain(_relative(one.file, root)) for one in found)
    digest = _digest([entry.digest, *(part for one in found for part in (_relative(one.file, root), one.text))])
    return replace(entry, digest=digest, summary=f"{entry.summary} -> {files}")


def _with_target(entry: TrustEntry, root: Path, directory: str) -> TrustEntry:
    """Return the entry of a directory, whose digest covers the place to which links lead now."""
    named = os.path.normpath(os.path.join(root, os.path.expanduser(directory)))
    real = os.path.realpath(named)
    if real == named:
        return entry
    return replace(entry, digest=_digest([entry.digest, real]), summary=f"{entry.summary} -> {_plain(real)}")


def _status_line_entry(file: str, root: Path, value: Any) -> TrustEntry:
    """Return the entry of a status line. Its digest covers the scripts of the repository that the command names."""
    command = cast("Mapping[str, Any]", value).get("command") if isinstance(value, dict) else None
    text = command if isinstance(command, str) else ""
    found = line_files(root, text)
    parts = [STATUS_LINE, json.dumps(value, sort_keys=True), *run_digests(root, found)]
    summary = f"status line: {' '.join(text.split())}{_in_sandbox(found)}"
    return TrustEntry(STATUS_LINE, "", file, _digest(parts), "used", summary, runs=found)


def hook_entry(layer: SettingsLayer, root: Path, hook: HookSpec) -> TrustEntry:
    """Return the entry of one hook. Its digest covers the hook and the repository's files that it runs, and all of
    `hooks/` beside the settings file.
    """
    name = hook.name
    beside = layer.path.parent / "hooks"
    found = hook_files(root, hook)
    parts = ["hook", name, repr(hook.timeout_s), _tree_digest(beside) if beside.is_dir() else ""]
    parts += [*run_digests(root, found), "sandbox" if hook.is_confined else ""]
    parts += [word for word, holds in (("async", hook.detached), ("wakes", hook.wakes)) if holds]
    parts += [part for part in (hook.shell, hook.wake_text) if part]
    parts += [] if hook.action is None else [json.dumps(asdict(hook.action), sort_keys=True)]
    # The summary is shown whole and without padding that could hide a part: the person who trusts it has read it.
    summary = f"hook: {' '.join(name.split())}{_in_sandbox(found)}"
    return TrustEntry("hook", name, _relative(layer.path, root), _digest(parts), "used", summary, runs=found)


def _in_sandbox(found: RunFiles) -> str:
    """Return the note about a line whose program is not known: it runs in the sandbox."""
    return f" (in the sandbox: {found.unknown})" if found.unknown else ""


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        yield from ((str(part), part) for part in cast("list[Any]", value))
    elif name == "env":
        yield from cast("Mapping[str, Any]", value).items()
    else:
        yield "", value


def _entry(kind: str, name: str, file: str, effect: TrustEffect, value: Any) -> TrustEntry:
    """Return the entry of one value, which is shown whole: the person who trusts it has read it. Only the prompt of a
    role is shortened.
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    what = kind.removeprefix("permissions.")
    shown = text
    if isinstance(value, dict) and isinstance(prompt := cast("dict[str, Any]", value).get("prompt"), str):
        shown = json.dumps({**value, "prompt": _shortened(prompt)}, sort_keys=True, ensure_ascii=False)
    description = _plain(name if name == value else f"{name} {shown}".strip())
    allows = kind == "permissions.allow"
    return TrustEntry(kind, name, file, _digest([kind, name, text]), effect, f"{what}: {description}", allows)


def _team_file(root: Path) -> list[TrustEntry]:
    """Return the entries of the team definition: the `team` part, and each role separately."""
    try:
        definition = read_definition(root / FILE)
    except CannotStart:
        return []
    if definition is None:
        return []
    parts = {name: widening_of_role(role) for name, role in definition.roles.items()}
    parts["team"] = widening_of_team(definition)
    return [team_entry(root, name, values) for name, values in parts.items() if values]


_TEAM_COMMANDS = frozenset({"check", "setup", "checks.integration"})
"""Parts of the team file that are commands."""


def team_entry(root: Path, name: str, parts: Mapping[str, Any]) -> TrustEntry:
    """Return the entry of a role, or of `team`, of the team definition. Its digest covers what its commands run."""
    lines = [parts[key] for key in sorted(_TEAM_COMMANDS & parts.keys()) if isinstance(parts[key], str)]
    return _with_files(root, _entry("team file", name, str(FILE), "used", dict(parts)), lines)


def _with_files(root: Path, entry: TrustEntry, lines: Iterable[str]) -> TrustEntry:
    """Return the entry with a digest that covers the files of the repository that these lines run."""
    found = merge_run_files(line_files(root, line) for line in lines)
    digests = run_digests(root, found)
    return replace(entry, digest=_digest([entry.digest, *digests]), runs=found) if digests else entry


def _servers(root: Path, compat: bool) -> list[TrustEntry]:
    """Return the entries of the servers of `.mcp.json`."""
    found = project_servers(root).servers if compat else dict[str, Any]()
    return [server_entry(root, root / SERVERS_FILE, name, entry) for name, entry in sorted(found.items())]


def server_entry(root: Path, file: Path, name: str, entry: object) -> TrustEntry:
    """Return the entry of one MCP server, shown whole. Its digest covers the repository's files that it names."""
    found = server_files(root, entry)
    parts = ["mcp server", name, json.dumps(entry, sort_keys=True), *run_digests(root, found)]
    summary = f"mcp server: {describe_server(name, entry)}"
    return TrustEntry("mcp server", name, _relative(file, root), _digest(parts), "used", summary, runs=found)


def _agents(root: Path, compat: bool) -> list[TrustEntry]:
    """Return the entries of agent definitions. An unreadable one takes no effect and needs no trust."""
    every = [found for shelf in repository_directories(root, compat) for found in shelf.definitions()]
    return [agent_entry(root, found) for found in every if found.definition is not None]


def agent_entry(root: Path, found: FoundDefinition) -> TrustEntry:
    """Return the entry of a definition. Its digest covers its content and the repository's files that its hooks run;
    the commands of its hooks are shown whole, so that the person who trusts them has read them.
    """
    definition = found.definition
    hooks = definition.hooks if definition is not None else ()
    servers = {name: entry for name, entry in definition.mcp_servers.items() if entry} if definition is not None else {}
    runs = [hook_files(root, hook) for hook in hooks] + [server_files(root, entry) for entry in servers.values()]
    parts = ["agent", found.digest, *(digest for one in runs for digest in run_digests(root, one))]
    summary = f"agent: {found.name}"
    summary += "".join(f"; mcp server: {describe_server(name, entry)}" for name, entry in servers.items())
    summary += "".join(f"; hook: {' '.join(hook.name.split())}" for hook in hooks)
    file = _relative(Path(found.file), root)
    return TrustEntry("agent", found.name, file, _digest(parts), "used", summary, runs=merge_run_files(runs))


def asset_places(compat: bool) -> list[tuple[SkillKind, str]]:
    """Return the directories of a repository with skills and commands, in order of precedence."""
    skills = [".teamwright/skills", *([".claude/skills"] if compat else []), ".agents/skills"]
    commands = [".teamwright/commands", *([".claude/commands"] if compat else [])]
    return [*(("skill", place) for place in skills), *(("command", place) for place in commands)]


def _assets(root: Path, compat: bool) -> Iterator[TrustEntry]:
    for kind, place in asset_places(compat):
        base = root / place
        with suppress(OSError):
            for name in sorted(os.listdir(base))[:MAX_ENTRIES]:
                yield _asset_entry(root, kind, place, base / name)


def _asset_entry(root: Path, kind: SkillKind, place: str, path: Path) -> TrustEntry:
    """Return the entry of a skill, a command, or a directory of commands. Commands that it would run automatically are
    shown whole.

    One whose real path is elsewhere is neither used nor read.
    """
    from teamwright.skills.skill_definition import describe_effects

    file = f"{place}/{path.name}"
    if not Path(os.path.realpath(path)).is_relative_to(root):
        return TrustEntry(
            kind, path.stem, file, _digest(["it leads out of the repository"]), "used", f"{kind}: {path.stem}"
        )
    texts = list(_texts(kind, path))
    does = describe_effects(texts)
    runs = skill_files(root, texts)
    summary = f"{kind}: {path.stem}" + (f"; {does}" if does else "")
    digest = asset_digest(root, path, runs)
    return TrustEntry(kind, path.stem, file, digest, "used", summary, "allows: " in does, runs)


def _imports(root: Path, compat: bool) -> Iterator[TrustEntry]:
    """Yield the entries of texts outside of the repository that its instructions import.

    Agents may write instructions, so each such text needs trust, but not a change of what it says.
    """
    from teamwright.agent.instructions import outside_texts

    for named_by, text in dict.fromkeys(outside_texts(root, compat)):
        file = _relative(named_by, root)
        name = str(text)
        yield TrustEntry(IMPORT, name, file, _digest([IMPORT, name, file]), "used", f"instructions from {name}")


def asset_files(root: Path, kind: SkillKind, path: Path) -> RunFiles:
    """Return the files of the repository that the shell lines of a skill or command run."""
    return skill_files(root, _texts(kind, path))


def _texts(kind: SkillKind, path: Path) -> Iterator[str]:
    """Yield the texts of its files; an unreadable file yields nothing and is never used."""
    files = [skill_file(path) or path / SKILL_FILE] if kind == "skill" else [path]
    if kind == "command" and path.is_dir():
        files = sorted(islice(path.rglob("*.md"), MAX_FILES))
    for file in files:
        with suppress(OSError):
            yield read_plain(file, MAX_FILE_BYTES).decode("utf-8", "replace")


def asset_digest(root: Path, path: Path, runs: RunFiles) -> str:
    """Return the digest of a skill or command: all its content, and the files that its shell lines run (`asset_files`).
    Always new when it cannot be computed.
    """
    found = run_digests(root, runs)
    return _digest([_tree_digest(path), *found]) if found else _tree_digest(path)


def _tree_digest(path: Path) -> str:
    # A link may lead to the whole disk: at most as many files are read as are used.
    below = (p for p in path.rglob("*") if p.is_file())
    files = [path] if path.is_file() else sorted(islice(below, MAX_FILES + 1))
    if len(files) > MAX_FILES:
        return _digest(["too many", os.urandom(8).hex()])
    parts: list[str] = []
    left = MAX_BYTES
    for file in files:
        try:
            content = read_plain(file)
        except OSError:
            return _digest(["unreadable", os.urandom(8).hex()])
        parts += [_relative(file, path.parent), hashlib.sha256(content).hexdigest()]
        left -= len(content)
        if left < 0:
            return _digest(["too much", os.urandom(8).hex()])
    return _digest(parts)


def _git_entry(root: Path, found: GitEntry) -> TrustEntry:
    what = " = ".join(part for part in (found.name, " ".join(found.shown.split())) if part)
    summary = f"git could run a program, or read other files: {_plain(what)}"
    runs = RunFiles(trees=frozenset(git_files(root, found.name)))
    return TrustEntry("git", found.name, _relative(found.file, root), found.digest, "used", summary, runs=runs)


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _shortened(text: str) -> str:
    plain = _plain(text)
    return plain if len(plain) <= 100 else plain[:99] + "…"
