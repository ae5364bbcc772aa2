"""The settings of a person by which git runs programs: which of them run code of the project, and switches against it.

A person may set `filter.x.clean` to `./clean.sh`, or `core.hooksPath` to `.githooks`. Then a fresh clone decides what
git runs. git lists the settings itself, with includes and conditions, and runs nothing for that. Formats:
git-config(1), gitattributes(5), githooks(5).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from teamwright.git.repository import discover
from teamwright.git.unsafe_config import GitEntry, SeenFiles, files_digest, text_digest, unreadable_digest
from teamwright.processes.mentioned_files import is_inside_any, named_code, names_project_code
from teamwright.processes.program_environment import changeable_directories, find_program

TIMEOUT_S = 10.0
_USAGE_ERROR = 129
_MAX_CACHED = 64

_OF_REPOSITORY = frozenset({"local", "worktree"})
"""Scopes whose settings `git_entries` judges."""

_COMMAND_TEXT = """
core.fsmonitor core.sshcommand core.editor core.pager core.askpass core.gitproxy core.alternaterefscommand
sequence.editor diff.external diff.*.textconv diff.*.command filter.*.clean filter.*.smudge filter.*.process
merge.*.driver gpg.program gpg.*.program gpg.*.defaultkeycommand credential.helper credential.*.helper pager.*
interactive.difffilter trailer.*.command trailer.*.cmd uploadpack.packobjectshook hook.*.command tar.*.command
remote.*.uploadpack remote.*.receivepack
"""
_COMMAND_KEYS = frozenset(_COMMAND_TEXT.split())
"""Keys whose value is a command that git runs by itself, without a word of its line that asks for it."""

_HOOKS = "core.hookspath"
_INCLUDES = frozenset({"include.path", "includeif.*.path"})

_KNOWN_FILTER = re.compile(r'"?git-[\w.-]+"?(?: +(?:--?(?:[\w.-]+(?:=[\w.-]+)?)?|"?%f"?|[a-z][a-z-]*))*')
"""A filter of a program that extends git, such as git-lfs, git-crypt and git-annex, as their own setup writes it."""

_KNOWN_DRIVERS = frozenset({"true", "false"})
TEXT_MERGE = "git merge-file --marker-size=%L %A %O %B"
"""The merge of text that git makes without a driver."""

_OFF = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1"})
_PLAIN_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_CONFIG_HOME")


class GitSetting(Struct, frozen=True):
    """One setting. `key` has the section and the last part in lower case; `pattern` has `*` for a subsection.

    `origin` is the absolute path of its file, empty for one that no file contains.
    """

    scope: str
    origin: str
    key: str
    pattern: str
    value: str

    @property
    def name(self) -> str:
        """The subsection."""
        return self.key.split(".", 1)[1].rpartition(".")[0]

    @property
    def is_persons(self) -> bool:
        """True for a setting that does not belong to a repository."""
        return self.scope not in _OF_REPOSITORY


class _Listing(Struct, frozen=True):
    """All settings in one directory, and the files on which they depend."""

    settings: tuple[GitSetting, ...]
    files: SeenFiles
    problem: UnclearSettings | None = None
    """The reason why git cannot list them; None when it did."""


class UnclearSettings(Exception):
    """The settings of a person cannot be listed or switched off. The text and the exit code are git's, or say why."""

    def __init__(self, why: str, exit_code: int = 128) -> None:
        super().__init__(why)
        self.exit_code = exit_code


_listings: dict[tuple[str, tuple[tuple[str, str], ...]], _Listing] = {}
"""Settings by directory and environment, valid while their files do not change."""


def person_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that decide which settings git has for a command of the person."""
    return {
        name: value
        for name, value in env.items()
        if name in _PLAIN_VARIABLES or name.startswith("GIT_CONFIG") or name == "GIT_CEILING_DIRECTORIES"
    }


def list_settings(cwd: Path, env: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> tuple[GitSetting, ...]:
    """Return the settings that git has in a directory. Raises UnclearSettings."""
    key = (os.path.realpath(cwd), tuple(sorted(env.items())))
    known = _listings.get(key)
    if known is not None and known.files.are_unchanged:
        if known.problem is not None:
            raise known.problem
        return known.settings
    while len(_listings) >= _MAX_CACHED:
        _listings.pop(next(iter(_listings)))
    files = SeenFiles()
    for path in _usual_files(cwd, env):
        files.add(path)
    try:
        _require_plain(files.paths)
        found = _list(cwd, env, timeout_s)
    except UnclearSettings as problem:  # git may need all its time to fail
        _listings[key] = _Listing((), files, problem)
        raise
    for setting in found:
        if setting.origin:
            files.add(Path(setting.origin))
        if setting.pattern in _INCLUDES and setting.origin:
            files.add(Path(setting.origin).parent / os.path.expanduser(setting.value))
    _listings[key] = _Listing(found, files)
    return found


def _require_plain(paths: Iterable[Path]) -> None:
    """Raise UnclearSettings for a pipe or a device, which git would read without an end."""
    for path in paths:
        if path.exists() and not (path.is_file() or path.is_dir() or os.path.realpath(path) == os.devnull):
            raise UnclearSettings(f"{path} is no plain file", 124)


def _usual_files(cwd: Path, env: Mapping[str, str]) -> Iterator[Path]:
    home = env.get("HOME", "/")
    yield Path(home, ".gitconfig")
    yield Path(env.get("XDG_CONFIG_HOME") or f"{home}/.config", "git", "config")
    yield Path("/etc/gitconfig")
    yield from (Path(env[name]) for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM") if env.get(name))
    repository = discover(cwd).repository
    if repository is not None:
        yield from (repository.common / "config", repository.git_dir / "config.worktree", repository.git_dir / "HEAD")


def _list(cwd: Path, env: Mapping[str, str], timeout_s: float) -> tuple[GitSetting, ...]:
    found = discover(cwd).repository
    places = (*changeable_directories(), *map(os.path.realpath, (cwd, cwd if found is None else found.tree)))
    git = find_program("git", env.get("PATH", os.defpath), places) or "/nonexistent/git"
    argv = [git, "--no-pager", "config", "--list", "-z", "--show-scope", "--show-origin"]
    without_scope = [word for word in argv if word != "--show-scope"]  # a git before 2.26 does not know it
    for form in (argv, without_scope):
        try:
            done = subprocess.run(
                form, cwd=cwd, env={**env, "LC_ALL": "C"}, capture_output=True, check=False, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            raise UnclearSettings(f"git did not end in {timeout_s:g} s", 124) from None
        except OSError as problem:
            raise UnclearSettings(problem.strerror or str(problem), 127) from None
        if done.returncode == 0:
            return tuple(_parse(os.fsdecode(done.stdout), cwd, has_scope=form is argv))
        if done.returncode != _USAGE_ERROR:
            break
    raise UnclearSettings(done.stderr.decode("utf-8", "replace").strip() or "git cannot list its settings")


def _parse(output: str, cwd: Path, *, has_scope: bool) -> Iterator[GitSetting]:
    fields = output.split("\0")[:-1]
    width = 3 if has_scope else 2
    for at in range(0, len(fields) - width + 1, width):
        scope = fields[at] if has_scope else ""
        origin = fields[at + width - 2]
        text = fields[at + width - 1]
        key, separator, value = text.partition("\n")
        path = origin.removeprefix("file:") if origin.startswith("file:") else ""
        section, _, rest = key.partition(".")
        subsection, _, last = rest.rpartition(".")
        pattern = f"{section}.*.{last}" if subsection else f"{section}.{last}"
        yield GitSetting(
            scope,
            os.path.realpath(os.path.join(cwd, path)) if path else "",
            key,
            "pager.*" if section == "pager" else pattern,
            value if separator else "true",
        )


def person_switches(cwd: Path, env: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> tuple[str, ...]:
    """Return the switches of a git call by which no setting of the person runs code of the project.

    Filters, merge drivers and configured hooks are switched off, but for those of programs that extend git. Settings of
    the repository stay: `git_entries` judges them, and a person may have trusted them. Raises UnclearSettings.
    """
    last = {setting.key: setting for setting in list_settings(cwd, env, timeout_s)}
    switched: dict[str, str] = {}
    for key, setting in last.items():
        if setting.is_persons:
            switched |= _switches_against(key, setting)
    unclear = next((key for key in switched if "=" in key or "\n" in key), "")
    if unclear:
        raise UnclearSettings(f"the setting {unclear[:60]!r} cannot be switched off")
    return tuple(part for key, value in switched.items() for part in ("-c", f"{key}={value}"))


def _switches_against(key: str, setting: GitSetting) -> dict[str, str]:
    begin = key.rpartition(".")[0]
    match setting.pattern:
        case "filter.*.clean" | "filter.*.smudge" | "filter.*.process":
            fine = not setting.value or _KNOWN_FILTER.fullmatch(setting.value)
            return {} if fine else {key: "", f"{begin}.required": "false"}
        case "merge.*.driver":
            return {} if setting.value in _KNOWN_DRIVERS else {key: TEXT_MERGE}
        case "hook.*.command":
            return {f"{begin}.enabled": "false", f"{begin}.event": ""}
        case "remote.*.uploadpack":
            return {key: "git-upload-pack"}
        case "uploadpack.packobjectshook":
            return {key: "env"}
        case "tar.*.command":
            return {key: "false"}
        case _:
            return {}


def person_entries(start: Path, env: Mapping[str, str]) -> tuple[GitEntry, ...]:
    """Return the settings of a person by which a git command in this directory runs code of the project.

    The digest of each covers the files that it names.
    """
    found = discover(start).repository
    if found is None:
        return ()
    try:
        settings = list_settings(found.tree, env)
    except UnclearSettings as problem:
        return () if problem.exit_code == 127 else (GitEntry(start, "unclear settings", unreadable_digest()),)
    tops = (str(found.tree),)
    entries: list[GitEntry] = []
    for setting in {one.key: one for one in settings}.values():
        paths = _code_of(setting, found.tree, tops) if setting.is_persons else None
        if paths is not None:
            digest = text_digest(setting.value.encode(errors="surrogateescape"), files_digest(paths, found.tree))
            entries.append(GitEntry(Path(setting.origin or "/"), setting.key, digest, setting.value))
    return tuple(entries)


class GitCode(Struct, frozen=True):
    """Code and settings that git obeys in a work tree although no command line names them.

    `commands` are values of settings, `hooks` directories of hooks, `files` configurations that others include. Real
    paths, also missing ones.
    """

    commands: tuple[str, ...] = ()
    hooks: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()


def _runs_code_of(value: str, tree: Path) -> bool:
    return value.lower() not in _OFF and not _KNOWN_FILTER.fullmatch(value) and names_project_code(value, tree)


def find_git_code(start: Path, env: Mapping[str, str]) -> GitCode:
    """Return what git obeys in the work tree of this directory by the settings of the repository and of the person."""
    found = discover(start).repository
    if found is None:
        return GitCode()
    try:
        settings = list_settings(found.tree, env)
    except UnclearSettings:
        return GitCode()
    tree = str(found.tree)
    commands: list[str] = []
    hooks: list[Path] = []
    files = [Path(one.origin) for one in settings if one.origin]
    for setting in settings:
        value = os.path.expanduser(setting.value)
        if setting.pattern == _HOOKS and value:
            hooks.append(Path(os.path.realpath(os.path.join(tree, value))))
        elif setting.pattern in _INCLUDES and setting.origin:
            files.append(Path(os.path.realpath(os.path.join(os.path.dirname(setting.origin), value))))
        elif setting.pattern in _COMMAND_KEYS and _runs_code_of(value, found.tree):
            commands.append(value)

    def is_of_tree(path: Path) -> bool:
        inside = path != found.tree and path.is_relative_to(tree)
        return inside and not any(path.is_relative_to(place) for place in (found.git_dir, found.common))

    unique = dict.fromkeys
    return GitCode(
        tuple(unique(commands)), tuple(filter(is_of_tree, unique(hooks))), tuple(filter(is_of_tree, unique(files)))
    )


def _code_of(setting: GitSetting, tree: Path, tops: tuple[str, ...]) -> list[Path] | None:
    """Return the files of the work tree that a setting makes git run; None when it runs no code of the project."""
    value = setting.value
    if setting.pattern == _HOOKS:
        place = Path(os.path.realpath(os.path.join(tree, os.path.expanduser(value))))
        is_projects = bool(value) and is_inside_any(str(place), tops) and place.is_dir()
        return [place] if is_projects and any(place.iterdir()) else None
    if setting.pattern not in _COMMAND_KEYS or value.lower() in _OFF:
        return None
    if setting.pattern.startswith("filter.") and _KNOWN_FILTER.fullmatch(value):
        return None
    if setting.origin and is_inside_any(setting.origin, tops):
        return [*named_code(value, tree), Path(setting.origin)]
    return named_code(value, tree) if names_project_code(value, tree, tops[1:]) else None
